#include "tune/records/store.h"

#include <array>
#include <cstdlib>
#include <fstream>

#include "base/error.h"

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
    fail(ErrorKind::usage, "records: neither XDG_DATA_HOME nor HOME is set; give the file with --records FILE");
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
       "records {}: it does not begin as an SQLite database does: its header is damaged, or it never was one. Put a "
       "copy "
       "back, or move it away with what is beside it ({}-wal), and tune again; text with records is read by `kilter "
       "records import {}`",
       file.string(), file.filename().string(), file.string());
}

namespace {

bool is_default(const std::filesystem::path& file) {
  const bool home = std::getenv("HOME") != nullptr || std::getenv("XDG_DATA_HOME") != nullptr;
  return home && file == default_records_file();
}

/// The default file's folder is made; of a file that somebody names it has to be there.
void make_folder_of(const std::filesystem::path& file) {
  std::error_code ignored;
  const std::filesystem::path folder = file.parent_path();
  if (std::filesystem::exists(folder, ignored)) return;
  if (is_default(file)) {
    std::filesystem::create_directories(folder, ignored);
    return;
  }
  fail(ErrorKind::io, "records {}: there is no folder {}; make it, or give another file", file.string(),
       folder.string());
}

}  // namespace

std::unique_ptr<Store> Store::open(const std::filesystem::path& file, Mode mode, const StoreOptions& options) {
  std::error_code ignored;
  const auto status = std::filesystem::status(file, ignored);
  if (std::filesystem::is_directory(status))
    fail(ErrorKind::io, "records {}: it is a directory; expected a database or a file of JSON lines", file.string());
  if (mode == Mode::read && !std::filesystem::exists(status)) {
    fail(
        ErrorKind::io,
        "records {}: no such file; `kilter tune MODEL{}` measures and makes it, `kilter records import` brings records "
        "from elsewhere, or give another with --records FILE",
        file.string(), is_default(file) ? "" : " --records " + file.string());
  }
  if (mode == Mode::write && file.has_parent_path()) make_folder_of(file);
  if (!is_database(file) && is_json_lines(file)) return open_json_store(file, mode, options);
  return open_sqlite_store(file, mode, options);
}

}  // namespace kilter::tune
