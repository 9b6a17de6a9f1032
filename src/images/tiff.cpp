#include "images/support.h"

#ifdef KILTER_HAS_TIFF

#include <tiffio.h>
#if TIFFLIB_VERSION < 20221213
#error "libtiff 4.5 or newer is needed; -DKILTER_IMAGE_LIBRARIES=OFF builds Kilter without it"
#endif

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <memory>

namespace kilter {
namespace {

constexpr std::string_view kFormat = "TIFF";
constexpr tmsize_t kMostBytes = 1 << 30;  ///< memory for one strip or tile

/// A file in memory and the last error that the library reported about it.
struct Source {
  std::span<const uint8_t> file;
  uint64_t at = 0;
  char text[200] = {};
};
Source& source_of(thandle_t handle) { return *static_cast<Source*>(handle); }

tmsize_t read_bytes(thandle_t handle, void* to, tmsize_t count) {
  Source& s = source_of(handle);
  const uint64_t left = s.at < s.file.size() ? s.file.size() - s.at : 0;
  const uint64_t taken = std::min(left, static_cast<uint64_t>(count));
  if (taken > 0) std::memcpy(to, s.file.data() + s.at, taken);
  s.at += taken;
  return static_cast<tmsize_t>(taken);
}
tmsize_t write_bytes(thandle_t, void*, tmsize_t) { return 0; }
toff_t seek(thandle_t handle, toff_t offset, int from) {
  Source& s = source_of(handle);
  s.at = from == SEEK_CUR ? s.at + offset : from == SEEK_END ? s.file.size() + offset : offset;
  return s.at;
}
int close_nothing(thandle_t) { return 0; }
toff_t size_of(thandle_t handle) { return source_of(handle).file.size(); }
int map_file(thandle_t, void**, toff_t*) { return 0; }
void unmap_file(thandle_t, void*, toff_t) {}

int on_error(TIFF*, void* user, const char*, const char* format, va_list values) {
  auto* source = static_cast<Source*>(user);
  std::vsnprintf(source->text, sizeof(source->text), format, values);
  return 1;
}
int on_warning(TIFF*, void*, const char*, const char*, va_list) { return 1; }

using File = std::unique_ptr<TIFF, decltype(&TIFFClose)>;

File open(Source& source) {
  const std::unique_ptr<TIFFOpenOptions, decltype(&TIFFOpenOptionsFree)> options(TIFFOpenOptionsAlloc(),
                                                                                 TIFFOpenOptionsFree);
  if (options == nullptr) fail(ErrorKind::out_of_memory, "no memory for a TIFF decoder");
  TIFFOpenOptionsSetErrorHandlerExtR(options.get(), on_error, &source);
  TIFFOpenOptionsSetWarningHandlerExtR(options.get(), on_warning, nullptr);
  TIFFOpenOptionsSetMaxSingleMemAlloc(options.get(), kMostBytes);
  return {TIFFClientOpenExt("image", "rm", &source, read_bytes, write_bytes, seek, close_nothing, size_of, map_file,
                            unmap_file, options.get()),
          TIFFClose};
}

}  // namespace

Image read_tiff(std::span<const uint8_t> file, Part part) {
  Source source{file};
  const File tiff = open(source);
  if (tiff == nullptr) damaged_image(kFormat, source.text);
  uint32_t width = 0;
  uint32_t height = 0;
  if (TIFFGetField(tiff.get(), TIFFTAG_IMAGEWIDTH, &width) == 0 ||
      TIFFGetField(tiff.get(), TIFFTAG_IMAGELENGTH, &height) == 0)
    damaged_image(kFormat, "its header gives no size");
  Image image = sized_image(kFormat, height, width, 3, part);
  if (part == Part::header) return image;
  const int64_t count = image.height * image.width;
  const ZeroBytes memory(count * static_cast<int64_t>(sizeof(uint32_t)));
  auto* raster = reinterpret_cast<uint32_t*>(memory.data());
  if (TIFFReadRGBAImageOriented(tiff.get(), width, height, raster, ORIENTATION_TOPLEFT, 1) == 0)
    damaged_image(kFormat, source.text);
  uint8_t* to = image.pixels.data();
  for (int64_t i = 0; i < count; ++i) {
    *to++ = static_cast<uint8_t>(TIFFGetR(raster[i]));
    *to++ = static_cast<uint8_t>(TIFFGetG(raster[i]));
    *to++ = static_cast<uint8_t>(TIFFGetB(raster[i]));
  }
  return image;
}

}  // namespace kilter

#else

namespace kilter {
Image read_tiff(std::span<const uint8_t>, Part) { missing_library("TIFF", "libtiff", "libtiff-dev"); }
}  // namespace kilter

#endif
