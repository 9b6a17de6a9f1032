// Products of bytes that are summed in pairs in i16, which saturates (Multiplicands::pairs). A pair of weights whose
// sum might saturate is halved, and a repeated step multiplies the other half. Data are u8, so these are the pairs of
// weights with one sign whose magnitudes sum to more than 128.
#pragma once

#include <cstdint>
#include <functional>

#include "schedule/emit.h"

namespace kilter {

/// Whether so few pairs of `weights` might saturate that repeating their steps is faster than multiplying words.
/// `weights` are [outer][depth][inner], with pairs along depth.
bool few_saturate(const Tensor& weights, int64_t depth, int64_t inner);

/// Packed weights as panels of steps. A step has four bytes for each of `width` columns.
struct PairPanels {
  int64_t steps = 0;  ///< of a panel
  int64_t width = 0;
  int64_t step_bytes() const { return width * 4; }
};

/// Constants of the repeated steps; no buffers if there are none.
struct RepeatedSteps {
  Buf weights;
  Buf places;  ///< of the data of each step
  Buf starts;  ///< the first step of each panel, and the end

  /// Emits the repeated steps of a panel. `step` receives the place of the data, and that of the weights in `weights`.
  void emit(LoopBuilder& b, const PairPanels& panels, const Expr& panel,
            const std::function<void(const Expr& place, const Expr& weights)>& step) const;
};

/// Declares packed weights with halved pairs, and their repeated steps. `place`: of the data of a step of a panel.
Buf pair_weights(Emitter& e, Packing packing, const PairPanels& panels, const std::function<int64_t(int64_t)>& place,
                 std::string name, RepeatedSteps& repeated);

}  // namespace kilter
