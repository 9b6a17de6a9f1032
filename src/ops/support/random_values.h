// What the random operators share: the stream of a node, its attributes, and filling its output.
#pragma once

#include <span>

#include "base/random.h"
#include "ops/op.h"

namespace kilter {

/// The stream that attribute `seed` names; without it, another one at every call.
Random random_stream(const Node& node);

/// Output 0: the element type of attribute `dtype`, else `fallback`, and the shape given. bad_model unless it is a
/// float.
void infer_random(InferContext& ctx, DType fallback, Shape shape);

/// Output 0 becomes N(mean, scale^2), or uniform in [low, high), as the attributes of those names say.
void reference_random_normal(ReferenceContext& ctx);
void reference_random_uniform(ReferenceContext& ctx);

}  // namespace kilter
