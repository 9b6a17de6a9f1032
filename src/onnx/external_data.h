// Tensor data that a model keeps in other files of its folder.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "base/files.h"
#include "onnx/schema.h"

namespace kilter::onnx {

/// Finds and maps the files once each. A location must be relative, without "..", and lie under the model's folder
/// after symbolic links are followed.
class ExternalData {
 public:
  /// `file` names the model in errors. With an empty `folder` every external tensor is refused.
  ExternalData(std::string file, std::filesystem::path folder) : file_(std::move(file)), folder_(std::move(folder)) {}

  struct Range {
    std::shared_ptr<const MappedFile> file;
    std::span<const std::byte> bytes;
  };
  /// The `expected_bytes` bytes of a tensor. Throws bad_model for an illegal location or a range that does not fit the
  /// file or the tensor, io when the file cannot be read. `what` names the tensor.
  Range find(const pb::TensorProto& tensor, int64_t expected_bytes, const std::string& what);

 private:
  std::shared_ptr<const MappedFile> map(const std::string& location, const std::string& what);
  std::filesystem::path resolve(const std::string& location, const std::string& what) const;

  std::string file_;
  std::filesystem::path folder_;
  std::map<std::string, std::shared_ptr<const MappedFile>> files_;
};

}  // namespace kilter::onnx
