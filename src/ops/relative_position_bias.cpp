#include <algorithm>
#include <cmath>

#include "ops/support/expander.h"

namespace kilter {
namespace {

/// The bucket of a distance: exact up to half of the buckets of its sign, then logarithmic up to max_distance.
int64_t bucket_of(int64_t distance, int64_t buckets, int64_t max_distance, bool both_signs) {
  int64_t first = 0;
  int64_t far = std::max<int64_t>(-distance, 0);
  if (both_signs) {
    buckets /= 2;
    first = distance > 0 ? buckets : 0;
    far = std::abs(distance);
  }
  const int64_t exact = buckets / 2;
  if (far < exact) return first + far;
  const double ratio = std::log(static_cast<double>(far) / static_cast<double>(exact)) /
                       std::log(static_cast<double>(max_distance) / static_cast<double>(exact));
  const double bucket = static_cast<double>(exact) + ratio * static_cast<double>(buckets - exact);
  return first + static_cast<int64_t>(std::min(bucket, static_cast<double>(buckets - 1)));
}

class Expansion : Expander {
 public:
  explicit Expansion(ExpandContext& ctx) : Expander(ctx) {}

  ValueId of_table() {
    const Shape table = shape(in(0));
    const bool both_signs = node().int_attr("is_bidirectional", 0) != 0;
    const int64_t max_distance = node().int_attr("max_distance", 0);
    const int64_t least = both_signs ? 4 : 2;
    if (table.size() != 2 || table[0] < least || max_distance <= table[0] / least) {
      error(
          fmt::format("has a table of shape {} and max_distance {}, expected [buckets, heads] with {} or more buckets "
                      "and max_distance above the number of buckets / {}",
                      text(table), max_distance, least, least));
    }
    const int64_t queries = length(1, "query_length"), keys = length(2, "key_length");
    Tensor buckets(DType::i64, {queries, keys});
    for (int64_t q = 0; q < queries; ++q) {
      for (int64_t k = 0; k < keys; ++k)
        buckets.data<int64_t>()[q * keys + k] = bucket_of(k - q, table[0], max_distance, both_signs);
    }
    // The elements of the table are in the order of its columns.
    const ValueId by_head = reshaped(in(0), {table[1], table[0]});
    const ValueId index = ctx_.builder.constant(std::move(buckets), node().name);
    return reshaped(add("Gather", {by_head, index}, {{"axis", int64_t{1}}}), {1, table[1], queries, keys});
  }

  int64_t length(size_t i, std::string_view what) const {
    constexpr int64_t kMost = 16384;
    const int64_t given = needed_int(i, what);
    if (given < 0 || given > kMost) error(fmt::format("{} is {}; legal values are 0 to {}", what, given, kMost));
    return given;
  }

  ValueId gated() {
    if (has(6)) unsupported("token_offset (input 6) is not supported; export the model without packed tokens");
    const int64_t heads = node().int_attr("num_heads", 0);
    const Shape q = shape(in(0)), w = shape(in(3));
    if (heads < 1 || q.size() != 3 || q[2] % heads != 0 || w.size() != 2 || w[0] != q[2] / heads || w[1] % 2 != 0) {
      error(
          fmt::format("has a query of shape {}, weights {} and num_heads {}; expected [batch, positions, num_heads * "
                      "size] and [size, an even number]",
                      text(q), text(w), heads));
    }
    check_shape_of(1, "query_bias", {q[2]});
    check_shape_of(2, "rel_pos", {1, heads, q[1], q[1]});
    check_shape_of(4, "bias", {w[1]});
    check_shape_of(5, "eco_a", {1, heads, 1, 1});
    const ValueId apart = reshaped(sum(in(0), in(1)), {q[0], q[1], heads, q[2] / heads});
    const ValueId gates = sum(add("MatMul", {transposed(apart, {0, 2, 1, 3}), in(3)}), in(4));
    const ValueId halves = reshaped(gates, {q[0], heads, q[1], 2, w[1] / 2});
    const ValueId sums = add("ReduceSum", {halves, list({-1})}, {{"keepdims", int64_t{0}}});
    const std::vector<ValueId> parts = split(add("Sigmoid", {sums}), 3, {1, 1});
    const DType type = dtype(in(0));
    const ValueId less = add("Sub", {add("Mul", {parts[1], in(5)}), scalar(type, 1)});
    const ValueId gate = add("Add", {add("Mul", {parts[0], less}), scalar(type, 2)});
    return add("Mul", {gate, in(2)});
  }
};

std::vector<ValueId> expand(ExpandContext& ctx) { return {Expansion(ctx).of_table()}; }
std::vector<ValueId> expand_gated(ExpandContext& ctx) { return {Expansion(ctx).gated()}; }

}  // namespace

KILTER_OP(RelativePositionBias){
    .name = "RelativePositionBias",
    .domain = "com.microsoft",
    .family = Family::gather,
    .min_inputs = 3,
    .max_inputs = 3,
    .attrs = {{"is_bidirectional", "int", "0"}, {"max_distance", "int", "required"}},
    .summary =
        "The bias of T5's attention, y [1, heads, query_length, key_length]: the table [buckets, heads], whose "
        "elements "
        "are in the order of columns, at the bucket of the distance between key and query; inputs table, query_length, "
        "key_length.",
    .expand = expand,
    .shape_operands = {1, 2},
    .cases = {"f32[8,3] i64[1]=5 i64[1]=5 | max_distance=6 is_bidirectional=1",
              "f32[8,2] i32[]=1 i32[]=20 | "
              "max_distance=16"},
};

KILTER_OP(GatedRelativePositionBias){
    .name = "GatedRelativePositionBias",
    .domain = "com.microsoft",
    .family = Family::matmul,
    .min_inputs = 6,
    .max_inputs = 7,
    .attrs = {{"num_heads", "int", "required"}},
    .summary =
        "rel_pos [1, heads, n, n] times a gate for each query: y [batch, heads, n, n]; inputs queries [batch, n, heads "
        "* "
        "size], query_bias, rel_pos, weights [size, d], bias, eco_a [1, heads, 1, 1].",
    .expand = expand_gated,
    .tolerance = {.rtol = 1e-4, .atol = 1e-5},
    .cases = {"f32[2,3,8] f32[8] f32[1,2,3,3] f32[4,6] f32[6] f32[1,2,1,1] | num_heads=2"},
};

}  // namespace kilter
