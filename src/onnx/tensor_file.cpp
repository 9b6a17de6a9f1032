// Single tensors and other values in separate files, as in the ONNX test layout.
#include <google/protobuf/io/coded_stream.h>

#include <limits>

#include "base/error.h"
#include "base/files.h"
#include "onnx/model.h"
#include "onnx/tensor_reader.h"
#include "onnx/value_file.h"

namespace kilter::onnx {
namespace {

/// Parses a message of type Proto, which `expected` names.
template <class Proto>
Proto parse_proto(std::span<const std::byte> bytes, const std::string& what, std::string_view expected) {
  constexpr size_t kMost = std::numeric_limits<int>::max();
  if (bytes.size() > kMost) {
    fail(ErrorKind::bad_input, "{}: {} bytes; an ONNX tensor file has at most {} (2 GiB)", what, bytes.size(), kMost);
  }
  Proto proto;
  google::protobuf::io::CodedInputStream input(reinterpret_cast<const uint8_t*>(bytes.data()),
                                               static_cast<int>(bytes.size()));
  bool valid = proto.ParseFromCodedStream(&input) && input.ConsumedEntireMessage();
  if constexpr (std::is_same_v<Proto, pb::TensorProto>) valid = valid && proto.has_data_type();
  if (!valid) {
    fail(ErrorKind::bad_input,
         "{}: not a valid ONNX tensor: cannot be parsed beyond byte {} of {}; expected a binary {}: the file is "
         "truncated, damaged or of another format",
         what, input.CurrentPosition(), bytes.size(), expected);
  }
  return proto;
}

/// The context in which the tensors of a file are read.
struct Source {
  const std::string& what;
  DataFolders folders;

  Tensor tensor(const pb::TensorProto& proto) const {
    try {
      return TensorReader(what, folders).read(proto, "tensor " + quote(proto.name()));
    } catch (const Error& error) {
      throw Error(error.kind() == ErrorKind::bad_model ? ErrorKind::bad_input : error.kind(), error.message());
    }
  }

  AnyValue sequence(const pb::SequenceProto& proto) const {
    std::vector<AnyValue> elements;
    for (const auto& element : proto.tensor_values()) elements.emplace_back(tensor(element));
    for (const auto& element : proto.sequence_values()) elements.push_back(sequence(element));
    return AnyValue::sequence(std::move(elements));
  }
};

Tensor read_tensor(std::span<const std::byte> bytes, const Source& source) {
  const auto proto = parse_proto<pb::TensorProto>(bytes, source.what, "TensorProto");
  // Sequences and optional values store their payload in messages under the field number that a tensor uses for
  // `segment`.
  if (proto.has_segment()) {
    fail(ErrorKind::bad_input, "{}: contains a sequence or an optional value, expected a single tensor", source.what);
  }
  return source.tensor(proto);
}

/// The element types of OptionalProto.
constexpr int32_t kAbsent = 0, kTensor = 1, kSequence = 3;

AnyValue read_optional(std::span<const std::byte> bytes, const Source& source) {
  const auto proto = parse_proto<pb::OptionalProto>(bytes, source.what, "OptionalProto");
  if (proto.elem_type() == kTensor && proto.has_tensor_value()) return source.tensor(proto.tensor_value());
  if (proto.elem_type() == kSequence && proto.has_sequence_value()) return source.sequence(proto.sequence_value());
  if (proto.elem_type() == kAbsent) return {};
  fail(ErrorKind::bad_input, "{}: an optional value with element type {}; expected {}, {} or {} with that value",
       source.what, proto.elem_type(), kAbsent, kTensor, kSequence);
}

}  // namespace

Tensor load_tensor(const std::filesystem::path& file) {
  const std::filesystem::path target = link_target(file);
  const auto mapped = MappedFile::open(target);
  const std::string what = file.string();
  return read_tensor(mapped->bytes(), {what, data_folders(file, target)});
}

Tensor parse_tensor(std::span<const std::byte> bytes, const std::string& what) {
  return read_tensor(bytes, {what, {}});
}

AnyValue load_value(const std::filesystem::path& file, DeclaredType::Kind kind) {
  const std::filesystem::path target = link_target(file);
  const auto mapped = MappedFile::open(target);
  const std::string what = file.string();
  const Source source{what, data_folders(file, target)};
  if (kind == DeclaredType::Kind::sequence)
    return source.sequence(parse_proto<pb::SequenceProto>(mapped->bytes(), what, "SequenceProto"));
  if (kind == DeclaredType::Kind::optional) return read_optional(mapped->bytes(), source);
  return read_tensor(mapped->bytes(), source);
}

}  // namespace kilter::onnx
