#include "onnx/external_data.h"

#include <algorithm>
#include <system_error>

#include "base/error.h"
#include "base/text.h"

namespace kilter::onnx {
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

bool is_under(const std::filesystem::path& path, const std::filesystem::path& folder) {
  const auto [end, ignored] = std::mismatch(folder.begin(), folder.end(), path.begin(), path.end());
  return end == folder.end();
}

}  // namespace

std::filesystem::path ExternalData::resolve(const std::string& location, const std::string& what) const {
  namespace fs = std::filesystem;
  const auto refuse = [&](std::string_view why) {
    fail(ErrorKind::bad_model,
         "{}: {}: external data location {} {}; expected a relative path to a file under the model's folder", file_,
         what, quote(location), why);
  };
  const fs::path relative(location);
  if (location.empty()) refuse("is empty");
  if (location.find('\0') != std::string::npos) refuse("has a zero byte");
  if (relative.is_absolute()) refuse("is an absolute path");
  if (std::find(relative.begin(), relative.end(), fs::path("..")) != relative.end())
    refuse("leaves the folder by '..'");
  std::error_code code;
  const fs::path root = fs::canonical(folder_, code);
  if (code) fail(ErrorKind::io, "{}: the model's folder '{}': {}", file_, folder_.string(), code.message());
  const fs::path path = fs::canonical(root / relative, code);
  if (code) {
    fail(ErrorKind::io, "{}: {}: cannot read external data file '{}': {}; put the file beside the model", file_, what,
         (folder_ / relative).string(), code.message());
  }
  if (!is_under(path, root)) refuse("is a symbolic link that leaves the folder");
  if (!fs::is_regular_file(path, code)) refuse("is not a regular file");
  return path;
}

std::shared_ptr<const MappedFile> ExternalData::map(const std::string& location, const std::string& what) {
  const auto known = files_.find(location);
  if (known != files_.end()) return known->second;
  if (folder_.empty()) {
    fail(ErrorKind::bad_model,
         "{}: {} keeps its data in the file {}, but the model was read from memory; load it from "
         "its file",
         file_, what, quote(location));
  }
  auto file = MappedFile::open(resolve(location, what));
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
