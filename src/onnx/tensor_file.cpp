// Single tensors in separate files, as in the ONNX test layout.
#include <google/protobuf/io/coded_stream.h>

#include <limits>

#include "base/error.h"
#include "base/files.h"
#include "onnx/model.h"
#include "onnx/tensor_reader.h"

namespace kilter::onnx {
namespace {

pb::TensorProto parse_proto(std::span<const std::byte> bytes, const std::string& what) {
  constexpr size_t kMost = std::numeric_limits<int>::max();
  if (bytes.size() > kMost) {
    fail(ErrorKind::bad_input, "{}: {} bytes; an ONNX tensor file has at most {} (2 GiB)", what, bytes.size(), kMost);
  }
  pb::TensorProto proto;
  google::protobuf::io::CodedInputStream input(reinterpret_cast<const uint8_t*>(bytes.data()),
                                               static_cast<int>(bytes.size()));
  if (!proto.ParseFromCodedStream(&input) || !input.ConsumedEntireMessage() || !proto.has_data_type()) {
    fail(ErrorKind::bad_input,
         "{}: not a valid ONNX tensor: cannot be parsed beyond byte {} of {}; expected a binary TensorProto: the file "
         "is "
         "truncated, damaged or of another format",
         what, input.CurrentPosition(), bytes.size());
  }
  // Sequences and optional values store their payload in messages under the field number that a tensor uses for
  // `segment`.
  if (proto.has_segment()) {
    fail(ErrorKind::unsupported, "{}: contains a sequence or an optional value; Kilter reads only single tensors",
         what);
  }
  return proto;
}

Tensor read(std::span<const std::byte> bytes, const std::string& what, const DataFolders& folders) {
  const pb::TensorProto proto = parse_proto(bytes, what);
  try {
    return TensorReader(what, folders).read(proto, "tensor " + quote(proto.name()));
  } catch (const Error& error) {
    throw Error(error.kind() == ErrorKind::bad_model ? ErrorKind::bad_input : error.kind(), error.message());
  }
}

}  // namespace

Tensor load_tensor(const std::filesystem::path& file) {
  const std::filesystem::path target = link_target(file);
  const auto mapped = MappedFile::open(target);
  return read(mapped->bytes(), file.string(), data_folders(file, target));
}

Tensor parse_tensor(std::span<const std::byte> bytes, const std::string& what) { return read(bytes, what, {}); }

}  // namespace kilter::onnx
