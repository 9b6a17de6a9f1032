// The sections of a compiled file: header, section table, hashes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string_view>

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

/// Writes a file. Throws io when it cannot be written, and leaves nothing behind.
void write_sections(const FileFormat& format, const FileSections& sections, const std::filesystem::path& path);

/// Returns the sections of a file that starts at `file`. `owner` keeps its bytes alive, and afterwards those of the
/// sections: constants that do not start at a 64-byte boundary in memory are copied. Throws bad_input, which names the
/// file as `where`, for another format or version, and for a file that is damaged or cut off.
FileSections read_sections(const FileFormat& format, std::span<const std::byte> file, std::string_view where,
                           LoadOptions options, std::shared_ptr<void>& owner);

/// Returns whether a file starts with the magic of the format; false when it cannot be read.
bool is_file_of(const FileFormat& format, const std::filesystem::path& path);

}  // namespace kilter
