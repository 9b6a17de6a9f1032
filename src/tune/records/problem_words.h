// Problem lines as words: enough to tell how far two of them are apart, without making a graph of either.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kilter::tune {

/// Its first word, "conv2d" or "matmul": what --ops names.
std::string_view kind_of(std::string_view problem);
/// Whether it is of one of the kinds that --ops names; where that names none, of any.
bool has_kind(std::string_view problem, std::span<const std::string> ops);
/// Throws usage for one of `ops` that is the kind of none of these problems, with the kinds that they have.
void require_kinds(std::span<const std::string> ops, std::span<const std::string> problems);

/// The line without what follows the anchor: "conv2d n1 ... f32" of "conv2d n1 ... f32 +bias +relu".
std::string_view anchor_of(std::string_view problem);
/// What follows it: "+bias +relu"; empty without.
std::string_view epilogue_of(std::string_view problem);

/// An anchor taken apart: `form` has everything that schedules do not scale with, and '#' for each of `extents`.
/// Windows, strides, padding, dilation, groups, types and attributes are form; images, channels, filters and the
/// extents of operands are extents. Groups that are the channels (depthwise) are "g=c".
struct ProblemShape {
  std::string form;
  std::vector<int64_t> extents;
};
ProblemShape shape_of(std::string_view problem);

/// The sum of |log2| of the ratios of the extents: 1 is one of them doubled. Nothing where the forms differ, or an
/// extent is 0 and the other is not.
std::optional<double> shape_distance(const ProblemShape& a, const ProblemShape& b);

/// A dense or grouped convolution's numbers; nothing where the line is none.
struct ConvWords {
  int64_t n = 0, c = 0, h = 0, w = 0, k = 0, r = 0, s = 0, groups = 1;
  std::vector<int64_t> stride{1, 1}, pad{0, 0, 0, 0}, dilation{1, 1};
  int64_t out_h() const { return (h + pad[0] + pad[2] - dilation[0] * (r - 1) - 1) / stride[0] + 1; }
  int64_t out_w() const { return (w + pad[1] + pad[3] - dilation[1] * (s - 1) - 1) / stride[1] + 1; }
  /// A multiply-add counts 2.
  int64_t flops() const { return 2 * n * k * out_h() * out_w() * (c / groups) * r * s; }
};
std::optional<ConvWords> conv_words(std::string_view problem);

}  // namespace kilter::tune
