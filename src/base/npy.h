// NumPy's .npy files (format versions 1.0, 2.0 and 3.0 as documented by numpy.lib.format).
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "base/tensor.h"

namespace kilter {

/// Reads a tensor. 0-d arrays are allowed, Fortran order is transposed, and booleans become 0 or 1. Throws io when the
/// file cannot be read. Throws bad_input when it is not an .npy file, is truncated, or contains big-endian data or an
/// element type that Kilter does not support.
Tensor load_npy(const std::filesystem::path& path);
/// Reads a tensor from the bytes of an .npy file. Errors refer to them as `where`.
Tensor parse_npy(std::span<const std::byte> bytes, std::string_view where);

/// Writes version 1.0, C order, little-endian. NumPy has no bf16 type, so bf16 is written as '<f4'. Strings are written
/// as '<U'. Throws unsupported for strings that such a file cannot represent: bytes that are not UTF-8, zeros at the
/// end. Throws io when the file cannot be written.
void save_npy(const std::filesystem::path& path, const Tensor& tensor);

/// Returns NumPy's name for an element type: "float32", "uint8".
std::string numpy_name(DType type);

}  // namespace kilter
