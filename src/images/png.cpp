#include "images/support.h"

#ifdef KILTER_HAS_PNG

#include <png.h>

#include <csetjmp>
#include <cstring>

namespace kilter {
namespace {

constexpr std::string_view kFormat = "PNG";
constexpr png_alloc_size_t kMostChunkBytes = 16 << 20;  ///< memory for one chunk of text or of a colour profile

/// A reader whose errors return to the last setjmp on `back`.
struct Reader {
  std::span<const uint8_t> rest;
  std::jmp_buf back = {};
  char text[128] = {};
  png_structp png = nullptr;
  png_infop info = nullptr;

  explicit Reader(std::span<const uint8_t> file) : rest(file) {}
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;
  ~Reader() { png_destroy_read_struct(&png, &info, nullptr); }
};

[[noreturn]] void on_error(png_structp png, png_const_charp message) {
  auto* reader = static_cast<Reader*>(png_get_error_ptr(png));
  std::strncpy(reader->text, message, sizeof(reader->text) - 1);
  std::longjmp(reader->back, 1);
}
void on_warning(png_structp, png_const_charp) {}

void read_bytes(png_structp png, png_bytep to, size_t count) {
  auto* reader = static_cast<Reader*>(png_get_io_ptr(png));
  if (reader->rest.size() < count) on_error(png, "it ends too early");
  std::memcpy(to, reader->rest.data(), count);
  reader->rest = reader->rest.subspan(count);
}

// Each of these functions calls setjmp and has no local objects with a destructor. They return false after an error.

/// Reads the header, and asks for rows of 8 bits without alpha, grey or red, green, blue.
bool open(Reader& r) {
  if (setjmp(r.back) != 0) return false;
  png_set_read_fn(r.png, &r, read_bytes);
  png_set_user_limits(r.png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
  png_set_chunk_malloc_max(r.png, kMostChunkBytes);
  png_read_info(r.png, r.info);
  png_set_expand(r.png);
  png_set_scale_16(r.png);
  png_set_strip_alpha(r.png);
  return true;
}

bool read_rows(Reader& r, uint8_t* to, png_uint_32 height, size_t row_bytes) {
  if (setjmp(r.back) != 0) return false;
  const int passes = png_set_interlace_handling(r.png);
  png_read_update_info(r.png, r.info);
  if (png_get_rowbytes(r.png, r.info) != row_bytes)
    on_error(r.png, "its rows do not have the size that the header gives");
  for (int pass = 0; pass < passes; ++pass) {
    for (png_uint_32 y = 0; y < height; ++y) png_read_row(r.png, to + y * row_bytes, nullptr);
  }
  png_read_end(r.png, nullptr);
  return true;
}

}  // namespace

Image read_png(std::span<const uint8_t> file, Part part) {
  Reader r(file);
  r.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &r, on_error, on_warning);
  r.info = r.png == nullptr ? nullptr : png_create_info_struct(r.png);
  if (r.info == nullptr) fail(ErrorKind::out_of_memory, "no memory for a PNG decoder");
  if (!open(r)) damaged_image(kFormat, r.text);
  const bool colour = (png_get_color_type(r.png, r.info) & PNG_COLOR_MASK_COLOR) != 0;
  const png_uint_32 height = png_get_image_height(r.png, r.info);
  Image image = sized_image(kFormat, height, png_get_image_width(r.png, r.info), colour ? 3 : 1, part);
  if (part == Part::header) return image;
  if (!read_rows(r, image.pixels.data(), height, static_cast<size_t>(image.width * image.channels)))
    damaged_image(kFormat, r.text);
  return image;
}

}  // namespace kilter

#else

namespace kilter {
Image read_png(std::span<const uint8_t>, Part) { missing_library("PNG", "libpng", "libpng-dev"); }
}  // namespace kilter

#endif
