#include "ops/support/maps.h"
#include "ops/support/ml.h"

namespace kilter {
namespace {

DType target_type(const Node& node) {
  const std::string to = node.string_attr("cast_to", "TO_FLOAT");
  if (to == "TO_FLOAT") return DType::f32;
  if (to == "TO_STRING") return DType::string;
  if (to == "TO_INT64") return DType::i64;
  node_error(node, fmt::format("attribute cast_to is '{}'; legal values are TO_FLOAT, TO_STRING, TO_INT64", to));
}

bool is_sparse(const Node& node) {
  const std::string form = node.string_attr("map_form", "DENSE");
  if (form != "DENSE" && form != "SPARSE")
    node_error(node, fmt::format("attribute map_form is '{}'; legal values are DENSE, SPARSE", form));
  return form == "SPARSE";
}

Tensor cast(const Node& node, const Tensor& from, DType type) {
  if (from.dtype() == type) return from;
  Tensor to(type, from.shape());
  cast_values(node, from, to);
  return to;
}

/// Returns y [1, max_map] with each value at the position of its key, and with 0 elsewhere.
Tensor at_keys(const Node& node, const Tensor& keys, const Tensor& values) {
  const int64_t most = node.int_attr("max_map", 1);
  constexpr int64_t kLimit = int64_t{1} << 28;
  if (most < 0 || most > kLimit)
    node_error(node, fmt::format("attribute max_map is {}; legal values are 0 to {}", most, kLimit));
  Tensor y = cast(node, Tensor(DType::f32, {1, most}), values.dtype());
  for (int64_t i = 0; i < keys.elems(); ++i) {
    const int64_t key = keys.data<int64_t>()[i];
    if (key < 0 || key >= most) {
      fail(ErrorKind::bad_input, "{}: the map has the key {}; legal values are 0 to {}, below attribute max_map",
           label(node), key, most - 1);
    }
    copy_element(values, i, y, key);
  }
  return y;
}

std::vector<AnyValue> run(RunContext& ctx) {
  const bool sparse = is_sparse(ctx.node);
  const DType type = target_type(ctx.node);
  const AnyValue& x = map_operand(ctx, DType::i64);
  const Tensor values = cast(ctx.node, map_values(x), type);
  return {sparse ? at_keys(ctx.node, map_keys(x), values) : values.reshaped({1, values.elems()})};
}

}  // namespace

KILTER_OP(CastMap){
    .name = "CastMap",
    .domain = kMlDomain,
    .attrs = {{"cast_to", "string", "TO_FLOAT"}, {"map_form", "string", "DENSE"}, {"max_map", "int", "1"}},
    .summary =
        "y = the values of a map with keys of i64, converted to f32, i64 or strings: [1, entries] in the order of the "
        "keys, or with map_form SPARSE [1, max_map] with each value at the position of its key, else 0.",
    .run = run,
};

}  // namespace kilter
