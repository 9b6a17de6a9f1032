// Tensor data that a model keeps in other files in its folder.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"
#include "onnx/schema.h"

namespace kilter::onnx {

/// The folders in which a file may keep its data: its own folder and, if it is a symbolic link, the folder of its
/// target. Empty for a file in memory.
using DataFolders = std::vector<std::filesystem::path>;

/// Returns the folders for the file `path`, which is or links to the file `target`.
DataFolders data_folders(const std::filesystem::path& path, const std::filesystem::path& target);

/// Finds the files and maps each once. A location must be relative, must not contain "..", and must be inside one of
/// the folders after symbolic links are followed. The folders are searched in order.
class ExternalData {
 public:
  /// `file` names the model in errors. Without folders, every external tensor is refused.
  ExternalData(std::string file, DataFolders folders) : file_(std::move(file)), folders_(std::move(folders)) {}

  struct Range {
    std::shared_ptr<const MappedFile> file;
    std::span<const std::byte> bytes;
  };
  /// Returns the `expected_bytes` bytes of a tensor. Throws bad_model for an illegal location or a range that does not
  /// fit the file or the tensor, and io when the file cannot be read. `what` names the tensor.
  Range find(const pb::TensorProto& tensor, int64_t expected_bytes, const std::string& what);

 private:
  std::shared_ptr<const MappedFile> map(const std::string& location, const std::string& what);
  std::shared_ptr<const MappedFile> open(const std::string& location, const std::string& what) const;
  void check(const std::string& location, const std::string& what) const;
  DataFolders roots() const;
  std::filesystem::path resolve(const DataFolders& roots, const std::string& location, const std::string& what) const;
  [[noreturn]] void refuse(const std::string& location, const std::string& what, std::string_view why) const;

  std::string file_;
  DataFolders folders_;
  std::map<std::string, std::shared_ptr<const MappedFile>> files_;
};

}  // namespace kilter::onnx
