// Rfft and Irfft of com.microsoft: the Fourier transform of real signals along the last dimension, and its inverse.
#include "ops/support/expander.h"

namespace kilter {
namespace {

class Expansion : Expander {
 public:
  explicit Expansion(ExpandContext& ctx) : Expander(ctx) {
    if (node().int_attr("signal_ndim", 1) != 1 || node().int_attr("normalized", 0) != 0 ||
        node().int_attr("onesided", 1) != 1) {
      unsupported(fmt::format("has signal_ndim={}, normalized={} and onesided={}; only 1, 0 and 1 are supported",
                              node().int_attr("signal_ndim", 1), node().int_attr("normalized", 0),
                              node().int_attr("onesided", 1)));
    }
  }

  ValueId forward() {
    const Shape x = shape(in(0));
    if (x.empty()) error("the input is a scalar, expected a signal along the last dimension");
    Shape real = x;
    real.push_back(1);
    return transform(reshaped(in(0), real), x.back(), false);
  }

  ValueId inverse() {
    const Shape x = shape(in(0));
    if (x.size() < 2 || x.back() != 2 || x[x.size() - 2] < 2) {
      error(fmt::format("the input has shape {}, expected [..., bins, 2] with two or more bins", text(x)));
    }
    const int64_t length = 2 * (x[x.size() - 2] - 1);
    const ValueId y = transform(in(0), length, true);
    Shape real(x.begin(), x.end() - 2);
    real.push_back(length);
    return reshaped(y, real);
  }

 private:
  ValueId transform(ValueId v, int64_t length, bool inverse) {
    return add("DFT", {v, scalar(DType::i64, static_cast<double>(length)), scalar(DType::i64, -2)},
               {{"onesided", int64_t{1}}, {"inverse", int64_t{inverse}}});
  }
};

std::vector<ValueId> expand_forward(ExpandContext& ctx) { return {Expansion(ctx).forward()}; }
std::vector<ValueId> expand_inverse(ExpandContext& ctx) { return {Expansion(ctx).inverse()}; }

std::vector<AttrSpec> attrs() {
  return {{"normalized", "int", "0"}, {"onesided", "int", "1"}, {"signal_ndim", "int", "1"}};
}

}  // namespace

KILTER_OP(Rfft){
    .name = "Rfft",
    .domain = "com.microsoft",
    .attrs = attrs(),
    .summary = "Fourier transform of real x [..., n]: y [..., n / 2 + 1, 2], real and imaginary parts.",
    .expand = expand_forward,
    .tolerance = {.rtol = 1e-4, .atol = 1e-5},
    .cases = {"f32[2,3,10]", "f32[7]"},
};

KILTER_OP(Irfft){
    .name = "Irfft",
    .domain = "com.microsoft",
    .attrs = attrs(),
    .summary = "The inverse of Rfft for an even number of elements: y [..., n] for x [..., n / 2 + 1, 2].",
    .expand = expand_inverse,
    .tolerance = {.rtol = 1e-4, .atol = 1e-5},
    .cases = {"f32[2,6,2]", "f32[4,2] | signal_ndim=1"},
};

}  // namespace kilter
