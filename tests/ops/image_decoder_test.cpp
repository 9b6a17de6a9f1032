// ImageDecoder: the formats, forms of BMP and PNM, and damaged files.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "../base/error_of.h"
#include "base/random.h"
#include "images/image.h"
#include "ops/support/builder.h"
#include "ops/support/evaluate.h"
#include "sample_images.h"

namespace kilter {
namespace {

using Bytes = std::vector<uint8_t>;

Bytes bytes_of(std::string_view text) { return {text.begin(), text.end()}; }
Bytes from_hex(std::string_view text) {
  Bytes bytes;
  for (size_t i = 0; i < text.size(); i += 2)
    bytes.push_back(static_cast<uint8_t>(std::stoi(std::string(text.substr(i, 2)), nullptr, 16)));
  return bytes;
}

/// Returns the output of the operator for a constant file.
Tensor decoded(const Bytes& file, const std::string& format = "RGB") {
  Graph graph;
  GraphBuilder builder(graph);
  const Tensor stream = Tensor::of<uint8_t>({static_cast<int64_t>(file.size())}, file);
  const ValueId y = builder.add("ImageDecoder", {builder.constant(stream)}, {{"pixel_format", format}}, "n");
  graph.add_output(y, "y");
  return evaluate(graph, {})[0];
}
Bytes pixels_of(const Tensor& image) { return {image.data<uint8_t>(), image.data<uint8_t>() + image.elems()}; }

const Bytes kPixels = {255, 0, 0, 0, 255, 0, 0, 0, 255, 10, 20, 30, 128, 128, 128, 255, 255, 255};

struct Sample {
  std::string_view format;
  std::string_view hex;
  int tolerance;
};
constexpr Sample kSamples[] = {{"JPEG", kJpegImage, 2},
                               {"JPEG 2000", kJpeg2000Image, 0},
                               {"PNG", kPngImage, 0},
                               {"TIFF", kTiffImage, 0},
                               {"WebP", kWebpImage, 0}};

/// Returns whether this build can decode the sample's format.
bool has_decoder(const Sample& sample) {
  try {
    read_image(from_hex(sample.hex), Part::header);
    return true;
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::unsupported) << error.message();
    EXPECT_NE(error.message().find("this build of Kilter cannot decode it; build Kilter where"), std::string::npos)
        << error.message();
    return false;
  }
}

TEST(ImageDecoder, ReadsTheFormatsOfLibraries) {
  for (const Sample& sample : kSamples) {
    SCOPED_TRACE(sample.format);
    if (!has_decoder(sample)) continue;
    const Tensor image = decoded(from_hex(sample.hex));
    ASSERT_EQ(image.shape(), (Shape{2, 3, 3}));
    for (size_t i = 0; i < kPixels.size(); ++i) EXPECT_NEAR(image.data<uint8_t>()[i], kPixels[i], sample.tolerance);
  }
}

TEST(ImageDecoder, ConvertsChannelOrderAndGrayscale) {
  const Bytes file = bytes_of("P3 2 1 255 200 100 50  0 0 255");
  EXPECT_EQ(pixels_of(decoded(file)), (Bytes{200, 100, 50, 0, 0, 255}));
  EXPECT_EQ(pixels_of(decoded(file, "BGR")), (Bytes{50, 100, 200, 255, 0, 0}));
  const Tensor grey = decoded(file, "Grayscale");
  EXPECT_EQ(grey.shape(), (Shape{1, 2, 1}));
  EXPECT_EQ(pixels_of(grey), (Bytes{124, 29}));
  EXPECT_EQ(error_of([&] { decoded(file, "HSV"); }, ErrorKind::bad_model),
            "ImageDecoder 'n': attribute pixel_format is 'HSV'; legal values are RGB, BGR and Grayscale");
}

TEST(ImageDecoder, ReadsEveryFormOfPnm) {
  EXPECT_EQ(pixels_of(decoded(bytes_of("P1\n# a comment\n3 2\n101\n0 1 0"), "Grayscale")),
            (Bytes{0, 255, 0, 255, 0, 255}));
  EXPECT_EQ(pixels_of(decoded(bytes_of("P2 2 1 15 15 7"), "Grayscale")), (Bytes{255, 119}));
  EXPECT_EQ(pixels_of(decoded(bytes_of("P4 9 1 \xa0\x80"), "Grayscale")),
            (Bytes{0, 255, 0, 255, 255, 255, 255, 255, 0}));
  EXPECT_EQ(pixels_of(decoded(bytes_of("P5 1 1 65535 \x80\x01"), "Grayscale")), Bytes{128});
  EXPECT_EQ(pixels_of(decoded(bytes_of("P6 1 1 255\nabc"))), (Bytes{'a', 'b', 'c'}));
}

/// Returns a BMP file with a header of 40 bytes.
Bytes bitmap(int32_t width, int32_t height, uint32_t bits, uint32_t coding, const Bytes& palette, const Bytes& data) {
  Bytes file = bytes_of("BM");
  const auto add = [&](uint32_t value, size_t bytes) {
    for (size_t i = 0; i < bytes; ++i) file.push_back(i < 4 ? static_cast<uint8_t>(value >> (8 * i)) : 0);
  };
  add(0, 8);
  add(static_cast<uint32_t>(54 + palette.size()), 4);
  add(40, 4);
  add(static_cast<uint32_t>(width), 4);
  add(static_cast<uint32_t>(height), 4);
  add(1, 2);
  add(bits, 2);
  add(coding, 4);
  add(0, 12);
  add(coding == 3 ? 0 : static_cast<uint32_t>(palette.size() / 4), 4);
  add(0, 4);
  file.insert(file.end(), palette.begin(), palette.end());
  file.insert(file.end(), data.begin(), data.end());
  return file;
}

TEST(ImageDecoder, ReadsEveryFormOfBmp) {
  const Bytes palette = {0, 0, 0, 0, 30, 20, 10, 0};  // black and (10, 20, 30)
  const Bytes black = {0, 0, 0};
  const Bytes other = {10, 20, 30};
  const auto joined = [](std::initializer_list<Bytes> parts) {
    Bytes all;
    for (const Bytes& part : parts) all.insert(all.end(), part.begin(), part.end());
    return all;
  };
  const Bytes upside_down = joined({other, black, black, other});
  EXPECT_EQ(pixels_of(decoded(bitmap(2, 2, 1, 0, palette, {0x40, 0, 0, 0, 0x80, 0, 0, 0}))), upside_down);
  EXPECT_EQ(pixels_of(decoded(bitmap(2, 2, 4, 0, palette, {0x01, 0, 0, 0, 0x10, 0, 0, 0}))), upside_down);
  EXPECT_EQ(pixels_of(decoded(bitmap(2, -2, 8, 0, palette, {1, 0, 0, 0, 0, 1, 0, 0}))), upside_down);
  EXPECT_EQ(pixels_of(decoded(bitmap(2, 2, 8, 1, palette, {1, 0, 1, 1, 0, 0, 1, 1, 0, 1}))), upside_down);
  EXPECT_EQ(pixels_of(decoded(bitmap(3, 1, 4, 2, palette, {0, 3, 0x10, 0x10, 0, 1}))), joined({other, black, other}));
  EXPECT_EQ(pixels_of(decoded(bitmap(1, 1, 16, 0, {}, {0x1f, 0x7c, 0, 0}))), (Bytes{255, 0, 255}));
  EXPECT_EQ(pixels_of(decoded(bitmap(1, 1, 32, 3, {0xff, 0, 0, 0, 0, 0xff, 0, 0, 0, 0, 0xff, 0}, {1, 2, 3, 0}))),
            (Bytes{1, 2, 3}));
}

TEST(ImageDecoder, ErrorsNameTheFault) {
  const auto message = [](const Bytes& file) { return error_of([&] { decoded(file); }); };
  EXPECT_EQ(message(bytes_of("GIF89a")),
            "ImageDecoder 'n': 6 bytes of no known image format; known formats are BMP, JPEG, JPEG 2000, PNG, PNM "
            "(P1 to P6), TIFF and WebP");
  EXPECT_EQ(message({}),
            "ImageDecoder 'n': 0 bytes of no known image format; known formats are BMP, JPEG, JPEG "
            "2000, PNG, PNM (P1 to P6), TIFF and WebP");
  EXPECT_EQ(message(bytes_of("P5 2 2 255 abc")),
            "ImageDecoder 'n': damaged PNM image: it has 3 bytes of pixels, expected 4");
  EXPECT_EQ(message(bytes_of("P2 2 0 255 ")), "ImageDecoder 'n': damaged PNM image: its size is 2x0 pixels");
  EXPECT_EQ(message(bytes_of("P6 100000 100000 255 abc")),
            "ImageDecoder 'n': PNM image of 100000x100000 pixels; the limit is 268435456 pixels");
  EXPECT_EQ(message(bitmap(2, 1, 8, 0, {1, 2, 3, 4}, {0, 1, 0, 0})),
            "ImageDecoder 'n': damaged BMP image: a pixel has colour 1 of a palette of 1");
  EXPECT_EQ(message(bitmap(2, 1, 24, 0, {}, {0})), "ImageDecoder 'n': damaged BMP image: it ends at byte 55");
  EXPECT_EQ(message(bitmap(2, 1, 8, 5, {}, {0})),
            "ImageDecoder 'n': BMP image of 8 bits with compression 5; supported are 1, 4 and 8 bits, plain or "
            "run-length coded, and 16, 24 and 32 bits");
}

/// Damaged files give an image or an error. Truncated files give an error: the only bytes that decoders do not need are
/// those of markers at the end.
TEST(ImageDecoder, DamagedFilesAreErrorsOrImages) {
  std::vector<Bytes> files = {bytes_of("P3 2 1 255 200 100 50  0 0 255"),
                              bitmap(2, 2, 8, 1, {0, 0, 0, 0, 9, 8, 7, 0}, {1, 0, 1, 1, 0, 0, 1, 1, 0, 1})};
  for (const Sample& sample : kSamples) {
    if (has_decoder(sample)) files.push_back(from_hex(sample.hex));
  }
  constexpr uint64_t kRounds = 500;
  const auto attempt = [](const Bytes& file) {
    try {
      const Image image = read_image(file, Part::everything);
      EXPECT_EQ(image.pixels.size(), image.height * image.width * image.channels);
      return true;
    } catch (const Error& error) {
      EXPECT_TRUE(error.kind() == ErrorKind::bad_input || error.kind() == ErrorKind::unsupported) << error.message();
      return false;
    }
  };
  for (const Bytes& whole : files) {
    const Random random(whole.size());
    for (uint64_t i = 0; i < kRounds; ++i) {
      Bytes file = whole;
      const auto at = static_cast<size_t>(random.integer(3 * i, 2, static_cast<int64_t>(file.size()) - 1));
      file[at] = static_cast<uint8_t>(random.integer(3 * i + 1, 0, 255));
      attempt(file);
    }
    for (size_t size = 0; size < whole.size() / 2; ++size) {
      EXPECT_FALSE(attempt(Bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size)))) << size;
    }
  }
}

}  // namespace
}  // namespace kilter
