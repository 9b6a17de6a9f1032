#include "exec/file_container.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "base/align.h"
#include "base/error.h"
#include "base/files.h"
#include "base/hash.h"
#include "base/out_of_memory.h"
#include "exec/file_hash.h"

namespace kilter {
namespace {

constexpr size_t kMagicBytes = 8;
constexpr size_t kHeaderBytes = 64;
constexpr size_t kFileHashAt = 32;
constexpr size_t kRowBytes = 24;
constexpr size_t kPage = 4096;
constexpr size_t kConstantAlignment = 64;
constexpr std::array<std::string_view, 3> kSectionNames = {"meta", "code", "constants"};
enum SectionKind : uint32_t { kMeta = 1, kCode = 2, kConstants = 3 };

void put(std::string& out, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i) & 0xff);
}

uint64_t get(std::span<const std::byte> bytes, size_t at, size_t count) {
  uint64_t value = 0;
  for (size_t i = 0; i < count; ++i) value |= std::to_integer<uint64_t>(bytes[at + i]) << (8 * i);
  return value;
}

/// Hashes every byte except those of the hash itself, which count as 0. `pieces`: everything after the header.
uint64_t file_hash(std::span<const std::byte> header, std::span<const std::span<const std::byte>> pieces) {
  std::array<std::byte, kHeaderBytes> head{};
  std::copy_n(header.begin(), kHeaderBytes, head.begin());
  std::fill_n(head.begin() + kFileHashAt, 8, std::byte{0});
  return hash_pieces(pieces, hash_bytes(head));
}

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

struct Section {
  std::string_view name;
  size_t offset = 0;
  std::span<const std::byte> bytes;
};

/// Reads the header and section table of one file.
class Container {
 public:
  Container(const FileFormat& format, std::span<const std::byte> file, std::string_view where)
      : format_(format), file_(file), where_(where) {
    header();
    for (size_t i = 0; i < sections_.size(); ++i) section(i);
  }

  const Section& meta() const { return sections_[kMeta - 1]; }
  const Section& code() const { return sections_[kCode - 1]; }
  const Section& constants() const { return sections_[kConstants - 1]; }

  void check_meta_hash() const {
    const auto table = file_.subspan(kHeaderBytes, kRowBytes * sections_.size());
    const uint64_t expected = get(file_, 24, 8);
    const uint64_t got = hash_bytes(meta().bytes, hash_bytes(table));
    if (expected != got) bad_hash("damaged header or meta section", expected, got);
  }
  /// Checks the hash over the whole file. The pieces are cut where write_sections() cuts them.
  void check_file_hash() const {
    const size_t code_end = code().offset + code().bytes.size();
    const size_t constants_end = constants().offset + constants().bytes.size();
    const std::array pieces = {file_.subspan(kHeaderBytes, code().offset - kHeaderBytes), code().bytes,
                               file_.subspan(code_end, constants().offset - code_end), constants().bytes,
                               file_.subspan(constants_end)};
    const uint64_t expected = get(file_, kFileHashAt, 8);
    const uint64_t got = file_hash(file_.first(kHeaderBytes), pieces);
    if (expected != got)
      bad_hash(fmt::format("damaged: its {} bytes are not those that were written", file_.size()), expected, got);
  }

 private:
  template <class... Args>
  [[noreturn]] void bad(fmt::format_string<Args...> format, Args&&... args) const {
    fail(ErrorKind::bad_input, "compiled file '{}': {}", where_, fmt::format(format, std::forward<Args>(args)...));
  }

  void header() const {
    const std::string_view text(reinterpret_cast<const char*>(file_.data()), file_.size());
    if (!text.starts_with(format_.magic)) bad("not a compiled Kilter file: it does not start with {}", format_.magic);
    const size_t needed = kHeaderBytes + kRowBytes * sections_.size();
    if (file_.size() < needed) bad("cut off: expected at least {} bytes of header, got {}", needed, file_.size());
    if (const auto version = get(file_, 8, 4); version != format_.version) {
      bad("format version {}; this Kilter reads version {}; compile the model again", version, format_.version);
    }
    if (const auto count = get(file_, 12, 4); count != sections_.size()) {
      bad("{} sections; expected {}", count, sections_.size());
    }
    if (const auto size = get(file_, 16, 8); size != file_.size()) {
      bad("expected {} bytes, got {}; the file is {}", size, file_.size(),
          file_.size() < size ? "cut off" : "too long");
    }
    for (size_t at = 40; at < kHeaderBytes; ++at) {
      if (file_[at] != std::byte{0}) bad("byte {} of the header is {}; expected 0", at, get(file_, at, 1));
    }
  }

  void section(size_t i) {
    const size_t row = kHeaderBytes + kRowBytes * i;
    const uint64_t kind = get(file_, row, 8);
    const uint64_t offset = get(file_, row + 8, 8);
    const uint64_t bytes = get(file_, row + 16, 8);
    const std::string_view name = kSectionNames[i];
    if (kind != i + 1) bad("section {} is of kind {}; expected {} ({})", i, kind, i + 1, name);
    const size_t earliest =
        i == 0 ? kHeaderBytes + kRowBytes * sections_.size() : sections_[i - 1].offset + sections_[i - 1].bytes.size();
    if (offset < earliest || offset > file_.size() || bytes > file_.size() - offset) {
      bad("section {} occupies {} bytes at byte {}; expected within bytes {} to {}", name, bytes, offset, earliest,
          file_.size());
    }
    if (i > 0 && offset % kPage != 0)
      bad("section {} starts at byte {}; expected a multiple of {}", name, offset, kPage);
    sections_[i] = {name, offset, file_.subspan(offset, bytes)};
  }

