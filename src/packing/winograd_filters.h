// Winograd's minimal filtering F(m, r) as Toom-Cook interpolation (Lavin and Gray, 2015): the points, and the transform
// of filters.
//
// A tile of m + r - 1 inputs d gives m outputs  A' [ (G g) . (B' d) ].  Points are 0, pairs +-p, and infinity. With
// q(x) the product of x^2 - p^2 over the pairs and q_p = q / (x^2 - p^2):
//   G, row 0: (1, 0, .., 0) / q(0);    row +-p: (1, +-p, p^2, ..) / (2 p^2 q_p(p)); last row: (0, .., 0, 1)
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kilter {

struct WinogradTransform {
  int64_t outputs = 1, taps = 1;  ///< m, r
  std::vector<double> pairs;      ///< p of each pair of points, (m + r - 3) / 2 of them

  int64_t inputs() const { return outputs + taps - 1; }
  bool identity() const { return taps == 1; }
};

/// The transform for 1 tap (the identity, for any `outputs`), 3 taps (2 or 4 outputs) or 7 taps (2 outputs); null for
/// others. The points minimise the error: with 3 taps and 4 outputs, it is a fifth of the error with the points 0, +-1,
/// +-2.
const WinogradTransform* find_winograd(int64_t outputs, int64_t taps);

/// Coefficients of the product of x^2 - p^2 over all pairs except `without`, by powers of x^2; the last one is 1.
std::vector<double> even_product(const WinogradTransform& t, size_t without);
/// Rows of G, inputs() x taps.
std::vector<std::vector<double>> filter_rows(const WinogradTransform& t);

/// Transforms two-dimensional filters.
class FilterTransform {
 public:
  FilterTransform(const WinogradTransform& down, const WinogradTransform& across);
  /// Returns G g G' of `count` filters of down.taps x across.taps values each, which start `stride` values apart. The
  /// result has down.inputs() x across.inputs() places in rows, with `count` values each. It is valid until the next
  /// call.
  const std::vector<double>& operator()(const float* filters, int64_t count = 1, int64_t stride = 0);

 private:
  std::vector<std::vector<double>> down_, across_;  ///< rows of G
  std::vector<double> taps_, half_, out_;           ///< one value of each filter side by side
};

/// The transformed filters of a convolution [out][in][r][s], packed as [group of `width` output channels][place][input
/// channel][output channel of the group], in f32.
struct WinogradFilters {
  int64_t out_channels = 0, in_channels = 0, kernel_h = 0, kernel_w = 0;
  int64_t outputs = 0;    ///< m
  int64_t width = 0;      ///< output channels of a group
  int64_t padded_in = 0;  ///< input channels, with those of which the filters are zero

  const WinogradTransform& down() const { return *find_winograd(outputs, kernel_h); }
  const WinogradTransform& across() const { return *find_winograd(outputs, kernel_w); }
  /// Elements of the packed filters. fault_of() must have returned nullopt.
  int64_t elems() const;
};

/// Returns what is wrong with filters of `source_elems` values; nullopt: nothing.
std::optional<std::string> fault_of(const WinogradFilters& filters, int64_t source_elems);
/// Writes the packed filters to memory that is zeroed.
void pack(const WinogradFilters& filters, const float* source, float* packed);

}  // namespace kilter
