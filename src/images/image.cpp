#include "images/image.h"

#include <algorithm>
#include <array>

#include "base/out_of_memory.h"
#include "images/support.h"

namespace kilter {
namespace {

using Bytes = std::string_view;

bool begins_with(std::span<const uint8_t> file, size_t at, Bytes bytes) {
  return file.size() >= at + bytes.size() && std::equal(bytes.begin(), bytes.end(), file.begin() + at,
                                                        [](char a, uint8_t b) { return static_cast<uint8_t>(a) == b; });
}

bool is_pnm(std::span<const uint8_t> file) {
  return file.size() > 2 && file[0] == 'P' && file[1] >= '1' && file[1] <= '6' &&
         (file[2] == ' ' || file[2] == '#' || (file[2] >= '\t' && file[2] <= '\r'));
}

bool is_tiff(std::span<const uint8_t> file) {
  constexpr std::array<Bytes, 4> kStarts = {Bytes("II*\0", 4), Bytes("MM\0*", 4), Bytes("II+\0", 4), Bytes("MM\0+", 4)};
  return std::any_of(kStarts.begin(), kStarts.end(), [&](Bytes start) { return begins_with(file, 0, start); });
}

}  // namespace

ZeroBytes::ZeroBytes(int64_t size)
    : bytes_(static_cast<uint8_t*>(std::calloc(static_cast<size_t>(size), 1))), size_(size) {
  if (bytes_ == nullptr) fail_out_of_memory(size, "an image");
}

Image read_image(std::span<const uint8_t> file, Part part) {
  if (begins_with(file, 0, "BM")) return read_bmp(file, part);
  if (begins_with(file, 0, "\xff\xd8\xff")) return read_jpeg(file, part);
  if (begins_with(file, 0, {"\0\0\0\x0cjP  \r\n\x87\n", 12}) || begins_with(file, 0, "\xff\x4f\xff\x51"))
    return read_jpeg2000(file, part);
  if (begins_with(file, 0, "\x89PNG\r\n\x1a\n")) return read_png(file, part);
  if (begins_with(file, 0, "RIFF") && begins_with(file, 8, "WEBP")) return read_webp(file, part);
  if (is_tiff(file)) return read_tiff(file, part);
  if (is_pnm(file)) return read_pnm(file, part);
  fail(ErrorKind::bad_input,
       "{} bytes of no known image format; known formats are BMP, JPEG, JPEG 2000, PNG, PNM (P1 to P6), TIFF and WebP",
       file.size());
}

void damaged_image(std::string_view format, std::string_view why) {
  fail(ErrorKind::bad_input, "damaged {} image: {}", format, why);
}

void missing_library(std::string_view format, std::string_view library, std::string_view debian_package) {
  fail(ErrorKind::unsupported,
       "{} image: this build of Kilter cannot decode it; build Kilter where {} is installed (Debian: apt install {})",
       format, library, debian_package);
}

Image sized_image(std::string_view format, int64_t height, int64_t width, int64_t channels, Part part) {
  if (height < 1 || width < 1) damaged_image(format, fmt::format("its size is {}x{} pixels", width, height));
  if (height > kMostPixels / width) {
    fail(ErrorKind::unsupported, "{} image of {}x{} pixels; the limit is {} pixels", format, width, height,
         kMostPixels);
  }
  Image image;
  image.height = height;
  image.width = width;
  image.channels = channels;
  if (part == Part::everything) image.pixels = ZeroBytes(height * width * channels);
  return image;
}

}  // namespace kilter
