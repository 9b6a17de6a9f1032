#include "record_keeper.h"

#include <fmt/format.h>

namespace kilter::tool {
namespace {

/// Seconds to wait for other processes that have locked the file. Measuring stops while waiting, except at the end.
constexpr double kBetween = 2, kAtTheEnd = 120;

}  // namespace

RecordKeeper::RecordKeeper(tune::Store& store, std::function<void(const std::string&)> tell)
    : store_(store), tell_(std::move(tell)) {
  store_.wait_for_others(kBetween);
}

void RecordKeeper::keep(std::span<const tune::Record> records) {
  unwritten_.insert(unwritten_.end(), records.begin(), records.end());
  write();
}

std::string RecordKeeper::finish() {
  store_.wait_for_others(kAtTheEnd);
  write();
  if (fault_.empty() && refused_.empty()) make_file();
  return fault_.empty() ? refused_ : fault_;
}

void RecordKeeper::make_file() {
  try {
    store_.append(std::span<const tune::Record>());
  } catch (const Error& e) {
    note(e);
  }
}

void RecordKeeper::write() {
  if (unwritten_.empty()) return;
  try {
    store_.append(unwritten_);
    unwritten_.clear(), fault_.clear();
  } catch (const Error& e) {
    e.kind() == ErrorKind::bad_input ? write_apart() : note(e);
  }
}

void RecordKeeper::write_apart() {
  std::vector<tune::Record> all, refused;
  all.swap(unwritten_);
  fault_.clear();
  std::string why;
  for (const tune::Record& record : all) {
    if (!fault_.empty()) {
      unwritten_.push_back(record);
      continue;
    }
    try {
      store_.append(record);
    } catch (const Error& e) {
      if (e.kind() != ErrorKind::bad_input) {
        unwritten_.push_back(record);
        note(e);
      } else {
        refused.push_back(record), why = e.message();
      }
    }
  }
  if (refused.size() == all.size() && all.size() > 1) {  // the file is at fault, not the records
    unwritten_ = std::move(refused);
    note(Error(ErrorKind::bad_input, why));
  } else if (!refused.empty() && refused_.empty()) {
    refused_ = fmt::format("{}; the record is skipped", why);
    tell_(refused_);
  }
}

void RecordKeeper::note(const Error& e) {
  fault_ = e.message();
  if (!told_) tell_(fmt::format("{}; writing these records is retried until the run ends", fault_));
  told_ = true;
}

}  // namespace kilter::tool
