// PBM, PGM and PPM files, as text (P1 to P3) or binary (P4 to P6).
#include "images/support.h"

namespace kilter {
namespace {

constexpr std::string_view kFormat = "PNM";
constexpr int64_t kMostValue = 65535;  ///< the largest maximum that a file may declare
constexpr uint32_t kWhite = 255;

class Reader {
 public:
  explicit Reader(std::span<const uint8_t> file) : file_(file) {}

  /// Skips white space and comments, then reads a decimal number.
  int64_t number(std::string_view what) {
    skip();
    int64_t value = 0;
    size_t digits = 0;
    for (; at_ < file_.size() && file_[at_] >= '0' && file_[at_] <= '9'; ++at_, ++digits) {
      value = value * 10 + (file_[at_] - '0');
      if (value > kMostPixels) damaged_image(kFormat, fmt::format("its {} is {} or more", what, value));
    }
    if (digits == 0) damaged_image(kFormat, fmt::format("no {} at byte {}", what, at_));
    return value;
  }
  /// Skips white space and comments, then reads one digit, which is 0 or 1.
  bool bit() {
    skip();
    if (at_ >= file_.size() || (file_[at_] != '0' && file_[at_] != '1'))
      damaged_image(kFormat, fmt::format("no 0 or 1 at byte {}", at_));
    return file_[at_++] == '1';
  }
  /// Skips the single byte of white space between the header and binary data, and checks that `count` bytes follow.
  std::span<const uint8_t> data(int64_t count) {
    const size_t start = at_ + 1;
    const size_t left = start < file_.size() ? file_.size() - start : 0;
    if (left < static_cast<size_t>(count)) {
      damaged_image(kFormat, fmt::format("it has {} bytes of pixels, expected {}", left, count));
    }
    return file_.subspan(start, static_cast<size_t>(count));
  }

 private:
  void skip() {
    while (at_ < file_.size()) {
      const uint8_t c = file_[at_];
      if (c == '#') {
        while (at_ < file_.size() && file_[at_] != '\n') ++at_;
      } else if (c == ' ' || (c >= '\t' && c <= '\r')) {
        ++at_;
      } else {
        return;
      }
    }
  }

  std::span<const uint8_t> file_;
  size_t at_ = 2;  // after "P5"
};

void read_bits(Reader& reader, bool text, Image& image) {
  const int64_t row_bytes = (image.width + 7) / 8;
  const std::span<const uint8_t> data = text ? std::span<const uint8_t>() : reader.data(row_bytes * image.height);
  uint8_t* to = image.pixels.data();
  for (int64_t y = 0; y < image.height; ++y) {
    for (int64_t x = 0; x < image.width; ++x) {
      const bool black =
          text ? reader.bit() : (data[static_cast<size_t>(y * row_bytes + x / 8)] >> (7 - x % 8) & 1) != 0;
      *to++ = black ? 0 : kWhite;
    }
  }
}

void read_values(Reader& reader, bool text, int64_t most, Image& image) {
  const int64_t bytes = most > kWhite ? 2 : 1;
  const int64_t count = image.pixels.size();
  const std::span<const uint8_t> data = text ? std::span<const uint8_t>() : reader.data(count * bytes);
  for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
    int64_t value = 0;
    if (text) {
      value = reader.number("value");
    } else {
      value = bytes == 1 ? data[i] : data[2 * i] << 8 | data[2 * i + 1];
    }
    if (value > most) damaged_image(kFormat, fmt::format("a value is {}, its maximum is {}", value, most));
    image.pixels.data()[i] = static_cast<uint8_t>((value * kWhite + most / 2) / most);
  }
}

}  // namespace

Image read_pnm(std::span<const uint8_t> file, Part part) {
  Reader reader(file);
  const int kind = (file[1] - '1') % 3;  // 0: bits, 1: grey, 2: colour
  const bool text = file[1] <= '3';
  const int64_t width = reader.number("width");
  const int64_t height = reader.number("height");
  const int64_t most = kind == 0 ? 1 : reader.number("largest value");
  if (most < 1 || most > kMostValue)
    damaged_image(kFormat, fmt::format("its largest value is {}, expected 1 to 65535", most));
  Image image = sized_image(kFormat, height, width, kind == 2 ? 3 : 1, part);
  if (part == Part::header) return image;
  if (kind == 0) {
    read_bits(reader, text, image);
  } else {
    read_values(reader, text, most, image);
  }
  return image;
}

}  // namespace kilter
