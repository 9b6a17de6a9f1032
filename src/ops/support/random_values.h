// Shared by the random operators: a node's random stream, its attributes, and filling its output.
#pragma once

#include <span>

#include "base/random.h"
#include "ops/op.h"

namespace kilter {

/// Returns the stream that attribute `seed` names or, without that attribute, a different one at every call.
Random random_stream(const Node& node);

/// Gives output 0 the element type of attribute `dtype`, else `fallback`, and the given shape. Throws bad_model unless
/// the type is a float.
void infer_random(InferContext& ctx, DType fallback, Shape shape);

/// Fill output 0 with values drawn from N(mean, scale^2), or uniformly from [low, high); attributes have these names.
void reference_random_normal(ReferenceContext& ctx);
void reference_random_uniform(ReferenceContext& ctx);

}  // namespace kilter
