#include "tune/records/store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <system_error>

#include "base/error.h"
#include "base/files.h"
#include "tune/records/place.h"

namespace kilter::tune {

bool Filter::admits(const Record& r) const {
  const auto has = [](const std::string& text, const std::string& part) {
    return part.empty() || text.find(part) != std::string::npos;
  };
  if (!problem.empty() && r.problem != problem) return false;
  if (!has(r.problem, contains)) return false;
  if (!has(r.conditions.device, device) && !has(r.conditions.target, device)) return false;
  if (!network.empty() && r.network != network) return false;
  if (!source.empty() && r.source != source && !r.source.starts_with(source + " ")) return false;
  if (status && r.status != *status) return false;
  return !threads || r.conditions.threads == *threads;
}

std::filesystem::path default_records_file() {
  const char* data = std::getenv("XDG_DATA_HOME");
  if (data != nullptr && *data != '\0') return std::filesystem::path(data) / "kilter" / "records.db";
  const char* home = std::getenv("HOME");
  if (home == nullptr || *home == '\0')
    fail(ErrorKind::usage, "records: neither XDG_DATA_HOME nor HOME is set; give the file of records");
  return std::filesystem::path(home) / ".local" / "share" / "kilter" / "records.db";
}

bool is_json_lines(const std::filesystem::path& file) {
  return file.extension() == ".jsonl" || file.extension() == ".json";
}

bool is_database(const std::filesystem::path& file) {
  constexpr std::string_view kMagic = "SQLite format 3";
  std::array<char, kMagic.size()> start{};
  std::ifstream in(file, std::ios::binary);
  return in.read(start.data(), start.size()) && std::string_view(start.data(), start.size()) == kMagic;
}

bool should_be_database(const std::filesystem::path& file) {
  std::error_code ignored;
  return file.extension() == ".db" || std::filesystem::exists(file.string() + "-wal", ignored);
}

void fail_damaged_header(const std::filesystem::path& file) {
  fail(ErrorKind::bad_input,
       "records {}: not an SQLite database, or its header is damaged. Restore a copy, or move the file and {}-wal away "
       "and tune again (`kilter records import {}` reads the file if it is a text file of records)",
       file.string(), file.filename().string(), file.string());
}

void fail_newer_schema(const std::string& name, int64_t version, int64_t known) {
  fail(ErrorKind::unsupported,
       "records {}: written by a newer version of Kilter (schema {}, this program writes {}); nothing was changed: use "
       "that version, or another file of records; reading works if the columns are the same, as with `kilter records "
       "export --records {} --output FILE.jsonl`",
       name, version, known, name);
}

std::string newer_schema_notice(const std::string& name, int64_t version, int64_t known) {
  return fmt::format(
      "records {}: written by a newer version of Kilter (schema {}, this program knows {}); it is read as far as "
      "possible, but not written",
      name, version, known);
}

namespace {

bool has_default() { return std::getenv("HOME") != nullptr || std::getenv("XDG_DATA_HOME") != nullptr; }

bool is_default(const std::filesystem::path& file) { return has_default() && file == default_records_file(); }

}  // namespace

void make_default_folder(const std::filesystem::path& file) {
  const std::filesystem::path folder = file.parent_path();
  if (!has_default() || folder != default_records_file().parent_path()) return;
  std::error_code ignored;
  std::filesystem::create_directories(folder.parent_path(), ignored);
  static_cast<void>(::mkdir(folder.c_str(), S_IRWXU));  // if this fails, opening the file reports why
}

namespace {

/// Throws io if the file cannot be created, so that the error comes before minutes of work, not with the first record.
/// The default file's folder is created with it; the folder of any other file must exist.
void check_place(const std::filesystem::path& file) {
  std::error_code ignored;
  std::filesystem::path folder = file.has_parent_path() ? file.parent_path() : ".";
  if (!std::filesystem::is_directory(folder, ignored) && !is_default(file)) {
    fail(ErrorKind::io, "records {}: there is no folder {}; create it, or give another file", file.string(),
         folder.string());
  }
  while (!std::filesystem::exists(folder, ignored) && folder.has_relative_path()) folder = folder.parent_path();
  // Only trying to create a file shows this: by the mode bits, root may write everywhere, yet root cannot create files
  // in /proc.
  std::string probe = (folder / ".kilter-XXXXXX").string();
  if (const int fd = ::mkostemp(probe.data(), O_CLOEXEC); fd >= 0) {
    ::close(fd);
    ::unlink(probe.c_str());
    return;
  }
  fail(ErrorKind::io, "records {}: cannot be created in {}: {}; give another file of records", file.string(),
       folder.string(), std::generic_category().message(errno));
}

std::unique_ptr<Store> open_by_kind(const std::filesystem::path& file, Store::Mode mode, const StoreOptions& options) {
  if (!is_database(file) && is_json_lines(file)) return open_json_store(file, mode, options);
  return open_sqlite_store(file, mode, options);
}

/// A missing file that is created when records are first added, so that a run that fails earlier leaves no file.
class LateStore : public Store {
 public:
  LateStore(const std::filesystem::path& file, const StoreOptions& options) : Store(file.string()), options_(options) {
    check_place(file);
  }

  int64_t append(std::span<const Record> records) override {
    for (const Record& r : records) check(r);
    return store().append(records);
  }
  Reading read(const Filter& filter) override { return exists() ? store().read(filter) : Reading{}; }
  int64_t remove(const std::set<std::string>& ids) override { return exists() ? store().remove(ids) : 0; }
  std::vector<std::string> check_file() override {
    return exists() ? store().check_file() : std::vector<std::string>{};
  }
  void wait_for_others(double seconds) override {
    options_.busy_seconds = seconds;
    if (store_ != nullptr) store_->wait_for_others(seconds);
  }

 private:
  /// Another process may have created the file meanwhile.
  bool exists() const { return store_ != nullptr || !is_missing(name()); }
  Store& store() {
    if (store_ == nullptr) {
      make_default_folder(name());
      store_ = open_by_kind(name(), Mode::write, options_);
    }
    return *store_;
  }

  StoreOptions options_;
  std::unique_ptr<Store> store_;
};

}  // namespace

std::unique_ptr<Store> Store::open(const std::string& place, Mode mode, const StoreOptions& options) {
  if (is_server(place)) return open_postgres_store(place, mode, options);
  const std::filesystem::path file = place;
  std::error_code ignored;
  const auto status = std::filesystem::status(file, ignored);
  if (std::filesystem::is_directory(status))
    fail(ErrorKind::io, "records {}: it is a directory; expected a database or a file of JSON lines", file.string());
  if (mode == Mode::read && !std::filesystem::exists(status)) {
    fail(ErrorKind::io,
         "records {}: no such file; `kilter tune MODEL{}` creates it, `kilter records import` brings records from "
         "elsewhere, or give another file of records",
         file.string(), is_default(file) ? "" : " --records " + file.string());
  }
  if (mode == Mode::write && is_missing(file)) return std::make_unique<LateStore>(file, options);
  return open_by_kind(file, mode, options);
}

}  // namespace kilter::tune
