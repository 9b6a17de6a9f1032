// Shared by the decoders of images: errors, and the check of an image's size.
#pragma once

#include <string_view>

#include "base/error.h"
#include "images/image.h"

namespace kilter {

/// Throws bad_input: "damaged PNG image: <why>".
[[noreturn]] void damaged_image(std::string_view format, std::string_view why);
/// Throws unsupported for a format whose library the build lacks.
[[noreturn]] void missing_library(std::string_view format, std::string_view library, std::string_view debian_package);

/// Returns an image of that size, whose pixels are allocated (and 0) if `part` asks for them. Throws bad_input if it
/// has no pixels, and unsupported if it has more than kMostPixels.
Image sized_image(std::string_view format, int64_t height, int64_t width, int64_t channels, Part part);

}  // namespace kilter
