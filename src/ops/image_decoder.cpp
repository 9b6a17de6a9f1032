#include "images/image.h"
#include "ops/support/elementwise.h"
#include "ops/support/operands.h"

namespace kilter {
namespace {

enum class Format : uint8_t { rgb, bgr, grey };

Format format_of(const Node& node) {
  const std::string format = node.string_attr("pixel_format", "RGB");
  if (format == "RGB") return Format::rgb;
  if (format == "BGR") return Format::bgr;
  if (format == "Grayscale") return Format::grey;
  node_error(node, fmt::format("attribute pixel_format is '{}'; legal values are RGB, BGR and Grayscale", format));
}

Image read(const Tensor& stream, Part part) {
  return read_image({stream.data<uint8_t>(), static_cast<size_t>(stream.elems())}, part);
}

void infer(InferContext& ctx) {
  check_types(Types<uint8_t>{}, ctx, 0);
  if (ctx.rank(0) != 1) ctx.error(fmt::format("input 0 has shape {}, expected [bytes]", text(ctx.shape(0))));
  const Image header = read(ctx.needed(0), Part::header);
  ctx.set(0, DType::u8, {header.height, header.width, format_of(ctx.node) == Format::grey ? 1 : 3});
}

/// Returns the luma of ITU-R BT.601 in 16-bit fixed point. The weights add up to 1.
uint8_t luma(const uint8_t* rgb) {
  constexpr uint32_t kRed = 19595;
  constexpr uint32_t kGreen = 38470;
  constexpr uint32_t kBlue = 7471;
  constexpr uint32_t kHalf = 1 << 15;
  return static_cast<uint8_t>((rgb[0] * kRed + rgb[1] * kGreen + rgb[2] * kBlue + kHalf) >> 16);
}

void reference(ReferenceContext& ctx) {
  const Image image = read(ctx.in(0), Part::everything);
  const Format format = format_of(ctx.node);
  const uint8_t* from = image.pixels.data();
  auto* out = ctx.out().data<uint8_t>();
  for (int64_t i = 0; i < image.height * image.width; ++i, from += image.channels) {
    const bool grey = image.channels == 1;
    const uint8_t rgb[3] = {from[0], from[grey ? 0 : 1], from[grey ? 0 : 2]};
    if (format == Format::grey) {
      *out++ = luma(rgb);
    } else {
      const bool reversed = format == Format::bgr;
      for (size_t c = 0; c < 3; ++c) *out++ = rgb[reversed ? 2 - c : c];
    }
  }
}

}  // namespace

KILTER_OP(ImageDecoder){
    .name = "ImageDecoder",
    .since = 20,
    .attrs = {{"pixel_format", "string", "RGB"}},
    .summary =
        "y [height, width, channels] u8 = the image in a file whose bytes are x: BMP, JPEG, JPEG 2000, PNG, PNM, TIFF "
        "or WebP; an image that cannot be decoded is an error. The shape depends on the data.",
    .infer = infer,
    .reference = reference,
    .shape_operands = {0},
    .tolerance = {.rtol = 0, .atol = 0},
    // P5 (2 by 1, grey), P6 (1 by 1), and a BMP of 1 by 1 with 24 bits.
    .cases = {"u8[13]=80,53,32,50,32,49,32,50,53,53,10,7,200",
              "u8[14]=80,54,32,49,32,49,32,50,53,53,10,200,100,50 | pixel_format=BGR",
              "u8[14]=80,54,32,49,32,49,32,50,53,53,10,200,100,50 | pixel_format=Grayscale",
              "u8[58]=66,77,58,0,0,0,0,0,0,0,54,0,0,0,40,0,0,0,1,0,0,0,1,0,0,0,1,0,24,0,0,0,0,0,4,0,0,0,0,0,0,0,0,0,0,"
              "0,0,0,0,0,0,0,0,0,1,2,3,0"},
};

}  // namespace kilter
