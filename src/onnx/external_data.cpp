#include "onnx/external_data.h"

#include <algorithm>
#include <system_error>

#include "base/error.h"
#include "base/text.h"

namespace kilter::onnx {

namespace fs = std::filesystem;

namespace {

struct Entry {
  std::string location;
  int64_t offset = 0;
  int64_t length = -1;  ///< -1: as many bytes as the tensor needs
};

int64_t number(const std::string& file, const std::string& what, std::string_view key, const std::string& value) {
  const auto parsed = try_parse_int(value);
  if (!parsed || *parsed < 0) {
    fail(ErrorKind::bad_model, "{}: {}: external data have {} {}; expected a whole number of bytes, 0 or more", file,
         what, key, quote(value));
  }
  return *parsed;
}

Entry parse(const pb::TensorProto& tensor, const std::string& file, const std::string& what) {
  Entry entry;
  for (const auto& pair : tensor.external_data()) {
    if (pair.key() == "location") entry.location = pair.value();
    if (pair.key() == "offset") entry.offset = number(file, what, "offset", pair.value());
    if (pair.key() == "length") entry.length = number(file, what, "length", pair.value());
  }
  return entry;
}

bool is_under(const fs::path& path, const fs::path& folder) {
  const auto [end, ignored] = std::mismatch(folder.begin(), folder.end(), path.begin(), path.end());
  return end == folder.end();
}

}  // namespace

DataFolders data_folders(const fs::path& path, const fs::path& target) {
  const auto folder = [](const fs::path& file) { return file.has_parent_path() ? file.parent_path() : fs::path("."); };
  DataFolders folders{folder(path)};
  if (target != path) folders.push_back(folder(target));
  return folders;
}

void ExternalData::refuse(const std::string& location, const std::string& what, std::string_view why) const {
  fail(ErrorKind::bad_model,
       "{}: {}: external data location {} {}; expected a relative path to a file under the model's folder{}", file_,
       what, quote(location), why, folders_.size() > 1 ? " or that of the file that the model's link points to" : "");
}

void ExternalData::check(const std::string& location, const std::string& what) const {
  const fs::path relative(location);
  if (location.empty()) refuse(location, what, "is empty");
  if (location.find('\0') != std::string::npos) refuse(location, what, "has a zero byte");
  if (relative.is_absolute()) refuse(location, what, "is an absolute path");
  if (std::find(relative.begin(), relative.end(), fs::path("..")) != relative.end())
    refuse(location, what, "leaves the folder through '..'");
}

/// Returns the folders with symbolic links resolved.
DataFolders ExternalData::roots() const {
  DataFolders roots;
  for (const fs::path& folder : folders_) {
    std::error_code code;
    roots.push_back(fs::canonical(folder, code));
    if (code) fail(ErrorKind::io, "{}: the model's folder '{}': {}", file_, folder.string(), code.message());
  }
  return roots;
}

/// Returns the file that the location leads to, from the first folder that contains it.
fs::path ExternalData::resolve(const DataFolders& roots, const std::string& location, const std::string& what) const {
  std::error_code first;
  for (const fs::path& root : roots) {
    std::error_code code;
    fs::path path = fs::canonical(root / location, code);
    if (!code) return path;
    if (!first) first = code;
  }
  const fs::path missing = folders_.front() / location;
  std::error_code ignored;
  const fs::path link = fs::is_symlink(missing, ignored) ? fs::read_symlink(missing, ignored) : fs::path();
  fail(ErrorKind::io, "{}: {}: cannot read external data file '{}'{}: {}; put the file next to the model", file_, what,
       missing.string(), link.empty() ? "" : fmt::format(", a symbolic link to '{}'", link.string()), first.message());
}

std::shared_ptr<const MappedFile> ExternalData::open(const std::string& location, const std::string& what) const {
  check(location, what);
  const DataFolders allowed = roots();
  const fs::path path = resolve(allowed, location, what);
  const auto root = std::ranges::find_if(allowed, [&](const fs::path& r) { return is_under(path, r); });
  if (root == allowed.end()) refuse(location, what, "is a symbolic link that leaves the folder");
  std::error_code code;
  if (!fs::is_regular_file(path, code)) refuse(location, what, "is not a regular file");
  return MappedFile::open_below(*root, path.lexically_relative(*root));
}

std::shared_ptr<const MappedFile> ExternalData::map(const std::string& location, const std::string& what) {
  const auto known = files_.find(location);
  if (known != files_.end()) return known->second;
  if (folders_.empty()) {
    fail(ErrorKind::bad_model,
         "{}: {} keeps its data in the file {}, but the model was read from memory; load it from "
         "its file",
         file_, what, quote(location));
  }
  auto file = open(location, what);
  files_.emplace(location, file);
  return file;
}

ExternalData::Range ExternalData::find(const pb::TensorProto& tensor, int64_t expected_bytes, const std::string& what) {
  const Entry entry = parse(tensor, file_, what);
  if (entry.length >= 0 && entry.length != expected_bytes) {
    fail(ErrorKind::bad_model, "{}: {}: expected {} bytes of external data for its type and shape, got length {}",
         file_, what, expected_bytes, entry.length);
  }
  Range range{map(entry.location, what), {}};
  const auto size = static_cast<int64_t>(range.file->bytes().size());
  if (entry.offset > size || expected_bytes > size - entry.offset) {
    fail(ErrorKind::bad_model,
         "{}: {}: expected {} bytes at offset {} of external data file {}, got a file of {} bytes; the file is "
         "truncated or belongs to another model",
         file_, what, expected_bytes, entry.offset, quote(entry.location), size);
  }
  range.bytes = range.file->bytes().subspan(static_cast<size_t>(entry.offset), static_cast<size_t>(expected_bytes));
  return range;
}

}  // namespace kilter::onnx
