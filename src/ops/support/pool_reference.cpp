#include "ops/support/pool_reference.h"

#include <algorithm>

namespace kilter {
namespace {

/// Returns the index vectors of all taps, in row-major order.
std::vector<int64_t> tap_indices(const Window& window) {
  std::vector<int64_t> taps;
  for_each_index(window.kernel, [&](std::span<const int64_t> tap) { taps.insert(taps.end(), tap.begin(), tap.end()); });
  return taps;
}

}  // namespace

void for_each_window(const Window& window,
                     const std::function<void(int64_t output, std::span<const int64_t> inputs, int64_t covered)>& f) {
  const std::vector<int64_t> taps = tap_indices(window);
  std::vector<int64_t> inputs;
  int64_t output = 0;
  for_each_index(window.out, [&](std::span<const int64_t> out) {
    inputs.clear();
    int64_t covered = 0;
    for (size_t tap = 0; tap < taps.size(); tap += window.rank()) {
      int64_t position = 0;
      bool in_image = true;
      bool in_padding = true;
      for (size_t a = 0; a < window.rank(); ++a) {
        const int64_t source = window.source(a, out[a], taps[tap + a]);
        in_image = in_image && source >= 0 && source < window.in[a];
        in_padding = in_padding && source < window.in[a] + window.pads_end[a];
        position = position * window.in[a] + source;
      }
      if (in_image) inputs.push_back(position);
      if (in_padding) ++covered;
    }
    f(output++, inputs, covered);
  });
}

WindowCounts window_counts(const Window& window, bool count_padding) {
  std::vector<double> covered, inside;
  for_each_window(window, [&](int64_t, std::span<const int64_t> inputs, int64_t taps) {
    covered.push_back(static_cast<double>(taps));
    inside.push_back(static_cast<double>(inputs.size()));
  });
  const auto counts = [&](const std::vector<double>& of) {
    const bool equal = std::ranges::all_of(of, [&](double v) { return v == of.front(); });
    if (equal && !of.empty()) return Tensor::scalar(of.front());
    Shape shape = {1, 1};
    shape.insert(shape.end(), window.out.begin(), window.out.end());
    return Tensor::of<double>(shape, std::span<const double>(of));
  };
  return {counts(covered), counts(count_padding ? covered : inside)};
}

}  // namespace kilter
