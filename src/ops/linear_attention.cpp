#include <cmath>

#include "ops/support/elementwise.h"

namespace kilter {
namespace {

/// The extents of q [batch, steps, q_heads * key], k [.., kv_heads * key] and v [.., kv_heads * value]. The state of
/// each key head is a matrix [key, value].
struct Extents {
  int64_t batch = 0;
  int64_t steps = 0;
  int64_t q_heads = 0;
  int64_t kv_heads = 0;
  int64_t key = 0;
  int64_t value = 0;
  bool gated = false;  ///< the state first decays by exp(decay)
  bool delta = false;  ///< the state's current content for the key is subtracted from the value
  bool decay_per_key = false;
  bool beta_per_head = false;

  Shape state() const { return {batch, kv_heads, key, value}; }
};

Extents extents_of(const Node& node, const Shape& q, const Shape& k, const Shape& v) {
  Extents e;
  const std::string rule = node.string_attr("update_rule", "gated_delta");
  if (rule != "linear" && rule != "gated" && rule != "delta" && rule != "gated_delta") {
    node_error(node, fmt::format("attribute update_rule is '{}'; legal values are linear, gated, delta and gated_delta",
                                 rule));
  }
  e.gated = rule == "gated" || rule == "gated_delta";
  e.delta = rule == "delta" || rule == "gated_delta";
  e.q_heads = node.int_attr("q_num_heads", 0);
  e.kv_heads = node.int_attr("kv_num_heads", 0);
  if (q.size() != 3 || k.size() != 3 || v.size() != 3 || e.q_heads < 1 || e.kv_heads < 1 ||
      e.q_heads % e.kv_heads != 0) {
    node_error(node,
               fmt::format("query, key and value have shapes {}, {} and {} with {} and {} heads; expected rank 3 and "
                           "q_num_heads a multiple of kv_num_heads",
                           text(q), text(k), text(v), e.q_heads, e.kv_heads));
  }
  e.batch = q[0];
  e.steps = q[1];
  e.key = q[2] / e.q_heads;
  e.value = v[2] / e.kv_heads;
  if (q[2] != e.q_heads * e.key || k != Shape{e.batch, e.steps, e.kv_heads * e.key} ||
      v != Shape{e.batch, e.steps, e.kv_heads * e.value}) {
    node_error(node, fmt::format("query, key and value have shapes {}, {} and {}, which do not fit {} and {} heads",
                                 text(q), text(k), text(v), e.q_heads, e.kv_heads));
  }
  return e;
}

/// Returns the width of operand decay or beta. Checks that it is present exactly if the rule needs it.
int64_t gate_width(const Node& node, const char* what, bool needed, const Shape* shape, const Extents& e,
                   int64_t other_width) {
  if (needed != (shape != nullptr)) {
    node_error(node, fmt::format("update_rule={} {} operand {}", node.string_attr("update_rule", "gated_delta"),
                                 needed ? "needs" : "does not allow", what));
  }
  if (shape == nullptr) return 0;
  const bool legal = shape->size() == 3 && (*shape)[0] == e.batch && (*shape)[1] == e.steps &&
                     ((*shape)[2] == e.kv_heads || (*shape)[2] == other_width);
  if (!legal) {
    node_error(node, fmt::format("{} has shape {}, expected {}x{}x{} or {}x{}x{}", what, text(*shape), e.batch, e.steps,
                                 e.kv_heads, e.batch, e.steps, other_width));
  }
  return (*shape)[2];
}

template <class F>
Extents full_extents(const Node& node, F&& shape) {
  Extents e = extents_of(node, *shape(0), *shape(1), *shape(2));
  e.decay_per_key = gate_width(node, "decay", e.gated, shape(4), e, e.kv_heads * e.key) != e.kv_heads;
  e.beta_per_head = gate_width(node, "beta", e.delta, shape(5), e, 1) == e.kv_heads;
  return e;
}

void infer(InferContext& ctx) {
  for (size_t i = 0; i < ctx.input_count(); ++i) {
    if (ctx.has(i)) check_types(Floats{}, ctx, i);
  }
  const Extents e =
      full_extents(ctx.node, [&](size_t i) -> const Shape* { return ctx.has(i) ? &ctx.shape(i) : nullptr; });
  if (ctx.has(3) && ctx.shape(3) != e.state()) {
    ctx.error(fmt::format("past_state has shape {}, expected {}", text(ctx.shape(3)), text(e.state())));
  }
  ctx.set(0, ctx.dtype(0), {e.batch, e.steps, e.q_heads * e.value});
  if (ctx.outputs.size() > 1) ctx.set(1, ctx.has(3) ? ctx.dtype(3) : ctx.dtype(0), e.state());
}

/// Performs one step of one key head: decays and corrects the state [key, value], then adds the outer product of k and
/// v. decay and beta are null if the rule has none.
void update(const Extents& e, double* state, const double* k, const double* v, const double* decay,
            const double* beta) {
  for (int64_t d = 0; decay != nullptr && d < e.key; ++d) {
    const double factor = std::exp(decay[e.decay_per_key ? d : 0]);
    for (int64_t m = 0; m < e.value; ++m) state[d * e.value + m] *= factor;
  }
  for (int64_t m = 0; m < e.value; ++m) {
    double added = v[m];
    if (beta != nullptr) {
      double held = 0;
      for (int64_t d = 0; d < e.key; ++d) held += state[d * e.value + m] * k[d];
      added = *beta * (added - held);
    }
    for (int64_t d = 0; d < e.key; ++d) state[d * e.value + m] += k[d] * added;
  }
}

void reference(ReferenceContext& ctx) {
  const Extents e =
      full_extents(ctx.node, [&](size_t i) -> const Shape* { return ctx.has(i) ? &ctx.in(i).shape() : nullptr; });
  const auto load = [&](size_t i) { return ctx.has(i) ? load_doubles(ctx.in(i)) : std::vector<double>(); };
  const std::vector<double> q = load(0), k = load(1), v = load(2), decay = load(4), beta = load(5);
  std::vector<double> states = load(3);
  states.resize(static_cast<size_t>(elems(e.state())), 0.0);
  const double given = ctx.node.float_attr("scale", 0);
  const double scale = given == 0 ? 1 / std::sqrt(static_cast<double>(e.key)) : given;
  std::vector<double> y(static_cast<size_t>(e.batch * e.steps * e.q_heads * e.value), 0.0);
  for (int64_t b = 0; b < e.batch; ++b) {
    for (int64_t t = 0; t < e.steps; ++t) {
      const int64_t step = b * e.steps + t;
      for (int64_t h = 0; h < e.kv_heads; ++h) {
        const int64_t row = step * e.kv_heads + h;
        update(e, states.data() + (b * e.kv_heads + h) * e.key * e.value, k.data() + row * e.key,
               v.data() + row * e.value, e.gated ? decay.data() + row * (e.decay_per_key ? e.key : 1) : nullptr,
               e.delta ? beta.data() + (e.beta_per_head ? row : step) : nullptr);
      }
      for (int64_t h = 0; h < e.q_heads; ++h) {
        const double* state = states.data() + (b * e.kv_heads + h / (e.q_heads / e.kv_heads)) * e.key * e.value;
        const double* query = q.data() + (step * e.q_heads + h) * e.key;
        double* to = y.data() + (step * e.q_heads + h) * e.value;
        for (int64_t d = 0; d < e.key; ++d) {
          for (int64_t m = 0; m < e.value; ++m) to[m] += scale * query[d] * state[d * e.value + m];
        }
      }
    }
  }
  if (ctx.wants(0)) store_doubles(ctx.out(0), y);
  if (ctx.wants(1)) store_doubles(ctx.out(1), states);
}

int64_t flops(const OpView& view) {
  const Extents e = extents_of(view.node, view.inputs[0].shape, view.inputs[1].shape, view.inputs[2].shape);
  return e.batch * e.steps * e.key * e.value *
         (2 * e.q_heads + e.kv_heads * (2 + (e.gated ? 1 : 0) + (e.delta ? 2 : 0)));
}

}  // namespace

KILTER_OP(LinearAttention){
    .name = "LinearAttention",
    .since = 27,
    .min_inputs = 3,
    .max_inputs = 6,
    .max_outputs = 2,
    .attrs = {{"chunk_size", "int", "64"},
              {"kv_num_heads", "int", "required"},
              {"q_num_heads", "int", "required"},
              {"scale", "float", "0"},
              {"update_rule", "string", "gated_delta"}},
    .summary =
        "y = scale * q S per step and head, where the state S [key, value] decays (gated), loses its content for the "
        "key (delta) and adds the outer product of k and v; query, key, value [batch, steps, heads * size].",
    .infer = infer,
    .reference = reference,
    .flops = flops,
    // Errors propagate from step to step.
    .tolerance = {.rtol = 1e-4, .atol = 1e-5},
    .cases =
        {"f32[2,5,12] f32[2,5,6] f32[2,5,8] | q_num_heads=4 kv_num_heads=2 update_rule=linear | | 2",
         "f32[1,3,6] f32[1,3,6] f32[1,3,8] f32[1,2,3,4] f32[1,3,2] f32[1,3,1] | q_num_heads=2 kv_num_heads=2 | | 2",
         "f32[1,4,3] f32[1,4,3] f32[1,4,5] ? f32[1,4,3] | q_num_heads=1 kv_num_heads=1 update_rule=gated scale=0.5 | | "
         "2"},
};

}  // namespace kilter
