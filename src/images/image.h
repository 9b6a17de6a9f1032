// Decoders of image files in memory. BMP and PNM are read by code of this folder, every other format by the library for
// it. A build without one of these libraries reports `unsupported`, naming it.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>

namespace kilter {

/// Bytes that are initially 0. Pages that are never written use no memory, so a damaged file that claims to be large
/// costs little.
class ZeroBytes {
 public:
  ZeroBytes() = default;
  /// Throws out_of_memory.
  explicit ZeroBytes(int64_t size);
  uint8_t* data() const { return bytes_.get(); }
  int64_t size() const { return size_; }

 private:
  struct Free {
    void operator()(uint8_t* bytes) const { std::free(bytes); }
  };
  std::unique_ptr<uint8_t[], Free> bytes_;
  int64_t size_ = 0;
};

struct Image {
  int64_t height = 0;
  int64_t width = 0;
  int64_t channels = 0;  ///< 1: grey, 3: red, green, blue
  ZeroBytes pixels;      ///< [height, width, channels]; empty if only the header was read
};

/// The most pixels that an image may have, so that a header alone cannot demand more than about 1 GB.
constexpr int64_t kMostPixels = int64_t{1} << 28;

enum class Part : uint8_t { header, everything };

/// Reads an image of any known format. The first bytes determine the format. Throws bad_input if the file is damaged or
/// of no known format, and unsupported if it is in a variant of the format that no decoder reads.
Image read_image(std::span<const uint8_t> file, Part part);

// The decoder of each format.
Image read_bmp(std::span<const uint8_t> file, Part part);
Image read_jpeg(std::span<const uint8_t> file, Part part);
Image read_jpeg2000(std::span<const uint8_t> file, Part part);
Image read_png(std::span<const uint8_t> file, Part part);
Image read_pnm(std::span<const uint8_t> file, Part part);
Image read_tiff(std::span<const uint8_t> file, Part part);
Image read_webp(std::span<const uint8_t> file, Part part);

}  // namespace kilter
