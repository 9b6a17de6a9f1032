#include "images/support.h"

#ifdef KILTER_HAS_JPEG2000

#include <openjpeg.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

namespace kilter {
namespace {

constexpr std::string_view kFormat = "JPEG 2000";
constexpr size_t kBufferBytes = 1 << 16;
constexpr uint32_t kMostComponents = 4;
constexpr uint32_t kMostBits = 31;

struct Source {
  std::span<const uint8_t> file;
  uint64_t at = 0;
  std::string text;
};

OPJ_SIZE_T read_bytes(void* to, OPJ_SIZE_T count, void* user) {
  auto& s = *static_cast<Source*>(user);
  const uint64_t taken = std::min<uint64_t>(s.file.size() - s.at, count);
  if (taken == 0) return static_cast<OPJ_SIZE_T>(-1);
  std::memcpy(to, s.file.data() + s.at, taken);
  s.at += taken;
  return taken;
}
OPJ_OFF_T skip(OPJ_OFF_T count, void* user) {
  auto& s = *static_cast<Source*>(user);
  const auto left = static_cast<OPJ_OFF_T>(s.file.size() - s.at);
  if (count < 0 || count > left) return -1;
  s.at += static_cast<uint64_t>(count);
  return count;
}
OPJ_BOOL seek(OPJ_OFF_T to, void* user) {
  auto& s = *static_cast<Source*>(user);
  if (to < 0 || static_cast<uint64_t>(to) > s.file.size()) return OPJ_FALSE;
  s.at = static_cast<uint64_t>(to);
  return OPJ_TRUE;
}
void on_error(const char* message, void* user) {
  auto& s = *static_cast<Source*>(user);
  s.text = message;
  while (!s.text.empty() && s.text.back() == '\n') s.text.pop_back();
}
void on_other(const char*, void*) {}

using Stream = std::unique_ptr<opj_stream_t, decltype(&opj_stream_destroy)>;
using Codec = std::unique_ptr<opj_codec_t, decltype(&opj_destroy_codec)>;
using Picture = std::unique_ptr<opj_image_t, decltype(&opj_image_destroy)>;

/// Reads the values of one component at the pixels of the image.
class Component {
 public:
  Component(const opj_image_t& picture, uint32_t index) : picture_(picture), own_(picture.comps[index]) {
    if (own_.dx == 0 || own_.dy == 0 || own_.w == 0 || own_.h == 0 || own_.prec == 0 || own_.prec > kMostBits)
      damaged_image(kFormat, "one of its components is empty");
  }
  bool decoded() const { return own_.data != nullptr; }
  /// Returns the value of a pixel as 8 bits.
  int32_t at(int64_t y, int64_t x) const {
    const int64_t row = std::min<int64_t>(place(picture_.y0 + y, own_.y0, own_.dy), own_.h - 1);
    const int64_t column = std::min<int64_t>(place(picture_.x0 + x, own_.x0, own_.dx), own_.w - 1);
    int64_t value = own_.data[row * own_.w + column];
    if (own_.sgnd != 0) value += int64_t{1} << (own_.prec - 1);
    if (own_.prec >= 8) {
      value >>= own_.prec - 8;
    } else {
      value = value * 255 / ((int64_t{1} << own_.prec) - 1);
    }
    return static_cast<int32_t>(std::clamp<int64_t>(value, 0, 255));
  }

