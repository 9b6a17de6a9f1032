#include "images/support.h"

#ifdef KILTER_HAS_JPEG

#include <csetjmp>
#include <cstdio>
// The header of the library needs <cstdio> before it.
#include <jerror.h>
#include <jpeglib.h>

namespace kilter {
namespace {

constexpr std::string_view kFormat = "JPEG";
constexpr int kCmyk = 4;

/// A decompressor whose errors return to the last setjmp on `back`.
struct Decoder {
  jpeg_decompress_struct info = {};
  jpeg_error_mgr errors = {};
  std::jmp_buf back = {};
  char text[JMSG_LENGTH_MAX] = {};

  Decoder() = default;
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;
  ~Decoder() { jpeg_destroy_decompress(&info); }
};

[[noreturn]] void on_error(j_common_ptr info) {
  auto* decoder = static_cast<Decoder*>(info->client_data);
  info->err->format_message(info, decoder->text);
  std::longjmp(decoder->back, 1);
}

/// Data that end too early are an error; other oddities are not.
void on_message(j_common_ptr info, int level) {
  if (level < 0 && (info->err->msg_code == JWRN_JPEG_EOF || info->err->msg_code == JWRN_HIT_MARKER)) on_error(info);
}

// Each of these functions calls setjmp and has no local objects with a destructor. They return false after an error.

bool open(Decoder& d, const uint8_t* bytes, size_t size) {
  if (setjmp(d.back) != 0) return false;
  jpeg_create_decompress(&d.info);
  d.info.client_data = &d;
  jpeg_mem_src(&d.info, bytes, static_cast<unsigned long>(size));
  jpeg_read_header(&d.info, TRUE);
  const J_COLOR_SPACE stored = d.info.jpeg_color_space;
  if (stored == JCS_CMYK || stored == JCS_YCCK) {
    d.info.out_color_space = JCS_CMYK;
  } else {
    d.info.out_color_space = stored == JCS_GRAYSCALE ? JCS_GRAYSCALE : JCS_RGB;
  }
  return true;
}

bool read_rows(Decoder& d, uint8_t* to, size_t row_bytes) {
  if (setjmp(d.back) != 0) return false;
  jpeg_start_decompress(&d.info);
  while (d.info.output_scanline < d.info.output_height) {
    JSAMPROW row = to + d.info.output_scanline * row_bytes;
    jpeg_read_scanlines(&d.info, &row, 1);
  }
  jpeg_finish_decompress(&d.info);
  return true;
}

/// Converts rows of cyan, magenta, yellow and black, which Adobe's programs store inverted.
void from_cmyk(const ZeroBytes& cmyk, bool inverted, uint8_t* rgb) {
  const uint8_t* end = cmyk.data() + cmyk.size();
  for (const uint8_t* pixel = cmyk.data(); pixel != end; pixel += kCmyk) {
    const auto light = [&](int c) -> uint32_t { return inverted ? pixel[c] : 255U - pixel[c]; };
    for (int c = 0; c < 3; ++c) *rgb++ = static_cast<uint8_t>(light(c) * light(3) / 255);
  }
}

}  // namespace

Image read_jpeg(std::span<const uint8_t> file, Part part) {
  Decoder d;
  d.info.err = jpeg_std_error(&d.errors);
  d.info.client_data = &d;
  d.errors.error_exit = on_error;
  d.errors.emit_message = on_message;
  if (!open(d, file.data(), file.size())) damaged_image(kFormat, d.text);
  const bool grey = d.info.out_color_space == JCS_GRAYSCALE;
  Image image = sized_image(kFormat, d.info.image_height, d.info.image_width, grey ? 1 : 3, part);
  if (part == Part::header) return image;
  if (d.info.out_color_space != JCS_CMYK) {
    if (!read_rows(d, image.pixels.data(), static_cast<size_t>(image.width * image.channels)))
      damaged_image(kFormat, d.text);
    return image;
  }
  const ZeroBytes cmyk(image.height * image.width * kCmyk);
  if (!read_rows(d, cmyk.data(), static_cast<size_t>(image.width) * kCmyk)) damaged_image(kFormat, d.text);
  from_cmyk(cmyk, d.info.saw_Adobe_marker != FALSE, image.pixels.data());
  return image;
}

}  // namespace kilter

#else

namespace kilter {
Image read_jpeg(std::span<const uint8_t>, Part) { missing_library("JPEG", "libjpeg-turbo", "libjpeg62-turbo-dev"); }
}  // namespace kilter

#endif
