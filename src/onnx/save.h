// The implementation of onnx::save, with its limit as a parameter.
#pragma once

#include <filesystem>

#include "graph/graph.h"

namespace kilter::onnx {

constexpr int64_t kMostInsideBytes = int64_t{1} << 30;

/// Writes as onnx::save does. When the constants together exceed `inside_bytes` bytes, those of at least kSmallBytes go
/// to `FILE.weights`, each at a multiple of 64 bytes.
void save_with_limit(const Graph& graph, const std::filesystem::path& file, int64_t opset, int64_t inside_bytes);
constexpr int64_t kSmallBytes = 256;

}  // namespace kilter::onnx
