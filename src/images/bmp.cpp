// Windows bitmaps: 1, 4 and 8 bits with a palette, plain or run-length coded, and 16, 24 and 32 bits.
#include <array>
#include <bit>
#include <vector>

#include "images/support.h"

namespace kilter {
namespace {

constexpr std::string_view kFormat = "BMP";
constexpr size_t kFileHeader = 14;
constexpr uint32_t kCoreHeader = 12;  ///< the header of OS/2, with sizes of 16 bits
constexpr uint32_t kInfoHeader = 40;
constexpr uint32_t kLargestHeader = 124;
enum Coding : uint32_t { kPlain = 0, kRuns8 = 1, kRuns4 = 2, kMasks = 3, kMasksWithAlpha = 6 };

using Colour = std::array<uint8_t, 3>;

class Bitmap {
 public:
  Bitmap(std::span<const uint8_t> file, Part part) : file_(file) { read_header(part); }

  Image decode() {
    if (bits_ <= 8) {
      read_palette();
      coding_ == kPlain ? plain_indices() : run_lengths();
    } else {
      colours();
    }
    return std::move(image_);
  }
  Image header() { return std::move(image_); }

 private:
  uint32_t little(size_t at, size_t bytes) const {
    if (at + bytes > file_.size()) damaged_image(kFormat, fmt::format("it ends at byte {}", file_.size()));
    uint32_t value = 0;
    for (size_t i = 0; i < bytes; ++i) value |= static_cast<uint32_t>(file_[at + i]) << (8 * i);
    return value;
  }

  void read_header(Part part) {
    data_ = little(10, 4);
    header_ = little(kFileHeader, 4);
    const bool core = header_ == kCoreHeader;
    if (!core && (header_ < kInfoHeader || header_ > kLargestHeader)) {
      damaged_image(kFormat, fmt::format("its header has {} bytes, expected 12 or 40 to 124", header_));
    }
    const size_t size = core ? 2 : 4;
    int64_t width = little(kFileHeader + 4, size);
    int64_t height = little(kFileHeader + 4 + size, size);
    if (!core) {
      width = static_cast<int32_t>(width);
      height = static_cast<int32_t>(height);
    }
    bits_ = little(kFileHeader + 6 + 2 * size, 2);
    coding_ = core ? kPlain : little(kFileHeader + 16, 4);
    upwards_ = height > 0;
    const bool palette = bits_ == 1 || bits_ == 4 || bits_ == 8;
    const bool direct = bits_ == 16 || bits_ == 24 || bits_ == 32;
    const bool legal =
        (palette && (coding_ == kPlain || (coding_ == kRuns8 && bits_ == 8) || (coding_ == kRuns4 && bits_ == 4))) ||
        (direct && (coding_ == kPlain || (bits_ != 24 && (coding_ == kMasks || coding_ == kMasksWithAlpha))));
    if (!legal) {
      fail(ErrorKind::unsupported,
           "BMP image of {} bits with compression {}; supported are 1, 4 and 8 bits, plain or "
           "run-length coded, and 16, 24 and 32 bits",
           bits_, coding_);
    }
    image_ = sized_image(kFormat, height < 0 ? -height : height, width, 3, part);
  }

  /// Returns the destination of the pixel that is `x` from the left in row `y` of the file.
  uint8_t* pixel(int64_t y, int64_t x) {
    const int64_t row = upwards_ ? image_.height - 1 - y : y;
    return image_.pixels.data() + (row * image_.width + x) * 3;
  }
  void set(int64_t y, int64_t x, const Colour& colour) { std::copy(colour.begin(), colour.end(), pixel(y, x)); }
  void set_index(int64_t y, int64_t x, uint32_t index) {
    if (index >= palette_.size()) {
      damaged_image(kFormat, fmt::format("a pixel has colour {} of a palette of {}", index, palette_.size()));
    }
    set(y, x, palette_[index]);
  }
  size_t row_bytes() const { return (static_cast<size_t>(image_.width) * bits_ + 31) / 32 * 4; }

  void read_palette() {
    const size_t entry = header_ == kCoreHeader ? 3 : 4;
    const uint32_t used = header_ == kCoreHeader ? 0 : little(kFileHeader + 32, 4);
    const uint32_t most = uint32_t{1} << bits_;
    if (used > most) damaged_image(kFormat, fmt::format("its palette has {} colours, expected at most {}", used, most));
    const size_t start = kFileHeader + header_;
    for (uint32_t i = 0; i < (used == 0 ? most : used); ++i) {
      const uint32_t bgr = little(start + i * entry, 3);
      palette_.push_back({static_cast<uint8_t>(bgr >> 16), static_cast<uint8_t>(bgr >> 8), static_cast<uint8_t>(bgr)});
    }
  }

