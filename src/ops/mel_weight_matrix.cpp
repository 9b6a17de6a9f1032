#include <algorithm>
#include <cmath>

#include "ops/support/elementwise.h"
#include "ops/support/onnx_dtype.h"
#include "ops/support/operands.h"

namespace kilter {
namespace {

DType output_dtype(const Node& node) {
  const int64_t code = node.int_attr("output_datatype", 1);
  const auto type = dtype_of_code(code);
  if (!type || !is_arithmetic(*type) || *type == DType::boolean) {
    node_error(node, fmt::format("attribute output_datatype is {}, expected the code of a number type", code));
  }
  return *type;
}

void infer(InferContext& ctx) {
  const int64_t mels = operand_int(ctx.node, ctx.needed(0), "num_mel_bins");
  const int64_t length = operand_int(ctx.node, ctx.needed(1), "dft_length");
  if (mels < 1 || length < 1) {
    ctx.error(fmt::format("num_mel_bins is {} and dft_length {}, expected 1 or more", mels, length));
  }
  for (const size_t i : {3U, 4U}) check_types(Floats{}, ctx, i);
  check_shape(ctx.node, {length / 2 + 1, mels});
  ctx.set(0, output_dtype(ctx.node), {length / 2 + 1, mels});
}

/// Converts hertz to the mel scale of O'Shaughnessy 1987, as specified for ONNX MelWeightMatrix.
double mel_of(double hertz) { return 2595 * std::log10(1 + hertz / 700); }
double hertz_of(double mel) { return 700 * (std::pow(10.0, mel / 2595) - 1); }

void reference(ReferenceContext& ctx) {
  const int64_t mels = ctx.out().shape()[1];
  const int64_t bins = ctx.out().shape()[0];
  const auto length = static_cast<double>(ctx.in(1).as_int(0));
  const auto rate = static_cast<double>(operand_int(ctx.node, ctx.in(2), "sample_rate"));
  const double low = mel_of(ctx.in(3).as_double(0));
  const double high = mel_of(ctx.in(4).as_double(0));
  // Edges of the triangles, in spectrum bins.
  std::vector<int64_t> edges;
  for (int64_t i = 0; i < mels + 2; ++i) {
    const double mel = low + static_cast<double>(i) * (high - low) / static_cast<double>(mels + 2);
    const double edge = std::floor((length + 1) * hertz_of(mel) / rate);
    if (!(edge >= 0) || edge >= static_cast<double>(bins)) {
      fail(ErrorKind::bad_input, "MelWeightMatrix '{}': an edge is in bin {} of the spectrum; legal values are 0 to {}",
           ctx.node.name, edge, bins - 1);
    }
    edges.push_back(static_cast<int64_t>(edge));
  }
  std::vector<double> y(static_cast<size_t>(bins * mels), 0.0);
  for (int64_t m = 0; m < mels; ++m) {
    const int64_t left = edges[static_cast<size_t>(m)];
    const int64_t centre = edges[static_cast<size_t>(m) + 1];
    const int64_t right = edges[static_cast<size_t>(m) + 2];
    const auto set = [&](int64_t bin, int64_t part, int64_t whole) {
      y[static_cast<size_t>(bin * mels + m)] =
          whole == 0 ? 1.0 : static_cast<double>(part) / static_cast<double>(whole);
    };
    for (int64_t bin = left; bin <= centre; ++bin) set(bin, bin - left, centre - left);
    for (int64_t bin = centre; bin < right; ++bin) set(bin, right - bin, right - centre);
  }
  store_doubles(ctx.out(), y);
}

}  // namespace

KILTER_OP(MelWeightMatrix){
    .name = "MelWeightMatrix",
    .since = 17,
    .min_inputs = 5,
    .max_inputs = 5,
    .attrs = {{"output_datatype", "int", "1"}},
    .summary =
        "Triangular filters [dft_length / 2 + 1, num_mel_bins] with peaks of 1, evenly spread on the mel scale between "
        "the lower and the upper edge; inputs num_mel_bins, dft_length, sample_rate and the two edges in Hz.",
    .infer = infer,
    .reference = reference,
    .shape_operands = {0, 1},
    .cases = {"i32[]=8 i32[]=16 i32[]=8192 f32[]=0 f32[]=4096", "i64[]=20 i64[]=512 i64[]=16000 f32[]=20 f32[]=7600",
              "i64[]=4 i64[]=64 i64[]=8000 f32[]=100 f32[]=3800 | output_datatype=11"},
};

}  // namespace kilter
