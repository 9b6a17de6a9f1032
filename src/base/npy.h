// NumPy's .npy files (format versions 1.0, 2.0 and 3.0 as numpy.lib.format documents them).
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "base/tensor.h"

namespace kilter {

/// Reads a tensor; 0-d is allowed, Fortran order is transposed, booleans become 0 or 1. Throws io when the file cannot
/// be read and bad_input when it is no .npy file, is cut off, or holds big-endian data or an element type Kilter has
/// not.
Tensor load_npy(const std::filesystem::path& path);
/// The same from bytes; `where` names them in errors.
Tensor parse_npy(std::span<const std::byte> bytes, std::string_view where);

/// Writes version 1.0, C order, little-endian. bf16 has no NumPy type and is written as '<f4'. Throws unsupported for
/// strings and io when the file cannot be written.
void save_npy(const std::filesystem::path& path, const Tensor& tensor);

}  // namespace kilter
