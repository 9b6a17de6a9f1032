// Problem lines as text: functions that determine how far apart two of them are, without building graphs.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kilter::tune {

/// Returns the first word, such as "conv2d" or "matmul"; --ops names these words.
std::string_view kind_of(std::string_view problem);
/// Whether the problem is of one of the kinds in `ops`; true for any kind if `ops` is empty.
bool has_kind(std::string_view problem, std::span<const std::string> ops);
/// Throws usage, listing the kinds of the problems, if one of `ops` is not among them.
void require_kinds(std::span<const std::string> ops, std::span<const std::string> problems);

/// Returns the line up to the end of the anchor: "conv2d n1 ... f32" for "conv2d n1 ... f32 +bias +relu".
std::string_view anchor_of(std::string_view problem);
/// Returns the text after the anchor, "+bias +relu", or an empty text.
std::string_view epilogue_of(std::string_view problem);

/// An anchor split into form and extents. Schedules may be used for different extents, but not for a different form.
/// `extents` are the sizes of images and operands and the numbers of channels and filters. `form` is the rest, with '#'
/// for each extent: windows, strides, padding, dilation, groups, types and attributes. Groups equal to the channels
/// (depthwise) are written "g=c".
struct ProblemShape {
  std::string form;
  std::vector<int64_t> extents;
};
ProblemShape shape_of(std::string_view problem);

/// The sum of |log2| of the ratios of the extents; 1 means one extent doubled. Empty if the forms differ, or one extent
/// is 0 and the other is not.
std::optional<double> shape_distance(const ProblemShape& a, const ProblemShape& b);

/// The numbers in the problem line of a dense or grouped convolution.
struct ConvWords {
  int64_t n = 0, c = 0, h = 0, w = 0, k = 0, r = 0, s = 0, groups = 1;
  std::vector<int64_t> stride{1, 1}, pad{0, 0, 0, 0}, dilation{1, 1};
  int64_t out_h() const { return (h + pad[0] + pad[2] - dilation[0] * (r - 1) - 1) / stride[0] + 1; }
  int64_t out_w() const { return (w + pad[1] + pad[3] - dilation[1] * (s - 1) - 1) / stride[1] + 1; }
  /// Counts a multiply-add as 2.
  int64_t flops() const { return 2 * n * k * out_h() * out_w() * (c / groups) * r * s; }
};
std::optional<ConvWords> conv_words(std::string_view problem);

}  // namespace kilter::tune
