#include "ops/support/maps.h"

#include "base/error.h"

namespace kilter {

const AnyValue& map_operand(const RunContext& ctx, DType key) {
  const bool is_one = ctx.has(0) && is_map(ctx.inputs[0]);
  if (!is_one || map_keys(ctx.inputs[0]).dtype() != key) {
    node_error(ctx.node, fmt::format("input 0 is {}, expected a map with keys of {}",
                                     ctx.inputs.empty() ? std::string("left out") : text(ctx.inputs[0]), name(key)));
  }
  return ctx.inputs[0];
}

}  // namespace kilter
