// The values that a compiled network's steps write, in the form that the runner accepts.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "compile/compile.h"
#include "tune/run/value.h"

namespace kilter::tune {

/// Returns every value that a step writes. A copy in a different layout counts as the value that it copies. `tolerance`
/// is relative to the largest magnitude of each value; values stored as f16 or bf16 get at least four units in the last
/// place.
inline std::vector<StepValue> step_values(const Compiled& compiled, double tolerance = kDefaultTolerance) {
  constexpr std::string_view kRelayout = ".relayout";
  std::vector<StepValue> out;
  for (const PlacedValue& v : compiled.values) {
    if (!is_arithmetic(v.type.dtype) || v.buffer.space == kilter::Space::constant ||
        v.buffer.space == kilter::Space::none)
      continue;
    const bool copy = compiled.plan.steps[v.step].role == StepRole::relayout;
    const size_t end = copy ? v.name.rfind(kRelayout) : std::string::npos;
    constexpr double kBf16 = 0x1p-6, kF16 = 0x1p-9;
    const auto& stored = v.type.layout.stored;
    const double least = stored == DType::bf16 ? kBf16 : stored == DType::f16 ? kF16 : 0;
    out.push_back({v.name.substr(0, end), v.step, v.buffer, {}, std::max(tolerance, least)});
    ValueLayout& layout = out.back().layout;
    layout.type = stored_type(v.type);
    layout.shape = v.type.shape;
    layout.block = v.type.layout.block;
    for (size_t i = 0; i < layout.halo.size(); ++i) layout.halo[i] = v.type.layout.halo[i];
    layout.strides = v.strides;
    layout.offset = v.offset;
  }
  return out;
}

}  // namespace kilter::tune
