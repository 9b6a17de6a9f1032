#include "record_keeper.h"

#include <fmt/format.h>

#include "base/error.h"

namespace kilter::tool {

void RecordKeeper::keep(std::span<const tune::Record> records) {
  unwritten_.insert(unwritten_.end(), records.begin(), records.end());
  write();
}

std::string RecordKeeper::finish() {
  write();
  return fault_;
}

void RecordKeeper::write() {
  if (unwritten_.empty()) return;
  try {
    store_.append(unwritten_);
    unwritten_.clear(), fault_.clear();
  } catch (const Error& e) {
    fault_ = e.message();
    if (!told_) tell_(fmt::format("{}; until the run ends these records are tried again", fault_));
    told_ = true;
  }
}

}  // namespace kilter::tool
