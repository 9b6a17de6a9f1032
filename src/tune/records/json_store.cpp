// Records as JSON lines. Writers lock the file for each append. If a process is stopped while it writes a line, the
// damaged line stays in the file, and the next record starts on a new line.

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/files.h"
#include "base/text.h"
#include "tune/records/locked_file.h"
#include "tune/records/store.h"

namespace kilter::tune {
namespace {

/// Calls `each` with the number (from 1) and text of every non-empty line.
template <class Each>
void for_lines(std::string_view text, Each each) {
  int64_t number = 0;
  size_t at = 0;
  while (at < text.size()) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = trim(text.substr(at, end - at));
    ++number;
    at = end + 1;
    if (!line.empty()) each(number, line);
  }
}

/// Returns the id of the record in a line; empty if the line is not a sound record.
std::optional<std::string> id_of(std::string_view line) {
  try {
    return record_from_line(line).id();
  } catch (const Error&) {
    return std::nullopt;
  }
}

class JsonStore : public Store {
 public:
  JsonStore(const std::filesystem::path& file, Mode mode, const StoreOptions& options)
      : Store(file.string()), options_(options) {
    if (mode == Mode::write) LockedFile(name(), options_.busy_seconds);
  }

  void wait_for_others(double seconds) override { options_.busy_seconds = seconds; }

  int64_t append(std::span<const Record> records) override {
    for (const Record& r : records) check(r);
    const LockedFile file(name(), options_.busy_seconds);
    learn_ids(file);
    std::string text;
    std::set<std::string> fresh;
    for (const Record& r : records) {
      const std::string id = r.id();
      if (ids_.contains(id) || !fresh.insert(id).second) continue;
      text += to_line(r) + "\n";
    }
    if (text.empty()) return 0;
    if (unfinished_) text.insert(text.begin(), '\n');
    file.append(text);
    seen_ += static_cast<int64_t>(text.size());
    unfinished_ = false;
    ids_.insert(fresh.begin(), fresh.end());
    return static_cast<int64_t>(fresh.size());
  }

  Reading read(const Filter& filter) override {
    Reading reading;
    std::set<std::string> ids;
    for_lines(read_file(name()), [&](int64_t number, std::string_view line) {
      try {
        Record record = record_from_line(line);
        if (filter.admits(record) && ids.insert(record.id()).second) reading.records.push_back(std::move(record));
      } catch (const Error& e) {
        auto& list = e.kind() == ErrorKind::unsupported ? reading.newer : reading.damaged;
        list.push_back(fmt::format("{}: line {}: skipped: {}", name(), number, e.message()));
      }
    });
    return reading;
  }

  int64_t remove(const std::set<std::string>& ids) override {
    const LockedFile file(name(), options_.busy_seconds);
    std::string kept;
    int64_t removed = 0;
    for_lines(file.from(0), [&](int64_t, std::string_view line) {
      const std::optional<std::string> id = id_of(line);
      if (id && ids.contains(*id)) {
        ++removed;
      } else {
        kept += line, kept += '\n';
      }
    });
    // Readers see either the old file or the new one, even if this process is killed; waiting writers open the new one.
    if (removed > 0) write_file_atomically(name(), kept);
    return removed;
  }

  std::vector<std::string> check_file() override {
    const std::string text = read_file(name());
    if (text.empty() || text.back() == '\n') return {};
    return {"the last line is incomplete: a writer was stopped while writing it"};
  }

 private:
  /// Reads the ids of records that other processes have written since the last call.
  void learn_ids(const LockedFile& file) {
    if (file.size() < seen_ || file.inode() != inode_) seen_ = 0, unfinished_ = false, ids_.clear();
    inode_ = file.inode();
    const std::string news = file.from(seen_);
    for_lines(news, [&](int64_t, std::string_view line) {
      if (const std::optional<std::string> id = id_of(line)) ids_.insert(*id);
    });
    if (!news.empty()) unfinished_ = news.back() != '\n';
    seen_ += static_cast<int64_t>(news.size());
  }

  StoreOptions options_;
  std::set<std::string> ids_;
  uint64_t inode_ = 0;
  int64_t seen_ = 0;  ///< bytes of the file whose ids are known
  bool unfinished_ = false;
};

}  // namespace

std::unique_ptr<Store> open_json_store(const std::filesystem::path& file, Store::Mode mode,
                                       const StoreOptions& options) {
  return std::make_unique<JsonStore>(file, mode, options);
}

}  // namespace kilter::tune
