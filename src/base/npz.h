// NumPy's .npz files: ZIP archives of .npy files, as numpy.savez writes them.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/tensor.h"

namespace kilter {

/// Reads the arrays of an archive with their names ("arr_0"), in the order of its directory. Throws io when the file
/// cannot be read. Throws bad_input when it is not such an archive, is truncated or compressed, is 4 GiB or larger, or
/// contains anything other than .npy files; see load_npy() for those.
std::vector<std::pair<std::string, Tensor>> load_npz(const std::filesystem::path& path);
/// Reads them from the bytes of an archive. Errors refer to it as `where`.
std::vector<std::pair<std::string, Tensor>> parse_npz(std::span<const std::byte> bytes, std::string_view where);

}  // namespace kilter
