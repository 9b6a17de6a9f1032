#include "base/npz.h"

#include <algorithm>

#include "base/error.h"
#include "base/files.h"
#include "base/npy.h"
#include "base/text.h"

namespace kilter {
namespace {

/// The records of a ZIP archive: signatures, sizes without names, and the places of fields.
constexpr uint32_t kEnd = 0x06054b50, kEntry = 0x02014b50, kFile = 0x04034b50;
constexpr size_t kEndBytes = 22, kEntryBytes = 46, kFileBytes = 30, kMostComment = 0xffff;

class Archive {
 public:
  Archive(std::span<const std::byte> bytes, std::string_view where) : bytes_(bytes), where_(where) {}

  std::vector<std::pair<std::string, Tensor>> read() const {
    const size_t end = find_end();
    const size_t count = number(end + 10, 2);
    size_t at = number(end + 16, 4);
    if (count == 0xffff || at == 0xffffffff) large();
    std::vector<std::pair<std::string, Tensor>> arrays;
    for (size_t i = 0; i < count; ++i) {
      need(at, kEntryBytes, kEntry);
      const size_t name_bytes = number(at + 28, 2);
      need(at + kEntryBytes, name_bytes);
      const std::string name(reinterpret_cast<const char*>(bytes_.data()) + at + kEntryBytes, name_bytes);
      arrays.push_back(array(name, at));
      at += kEntryBytes + name_bytes + number(at + 30, 2) + number(at + 32, 2);
    }
    return arrays;
  }

 private:
  [[noreturn]] void damaged(size_t at) const {
    fail(ErrorKind::bad_input, "{}: damaged .npz archive: expected a record at byte {} of {}, but there is none",
         where_, at, bytes_.size());
  }
  [[noreturn]] void large() const {
    fail(ErrorKind::bad_input, "{}: .npz archives of 4 GiB or more are not supported; save the arrays as .npy files",
         where_);
  }

  /// Returns a little-endian number of 2 or 4 bytes.
  size_t number(size_t at, size_t size) const {
    size_t value = 0;
    for (size_t i = 0; i < size; ++i) value |= static_cast<size_t>(bytes_[at + i]) << (8 * i);
    return value;
  }
  void need(size_t at, size_t size) const {
    if (at > bytes_.size() || size > bytes_.size() - at) damaged(at);
  }
  void need(size_t at, size_t size, uint32_t signature) const {
    need(at, size);
    if (number(at, 4) != signature) damaged(at);
  }

  /// Returns the place of the record that ends an archive. A comment may follow it.
  size_t find_end() const {
    for (size_t back = kEndBytes; back <= std::min(bytes_.size(), kEndBytes + kMostComment); ++back) {
      const size_t at = bytes_.size() - back;
      if (number(at, 4) == kEnd && number(at + 20, 2) == back - kEndBytes) return at;
    }
    fail(ErrorKind::bad_input,
         "{}: not an .npz file: it has no directory at its end; the file is cut off or in another format", where_);
  }

  /// Reads the array of a directory entry.
  std::pair<std::string, Tensor> array(std::string name, size_t entry) const {
    const std::string shown = printable(name);
    if (!name.ends_with(".npy"))
      fail(ErrorKind::bad_input, "{}: contains '{}', expected only .npy files", where_, shown);
    if (number(entry + 10, 2) != 0)
      fail(ErrorKind::bad_input, "{}: '{}' is compressed; write the file with numpy.savez, not with savez_compressed",
           where_, shown);
    const size_t size = number(entry + 20, 4), file = number(entry + 42, 4);
    if (size == 0xffffffff || file == 0xffffffff) large();
    need(file, kFileBytes, kFile);
    const size_t begin = file + kFileBytes + number(file + 26, 2) + number(file + 28, 2);
    need(begin, size);
    name.resize(name.size() - std::string_view(".npy").size());
    return {std::move(name), parse_npy(bytes_.subspan(begin, size), fmt::format("{}: '{}'", where_, shown))};
  }

  std::span<const std::byte> bytes_;
  std::string_view where_;
};

}  // namespace

std::vector<std::pair<std::string, Tensor>> parse_npz(std::span<const std::byte> bytes, std::string_view where) {
  return Archive(bytes, where).read();
}

std::vector<std::pair<std::string, Tensor>> load_npz(const std::filesystem::path& path) {
  return parse_npz(MappedFile::open(path)->bytes(), path.string());
}

}  // namespace kilter