  void plain_indices() {
    for (int64_t y = 0; y < image_.height; ++y) {
      const size_t row = data_ + static_cast<size_t>(y) * row_bytes();
      for (int64_t x = 0; x < image_.width; ++x) {
        const size_t bit = static_cast<size_t>(x) * bits_;
        const uint32_t byte = little(row + bit / 8, 1);
        set_index(y, x, byte >> (8 - bits_ - bit % 8) & ((1U << bits_) - 1));
      }
    }
  }

  /// Runs are pairs (count, index); a count of 0 is followed by 0 (end of row), 1 (end), 2 (move right and up), or a
  /// number of single indices, padded to 16 bits. Pixels that are not written have colour 0.
  void run_lengths() {
    const uint32_t per_byte = 8 / bits_;
    const auto index_in = [&](uint32_t byte, uint32_t i) {
      return per_byte == 1 ? byte : (i % 2 == 0 ? byte >> 4 : byte & 15);
    };
    for (int64_t y = 0; y < image_.height && palette_[0] != Colour{}; ++y) {
      for (int64_t x = 0; x < image_.width; ++x) set(y, x, palette_[0]);
    }
    int64_t x = 0;
    int64_t y = 0;
    size_t at = data_;
    const auto put = [&](uint32_t index) {
      if (x >= image_.width || y >= image_.height) damaged_image(kFormat, "a run leaves the image");
      set_index(y, x++, index);
    };
    while (y < image_.height) {
      const uint32_t count = little(at, 1);
      const uint32_t code = little(at + 1, 1);
      at += 2;
      if (count > 0) {
        for (uint32_t i = 0; i < count; ++i) put(index_in(code, i));
      } else if (code == 0) {
        x = 0;
        ++y;
      } else if (code == 1) {
        return;
      } else if (code == 2) {
        x += little(at, 1);
        y += little(at + 1, 1);
        at += 2;
      } else {
        for (uint32_t i = 0; i < code; ++i) put(index_in(little(at + i / per_byte, 1), i));
        const size_t bytes = (code + per_byte - 1) / per_byte;
        at += bytes + bytes % 2;
      }
    }
  }

  /// The bits of one channel in a pixel.
  struct Channel {
    uint32_t mask;
    uint8_t value(uint32_t pixel) const {
      if (mask == 0) return 0;
      const auto shift = static_cast<uint32_t>(std::countr_zero(mask));
      const uint64_t most = mask >> shift;
      return static_cast<uint8_t>(uint64_t{(pixel & mask) >> shift} * 255 / most);
    }
  };

  std::array<Channel, 3> channels() const {
    if (coding_ != kPlain) {
      const size_t at = kFileHeader + kInfoHeader;
      return {Channel{little(at, 4)}, Channel{little(at + 4, 4)}, Channel{little(at + 8, 4)}};
    }
    if (bits_ == 16) return {Channel{0x7c00}, Channel{0x03e0}, Channel{0x001f}};
    return {Channel{0xff0000}, Channel{0x00ff00}, Channel{0x0000ff}};
  }

  void colours() {
    const std::array<Channel, 3> rgb = channels();
    const size_t bytes = bits_ / 8;
    for (int64_t y = 0; y < image_.height; ++y) {
      const size_t row = data_ + static_cast<size_t>(y) * row_bytes();
      for (int64_t x = 0; x < image_.width; ++x) {
        const uint32_t value = little(row + static_cast<size_t>(x) * bytes, bytes);
        set(y, x, {rgb[0].value(value), rgb[1].value(value), rgb[2].value(value)});
      }
    }
  }

  std::span<const uint8_t> file_;
  Image image_;
  size_t data_ = 0;      ///< where the pixels begin
  uint32_t header_ = 0;  ///< the size of the second header
  uint32_t bits_ = 0;    ///< of a pixel
  uint32_t coding_ = kPlain;
  bool upwards_ = true;  ///< the first row in the file is the lowest one
  std::vector<Colour> palette_;
};

}  // namespace

Image read_bmp(std::span<const uint8_t> file, Part part) {
  Bitmap bitmap(file, part);
  return part == Part::header ? bitmap.header() : bitmap.decode();
}

}  // namespace kilter
