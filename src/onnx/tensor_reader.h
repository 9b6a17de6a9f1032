// Conversion of TensorProto to Tensor, and of a tensor's bytes to those of a file.
#pragma once

#include <string>

#include "base/tensor.h"
#include "graph/graph.h"
#include "onnx/external_data.h"
#include "onnx/schema.h"

namespace kilter::onnx {

class TensorReader {
 public:
  /// `file` names the model in errors; see ExternalData for `folders`.
  TensorReader(std::string file, DataFolders folders) : file_(file), external_(std::move(file), std::move(folders)) {}

  /// Returns the tensor, 64-byte aligned: a view of the mapped file if its external data has this alignment, otherwise
  /// a copy. `what` names it ("initializer 'w'"). Throws bad_model when dimensions or data do not fit, unsupported for
  /// other element types, and io when an external file cannot be read. All values are legal, including NaN and
  /// infinity.
  Tensor read(const pb::TensorProto& tensor, const std::string& what);
  /// Returns the dense tensor whose elements are 0, or "", except for those that the message gives. Their places are
  /// positions in row-major order (indices [n]) or coordinates (indices [n, rank]), which increase. Throws as the other
  /// read(), and out_of_memory for a dense tensor that does not fit into memory.
  Tensor read(const pb::SparseTensorProto& sparse, const std::string& what);

 private:
  Tensor read_external(const pb::TensorProto& tensor, DType type, Shape shape, const std::string& what);
  Tensor read_raw(const pb::TensorProto& tensor, DType type, Shape shape, const std::string& what) const;
  Tensor read_typed(const pb::TensorProto& tensor, DType type, Shape shape, const std::string& what) const;
  Tensor read_narrow(const pb::TensorProto& tensor, DType type, Shape shape, const std::string& what) const;
  Shape read_shape(const google::protobuf::RepeatedField<int64_t>& dims, const std::string& what) const;

  std::string file_;
  ExternalData external_;
};

/// Returns a tensor, not one of strings, in the form in which files store its bytes: the tensor itself, or a tensor of
/// u8 with its packed elements.
Tensor file_form(const Tensor& tensor);

}  // namespace kilter::onnx
