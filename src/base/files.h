// File access for the rest of Kilter. Every failure is an io error that gives the path and the system's reason.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>

namespace kilter {

/// A whole file, mapped read-only. Tensors and plans that view it share its ownership. The bytes are page-aligned.
class MappedFile {
 public:
  /// Throws io when the file is missing, is a directory, or cannot be read or mapped. An empty file maps to no bytes.
  static std::shared_ptr<const MappedFile> open(const std::filesystem::path& path);
  /// Opens the regular file whose path relative to `folder` is `below`. Both paths must be free of symbolic links, as
  /// std::filesystem::canonical() returns them. Follows no link below the folder, so a link put there after the path
  /// was checked is refused. Throws io.
  static std::shared_ptr<const MappedFile> open_below(const std::filesystem::path& folder,
                                                      const std::filesystem::path& below);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::filesystem::path& path() const { return path_; }

 private:
  MappedFile(std::filesystem::path path, const std::byte* data, size_t size);
  static std::shared_ptr<const MappedFile> map(int fd, const std::filesystem::path& path, size_t size);
  std::filesystem::path path_;
  const std::byte* data_;
  size_t size_;
};

/// Returns whether nothing exists at this path. Also returns false if that cannot be determined, so that opening the
/// file then reports the reason.
bool is_missing(const std::filesystem::path& path);

/// Returns the file that `path` leads to if it is a symbolic link. Returns `path` itself if it is not one or leads
/// nowhere.
std::filesystem::path link_target(const std::filesystem::path& path);

/// Returns the bytes of a file. Throws io as MappedFile::open does.
std::string read_file(const std::filesystem::path& path);

/// Writes the parts in order to a temporary file in the same folder and renames it to `path`. A reader therefore sees
/// either the old file or the whole new one. The new file keeps the mode of the old one. A symbolic link is kept, and
/// the file that it leads to is replaced. A device or pipe is written in place, as is a file that is itself a mount
/// point or lies in a folder without write permission. Throws io (full disk, no permission, no such folder) and leaves
/// no temporary file behind.
void write_file_atomically(const std::filesystem::path& path, std::span<const std::span<const std::byte>> parts);
void write_file_atomically(const std::filesystem::path& path, std::string_view bytes);

/// Returns a file name for something whose `name` comes from outside, such as a tensor of a model. The file name
/// consists of [A-Za-z0-9_.-]; other characters become '_', so it contains no separator. It is never a hidden file and
/// never looks like an option. A long name is cut and ends in its hash. A name that is already in `taken` gets -2, -3,
/// ... before the extension; the result is added to `taken`.
std::string file_name(std::string_view name, std::string_view extension, std::set<std::string>& taken);

/// Removes the temporary files that write_file_atomically() has open in any thread. Call this only from the handler of
/// a signal that ends the process: no other file operation may follow.
void remove_files_under_way() noexcept;

/// Creates a folder "PREFIXxxxxxx" in the folder that TMPDIR names, or else in /tmp. Throws io with the system's
/// reason.
std::filesystem::path make_temporary_folder(std::string_view prefix);

}  // namespace kilter
