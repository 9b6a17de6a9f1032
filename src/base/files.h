// Files as the rest of Kilter needs them. Every failure is an io error with the path and the system's reason.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>

namespace kilter {

/// A whole file mapped read-only. Tensors and plans that view it hold the shared pointer. The bytes are page-aligned.
class MappedFile {
 public:
  /// Throws io when the file is missing, a directory, unreadable or cannot be mapped. An empty file maps to no bytes.
  static std::shared_ptr<const MappedFile> open(const std::filesystem::path& path);
  /// The regular file `below` a folder, both without symbolic links, as std::filesystem::canonical() gives them.
  /// Follows no link below the folder, so that one put there after the path was checked is refused. Throws io.
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

/// Whether nothing has this path; false also where that cannot be told, so that whoever opens it says why.
bool is_missing(const std::filesystem::path& path);

/// The file that `path` leads to where it is a symbolic link; `path` itself otherwise, and where the link leads
/// nowhere.
std::filesystem::path link_target(const std::filesystem::path& path);

/// The bytes of a file. Throws io as MappedFile::open does.
std::string read_file(const std::filesystem::path& path);

/// Writes the parts one after the other to a temporary file in the same folder and renames it to `path`, so that a
/// reader sees the old file or the whole new one, with the mode of the old one; a symbolic link stays and leads to the
/// new file; a device or pipe is written in place, and so is a file in a folder that may not be written, or mounted by
/// itself. Throws io (full disk, no permission, no such folder) and leaves no temporary.
void write_file_atomically(const std::filesystem::path& path, std::span<const std::span<const std::byte>> parts);
void write_file_atomically(const std::filesystem::path& path, std::string_view bytes);

/// A name for the file of a thing whose `name` comes from outside, such as a tensor of a model: of [A-Za-z0-9_.-],
/// others as '_', and so without a separator; not hidden and no option; a long one cut, with its hash at the end.
/// Differs from those in `taken`, which it joins, by -2, -3, ... before the extension.
std::string file_name(std::string_view name, std::string_view extension, std::set<std::string>& taken);

/// Removes the temporary files of write_file_atomically() that are under way in any thread. For the handler of a signal
/// that ends the process: nothing else may follow.
void remove_files_under_way() noexcept;

/// A new folder "PREFIXxxxxxx" in the one that TMPDIR names, else in /tmp. Throws io with the system's reason.
std::filesystem::path make_temporary_folder(std::string_view prefix);

}  // namespace kilter
