#include "schedule/model/register_tile.h"

namespace kilter {

std::optional<Rejected> check_exact_sums(double weights) {
  constexpr double kOperand = 255, kExact = 0x1p24;
  const double most = weights * kOperand;
  if (most < kExact) return std::nullopt;
  return Rejected{"integer sums that f32 holds", fmt::format("below {:.0f}", kExact), fmt::format("{:.0f}", most)};
}

bool fit_i8(const Tensor& w) {
  const std::span<const float> all = w.span<float>();
  return std::ranges::all_of(
      all, [](float v) { return v >= -128 && v <= 127 && v == static_cast<float>(static_cast<int32_t>(v)); });
}

Expr interleaved(const Expr& a, const Expr& b) {
  std::vector<int32_t> picks;
  for (int32_t lane = 0; lane < a.lanes(); ++lane) picks.insert(picks.end(), {lane, a.lanes() + lane});
  return shuffle(a, b, std::move(picks));
}

double reread_rate(int64_t bytes, const CpuLimits& limits) {
  return bytes <= limits.l2_bytes / 2   ? std::max(limits.l2_rate, limits.l3_rate)
         : bytes <= limits.l3_bytes / 2 ? limits.l3_rate
                                        : limits.memory_rate;
}

}  // namespace kilter