 private:
  static int64_t place(int64_t at, int64_t start, int64_t step) { return std::max<int64_t>(at / step - start, 0); }
  const opj_image_t& picture_;
  const opj_image_comp_t& own_;
};

uint8_t rounded(double value) { return static_cast<uint8_t>(std::lround(std::clamp(value, 0.0, 255.0))); }

/// Converts luma and two differences of colour (ITU-R BT.601, full range) in place.
void to_rgb(uint8_t* pixel) {
  const double y = pixel[0];
  const double blue = pixel[1] - 128.0;
  const double red = pixel[2] - 128.0;
  pixel[0] = rounded(y + 1.402 * red);
  pixel[1] = rounded(y - 0.344136 * blue - 0.714136 * red);
  pixel[2] = rounded(y + 1.772 * blue);
}

void copy_pixels(const opj_image_t& picture, Image& image) {
  std::vector<Component> components;
  for (uint32_t c = 0; c < static_cast<uint32_t>(image.channels); ++c) {
    components.emplace_back(picture, c);
    if (!components.back().decoded()) damaged_image(kFormat, "one of its components has no pixels");
  }
  const bool luma = image.channels == 3 && picture.color_space == OPJ_CLRSPC_SYCC;
  uint8_t* to = image.pixels.data();
  for (int64_t y = 0; y < image.height; ++y) {
    for (int64_t x = 0; x < image.width; ++x, to += image.channels) {
      for (size_t c = 0; c < components.size(); ++c) to[c] = static_cast<uint8_t>(components[c].at(y, x));
      if (luma) to_rgb(to);
    }
  }
}

/// Throws bad_input if the file is too short for the headers of its tiles.
void check_tiles(opj_codec_t* codec, size_t bytes) {
  constexpr uint64_t kTileHeader = 14;
  opj_codestream_info_v2_t* info = opj_get_cstr_info(codec);
  if (info == nullptr) damaged_image(kFormat, "its header gives no tiles");
  const uint64_t tiles = uint64_t{info->tw} * info->th;
  opj_destroy_cstr_info(&info);
  if (tiles * kTileHeader > bytes)
    damaged_image(kFormat, fmt::format("{} tiles do not fit into {} bytes", tiles, bytes));
}

Codec codec_of(Source& source) {
  Codec codec(opj_create_decompress(source.file[0] == 0 ? OPJ_CODEC_JP2 : OPJ_CODEC_J2K), opj_destroy_codec);
  opj_dparameters_t settings;
  opj_set_default_decoder_parameters(&settings);
  if (codec == nullptr || opj_setup_decoder(codec.get(), &settings) == OPJ_FALSE)
    fail(ErrorKind::out_of_memory, "no memory for a JPEG 2000 decoder");
  opj_set_error_handler(codec.get(), on_error, &source);
  opj_set_warning_handler(codec.get(), on_other, nullptr);
  opj_set_info_handler(codec.get(), on_other, nullptr);
  return codec;
}

}  // namespace

Image read_jpeg2000(std::span<const uint8_t> file, Part part) {
  Source source{file, 0, "it cannot be read"};
  const Stream stream(opj_stream_create(kBufferBytes, OPJ_TRUE), opj_stream_destroy);
  if (stream == nullptr) fail(ErrorKind::out_of_memory, "no memory for a JPEG 2000 decoder");
  opj_stream_set_user_data(stream.get(), &source, nullptr);
  opj_stream_set_user_data_length(stream.get(), file.size());
  opj_stream_set_read_function(stream.get(), read_bytes);
  opj_stream_set_skip_function(stream.get(), skip);
  opj_stream_set_seek_function(stream.get(), seek);
  const Codec codec = codec_of(source);
  opj_image_t* read = nullptr;
  const bool opened = opj_read_header(stream.get(), codec.get(), &read) != OPJ_FALSE;
  const Picture picture(read, opj_image_destroy);
  if (!opened || picture == nullptr) damaged_image(kFormat, source.text);
  if (picture->numcomps == 0 || picture->numcomps > kMostComponents) {
    fail(ErrorKind::unsupported, "JPEG 2000 image with {} components; 1 to {} are supported", picture->numcomps,
         kMostComponents);
  }
  Image image = sized_image(kFormat, int64_t{picture->y1} - picture->y0, int64_t{picture->x1} - picture->x0,
                            picture->numcomps < 3 ? 1 : 3, part);
  if (part == Part::header) return image;
  check_tiles(codec.get(), file.size());
  if (opj_decode(codec.get(), stream.get(), picture.get()) == OPJ_FALSE ||
      opj_end_decompress(codec.get(), stream.get()) == OPJ_FALSE)
    damaged_image(kFormat, source.text);
  copy_pixels(*picture, image);
  return image;
}

}  // namespace kilter

#else

namespace kilter {
Image read_jpeg2000(std::span<const uint8_t>, Part) { missing_library("JPEG 2000", "OpenJPEG", "libopenjp2-7-dev"); }
}  // namespace kilter

#endif