  [[noreturn]] void bad_hash(std::string_view what, uint64_t expected, uint64_t got) const {
    bad("{}: expected hash {:016x}, got {:016x}; nothing in it was run; copy the file again or compile the model again",
        what, expected, got);
  }

  const FileFormat& format_;
  std::span<const std::byte> file_;
  std::string_view where_;
  std::array<Section, 3> sections_;
};

std::shared_ptr<std::byte> aligned_copy(std::span<const std::byte> bytes) {
  void* memory = std::aligned_alloc(kConstantAlignment, round_up(bytes.size(), kConstantAlignment));
  if (memory == nullptr) fail_out_of_memory(static_cast<int64_t>(bytes.size()), "the constants of a compiled file");
  std::memcpy(memory, bytes.data(), bytes.size());
  return {static_cast<std::byte*>(memory), std::free};
}

}  // namespace

namespace {

/// The bytes at the place of the magic; fewer if the file is shorter, none if it cannot be read.
std::string start_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string start(kMagicBytes, '\0');
  file.read(start.data(), static_cast<std::streamsize>(start.size()));
  start.resize(static_cast<size_t>(file.gcount()));
  return start;
}

/// Throws io if a file exists that is not a compiled file, such as the model itself, because its contents would be
/// lost. Empty files, devices and pipes may be written.
void check_replaceable(const std::filesystem::path& path) {
  constexpr std::string_view kMagicStart = "KILTER";
  std::error_code none;
  if (!std::filesystem::is_regular_file(path, none) || std::filesystem::file_size(path, none) == 0 || none) return;
  const std::string start = start_of(path);
  if (start.empty() || start.starts_with(kMagicStart)) return;  // writing reports why a file is unreadable
  fail(ErrorKind::io,
       "cannot write a compiled file to '{}': it exists and is not a compiled file, so it is not replaced; give "
       "another name, or remove it first",
       path.string());
}

}  // namespace

void FileSink::write(Parts parts) const {
  if (take_) return take_(parts);
  check_replaceable(path_);
  write_file_atomically(path_, parts);
}

void write_sections(const FileFormat& format, const FileSections& sections, const FileSink& to) {
  const auto& [meta, code, constants] = sections;
  const size_t meta_at = kHeaderBytes + kRowBytes * kSectionNames.size();
  const size_t code_at = round_up(meta_at + meta.size(), kPage);
  const size_t constants_at = round_up(code_at + code.size(), kPage);

  std::string table;
  const std::array<std::array<uint64_t, 3>, 3> rows = {
      {{kMeta, meta_at, meta.size()}, {kCode, code_at, code.size()}, {kConstants, constants_at, constants.size()}}};
  for (const auto& row : rows) {
    for (uint64_t field : row) put(table, field, 8);
  }
  std::string head(format.magic);
  put(head, format.version, 4);
  put(head, rows.size(), 4);
  put(head, constants_at + constants.size(), 8);
  put(head, hash_bytes(meta, hash_bytes(bytes_of(table))), 8);
  head.resize(kHeaderBytes, '\0');
  std::string front = table;
  front.append(reinterpret_cast<const char*>(meta.data()), meta.size());
  front.resize(code_at - kHeaderBytes, '\0');
  const std::string gap(constants_at - code_at - code.size(), '\0');
  const std::array pieces = {bytes_of(front), code, bytes_of(gap), constants, std::span<const std::byte>()};
  std::string hash;
  put(hash, file_hash(bytes_of(head), pieces), 8);
  head.replace(kFileHashAt, hash.size(), hash);
  const std::array parts = {bytes_of(head), bytes_of(front), code, bytes_of(gap), constants};
  to.write(parts);
}

FileSections read_sections(const FileFormat& format, std::span<const std::byte> file, std::string_view where,
                           LoadOptions options, std::shared_ptr<void>& owner) {
  const Container container(format, file, where);
  if (options.check_meta_hash) container.check_meta_hash();
  if (options.verify) container.check_file_hash();
  FileSections sections{container.meta().bytes, container.code().bytes, container.constants().bytes};
  const auto constants = sections.constants;
  if (!constants.empty() && reinterpret_cast<uintptr_t>(constants.data()) % kConstantAlignment != 0) {
    const auto copy = aligned_copy(constants);
    sections.constants = {copy.get(), constants.size()};
    owner = std::make_shared<std::pair<std::shared_ptr<void>, std::shared_ptr<void>>>(owner, copy);
  }
  return sections;
}

bool is_file_of(const FileFormat& format, const std::filesystem::path& path) { return start_of(path) == format.magic; }

bool is_file_of(const FileFormat& format, std::span<const std::byte> bytes) {
  return std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()).starts_with(format.magic);
}

}  // namespace kilter
