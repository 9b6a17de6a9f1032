#include "schedule/templates/byte_pairs.h"

#include <cmath>
#include <span>
#include <vector>

namespace kilter {
namespace {

constexpr int kMostPair = 128;  // 255 * 128 is the largest multiple of 255 that i16 holds

/// Halves a pair: `pair` keeps one half, and the repeated step multiplies the other, `rest`.
void halve(int8_t* pair, int8_t* rest) {
  for (int i = 0; i < 2; ++i) {
    rest[i] = static_cast<int8_t>(pair[i] / 2);
    pair[i] = static_cast<int8_t>(pair[i] - rest[i]);
  }
}

/// Halves the pairs of all panels. `repeat(panel, step, weights)` receives each step that is repeated.
template <class Repeat>
void halve_panels(std::span<int8_t> packed, const PairPanels& panels, const Repeat& repeat) {
  std::vector<int8_t> rest(static_cast<size_t>(panels.step_bytes()));
  const auto count = static_cast<int64_t>(packed.size()) / panels.step_bytes();
  for (int64_t step = 0; step < count; ++step) {
    int8_t* const weights = packed.data() + step * panels.step_bytes();
    bool any = false;
    for (int64_t i = 0; i < panels.step_bytes(); i += 2) {
      if (std::abs(weights[i] + weights[i + 1]) <= kMostPair) continue;
      if (!any) std::ranges::fill(rest, int8_t{0});
      any = true;
      halve(weights + i, rest.data() + i);
    }
    if (any) repeat(step / panels.steps, step % panels.steps, rest);
  }
}

std::span<int8_t> bytes_at(std::byte* at, int64_t count) {
  return {reinterpret_cast<int8_t*>(at), static_cast<size_t>(count)};
}

template <class T>
Tensor tensor_of(DType type, const std::vector<T>& values) {
  Tensor out(type, {static_cast<int64_t>(values.size())});
  std::ranges::copy(values, out.data<T>());
  return out;
}

}  // namespace

bool few_saturate(const Tensor& weights, int64_t depth, int64_t inner) {
  constexpr double kMostRepeated = 0.2, kPairs = 32;  // the largest share of repeated steps; pairs of a typical step
  const int64_t outer = weights.elems() / (depth * inner);
  int64_t saturate = 0, all = 0;
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t d = 0; d + 1 < depth; d += 2) {
      const float* row = weights.data<float>() + (o * depth + d) * inner;
      for (int64_t i = 0; i < inner; ++i) saturate += std::abs(row[i] + row[i + inner]) > kMostPair ? 1 : 0;
      all += inner;
    }
  }
  if (all == 0) return true;
  const double share = static_cast<double>(saturate) / static_cast<double>(all);
  return 1 - std::pow(1 - share, kPairs) <= kMostRepeated;
}

void RepeatedSteps::emit(LoopBuilder& b, const PairPanels& panels, const Expr& panel,
                         const std::function<void(const Expr&, const Expr&)>& step) const {
  if (starts.id < 0) return;
  const auto at = [&](const char* name, const Buf& from, const Expr& i) {
    return b.let(name, cast(DType::i64, b.load(from, i)));
  };
  b.loop("again", at("again0", starts, panel), at("again1", starts, panel + Expr(1)),
         [&](const Expr& i) { step(at("place", places, i), i * Expr(panels.step_bytes())); });
}

Buf pair_weights(Emitter& e, Packing packing, const PairPanels& panels, const std::function<int64_t(int64_t)>& place,
                 std::string name, RepeatedSteps& repeated) {
  Tensor packed(DType::i8, {packing.elems});
  std::fill_n(packed.data<int8_t>(), packed.elems(), int8_t{0});
  packing.fill(packed.raw());
  std::vector<int32_t> starts, places;
  std::vector<int8_t> weights;
  halve_panels(bytes_at(packed.raw(), packed.elems()), panels, [&](int64_t panel, int64_t step, const auto& rest) {
    starts.resize(static_cast<size_t>(panel) + 1, static_cast<int32_t>(places.size()));
    places.push_back(static_cast<int32_t>(place(step)));
    weights.insert(weights.end(), rest.begin(), rest.end());
  });
  starts.resize(static_cast<size_t>(packed.elems() / (panels.steps * panels.step_bytes())) + 1,
                static_cast<int32_t>(places.size()));
  packing.form += " halved";
  packing.recipe.reset();
  packing.fill = [fill = packing.fill, panels, elems = packing.elems](std::byte* to) {
    fill(to);
    halve_panels(bytes_at(to, elems), panels, [](int64_t, int64_t, const auto&) {});
  };
  const Buf all = e.constant(std::move(packing), std::move(name));
  if (places.empty()) return all;
  repeated.weights = e.constant(tensor_of(DType::i8, weights), "again");
  repeated.places = e.constant(tensor_of(DType::i32, places), "places");
  repeated.starts = e.constant(tensor_of(DType::i32, starts), "starts_again");
  return all;
}

}  // namespace kilter
