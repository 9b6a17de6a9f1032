// The sections of a compiled file: header, section table, hashes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace kilter {

struct LoadOptions {
  bool verify = true;  ///< check the hash of the whole file, which reads all of it; false: only that of its fields
  std::filesystem::path signed_by = {};  ///< file of a public key (signature.h); empty: files need no signature
  bool check_meta_hash = true;           ///< false only for tests in which damaged fields must reach the later checks
};

/// A format of compiled files. All have the same header and the same three sections (plan_file.h).
struct FileFormat {
  std::string_view magic;  ///< the first 8 bytes
  uint32_t version = 0;    ///< the only one that is read
};

struct FileSections {
  std::span<const std::byte> meta, code, constants;
};

/// Where a compiled file goes: a path, or a function that is called once with the parts of the file in their order.
class FileSink {
 public:
  using Parts = std::span<const std::span<const std::byte>>;
  FileSink(std::filesystem::path path) : path_(std::move(path)) {}       // NOLINT(google-explicit-constructor)
  FileSink(const std::string& path) : path_(path) {}                     // NOLINT(google-explicit-constructor)
  FileSink(const char* path) : path_(path) {}                            // NOLINT(google-explicit-constructor)
  FileSink(std::function<void(Parts)> take) : take_(std::move(take)) {}  // NOLINT(google-explicit-constructor)
  /// Throws io when a file cannot be written, and leaves nothing behind.
  void write(Parts parts) const;

 private:
  std::filesystem::path path_;
  std::function<void(Parts)> take_;  ///< empty: the path is written
};

/// Writes a file. Throws what the sink throws.
void write_sections(const FileFormat& format, const FileSections& sections, const FileSink& to);

/// Returns the sections of a file that starts at `file`. `owner` keeps its bytes alive, and afterwards those of the
/// sections: constants that do not start at a 64-byte boundary in memory are copied. Throws bad_input, which names the
/// file as `where`, for another format or version, and for a file that is damaged or cut off.
FileSections read_sections(const FileFormat& format, std::span<const std::byte> file, std::string_view where,
                           LoadOptions options, std::shared_ptr<void>& owner);

/// Returns whether a file starts with the magic of the format; false when it cannot be read.
bool is_file_of(const FileFormat& format, const std::filesystem::path& path);
/// Returns whether these bytes of a file start with the magic of the format.
bool is_file_of(const FileFormat& format, std::span<const std::byte> bytes);

}  // namespace kilter
