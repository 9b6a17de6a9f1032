#include "images/support.h"

#ifdef KILTER_HAS_WEBP

#include <webp/decode.h>

namespace kilter {

Image read_webp(std::span<const uint8_t> file, Part part) {
  constexpr std::string_view kFormat = "WebP";
  WebPBitstreamFeatures found = {};
  if (WebPGetFeatures(file.data(), file.size(), &found) != VP8_STATUS_OK)
    damaged_image(kFormat, "its header cannot be read");
  if (found.has_animation != 0)
    fail(ErrorKind::unsupported, "WebP image with several frames; only images with one frame are supported");
  Image image = sized_image(kFormat, found.height, found.width, 3, part);
  if (part == Part::header) return image;
  const int row_bytes = found.width * 3;
  if (WebPDecodeRGBInto(file.data(), file.size(), image.pixels.data(), static_cast<size_t>(image.pixels.size()),
                        row_bytes) == nullptr)
    damaged_image(kFormat, "its pixels cannot be read");
  return image;
}

}  // namespace kilter

#else

namespace kilter {
Image read_webp(std::span<const uint8_t>, Part) { missing_library("WebP", "libwebp", "libwebp-dev"); }
}  // namespace kilter

#endif
