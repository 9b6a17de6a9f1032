// Values of any kind in separate files, as in the ONNX test layout.
#pragma once

#include <filesystem>

#include "base/any_value.h"
#include "graph/open_graph.h"

namespace kilter::onnx {

/// Reads a TensorProto, SequenceProto, MapProto or OptionalProto file. An optional value may also be written as the
/// tensor or sequence that it contains. Throws bad_input if the file is none of these.
AnyValue load_value(const std::filesystem::path& file, DeclaredType::Kind kind);

}  // namespace kilter::onnx
