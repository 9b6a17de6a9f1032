// Single tensors and other values in separate files, as in the ONNX test layout.
#include <google/protobuf/io/coded_stream.h>

#include <limits>

#include "base/error.h"
#include "base/files.h"
#include "base/map_value.h"
#include "onnx/model.h"
#include "onnx/tensor_reader.h"
#include "onnx/value_file.h"
#include "ops/support/iterate.h"

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
         "truncated, damaged or in another format",
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
    for (const auto& element : proto.map_values()) elements.push_back(map(element));
    return AnyValue::sequence(std::move(elements));
  }

  AnyValue map(const pb::MapProto& proto) const {
    const std::optional<DType> type = dtype_of_number(proto.key_type());
    const bool strings = type == DType::string;
    if (!strings && type != DType::i64) {
      fail(ErrorKind::bad_input, "{}: a map with keys of type {}; expected int64 or string", what,
           element_type_text(proto.key_type()));
    }
    Tensor keys(*type, {strings ? proto.string_keys_size() : proto.keys_size()});
    if (strings) {
      std::copy(proto.string_keys().begin(), proto.string_keys().end(), keys.strings().begin());
    } else {
      std::copy(proto.keys().begin(), proto.keys().end(), keys.data<int64_t>());
    }
    return map_value(std::move(keys), single_values(proto.values()), what + ": a map");
  }

  /// Returns tensors of one element each as one tensor [n].
  Tensor single_values(const pb::SequenceProto& proto) const {
    Tensor all(DType::f32, {0});
    const auto count = static_cast<int64_t>(proto.tensor_values_size());
    for (int64_t i = 0; i < count; ++i) {
      const Tensor one = tensor(proto.tensor_values(static_cast<int>(i)));
      if (i == 0) all = Tensor(one.dtype(), {count});
      if (one.elems() != 1 || one.dtype() != all.dtype()) {
        fail(ErrorKind::bad_input, "{}: value {} of a map is {}, expected one element of {}", what, i,
             text(AnyValue(one)), name(all.dtype()));
      }
      copy_element(one, 0, all, i);
    }
    return all;
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
constexpr int32_t kAbsent = 0, kTensor = 1, kSequence = 3, kMap = 4;

AnyValue read_optional(std::span<const std::byte> bytes, const Source& source) {
  const auto proto = parse_proto<pb::OptionalProto>(bytes, source.what, "OptionalProto");
  if (proto.elem_type() == kTensor && proto.has_tensor_value()) return source.tensor(proto.tensor_value());
  if (proto.elem_type() == kSequence && proto.has_sequence_value()) return source.sequence(proto.sequence_value());
  if (proto.elem_type() == kMap && proto.has_map_value()) return source.map(proto.map_value());
  if (proto.elem_type() == kAbsent) return {};
  fail(ErrorKind::bad_input, "{}: an optional value with element type {}; expected {}, {}, {} or {} with that value",
       source.what, proto.elem_type(), kAbsent, kTensor, kSequence, kMap);
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
  if (kind == DeclaredType::Kind::map) return source.map(parse_proto<pb::MapProto>(mapped->bytes(), what, "MapProto"));
  if (kind == DeclaredType::Kind::optional) return read_optional(mapped->bytes(), source);
  return read_tensor(mapped->bytes(), source);
}

}  // namespace kilter::onnx
