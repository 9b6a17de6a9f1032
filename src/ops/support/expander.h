// The base of classes that expand an operator: adds common nodes in few words.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ops/support/builder.h"

namespace kilter {

/// Every method that returns a value adds nodes for it, under the name of the node that is replaced.
class Expander {
 protected:
  explicit Expander(ExpandContext& ctx) : ctx_(ctx) {}

  const Node& node() const { return ctx_.node; }
  bool has(size_t i) const { return ctx_.has(i); }
  /// Returns input i, or kNone if it is left out.
  ValueId in(size_t i) const { return has(i) ? ctx_.in(i) : kNone; }
  /// Returns a copy: the type of a value moves when nodes are added.
  Shape shape(ValueId v) const { return ctx_.builder.type(v).shape; }
  DType dtype(ValueId v) const { return ctx_.builder.type(v).dtype; }

  [[noreturn]] void error(const std::string& text) const { node_error(node(), text); }
  /// Throws unsupported: "GroupQueryAttention 'name': <text>".
  [[noreturn]] void unsupported(const std::string& text) const;
  /// Throws bad_model if input i is left out.
  void require(size_t i, std::string_view what) const;
  /// Throws bad_model unless input i, if present, has one of the shapes.
  void check_shape_of(size_t i, std::string_view what, std::span<const Shape> legal) const;
  void check_shape_of(size_t i, std::string_view what, const Shape& legal) const {
    check_shape_of(i, what, std::span(&legal, 1));
  }
  /// Returns the value of input i, or nullptr if it is left out or not a constant.
  const Tensor* known(size_t i) const;
  /// Returns the value of input i, on which a shape depends. Throws ShapeNeedsValue if it is not a constant.
  const Tensor& needed(size_t i) const;
  /// Returns the only element of input i, on which a shape depends. Throws bad_model if it has more.
  int64_t needed_int(size_t i, std::string_view what) const;

  /// Returns input i, which has one element, as a scalar. Throws bad_model if it has more.
  ValueId one_element(size_t i, std::string_view what);

  ValueId add(std::string_view op, std::vector<ValueId> inputs, Attrs attrs = {}) {
    return ctx_.add(op, std::move(inputs), std::move(attrs));
  }
  std::vector<ValueId> add_many(std::string_view op, std::vector<ValueId> inputs, Attrs attrs, size_t outputs);
  ValueId scalar(DType type, double value) { return ctx_.scalar(type, value); }
  ValueId list(std::span<const int64_t> values) { return ctx_.builder.list(values, node().name); }
  ValueId list(std::initializer_list<int64_t> values) { return list(std::vector<int64_t>(values)); }
  /// Returns a constant i32 or i64 tensor that counts up from `first` in row-major order.
  ValueId counting(DType type, int64_t first, const Shape& shape);
  ValueId filled(DType type, double value, const Shape& shape) {
    return add("Expand", {scalar(type, value), list(shape)});
  }

  ValueId sum(ValueId a, ValueId b) { return a == kNone ? b : b == kNone ? a : add("Add", {a, b}); }
  ValueId reshaped(ValueId v, const Shape& to) { return shape(v) == to ? v : add("Reshape", {v, list(to)}); }
  ValueId transposed(ValueId v, std::vector<int64_t> perm) {
    return add("Transpose", {v}, {{"perm", std::move(perm)}});
  }
  /// Exchanges axes 1 and 2 of four. If one of them is 1, only the shape changes.
  ValueId exchanged(ValueId v);
  ValueId cast(ValueId v, DType type);
  /// Returns elements begin to end - 1 along an axis.
  ValueId slice(ValueId v, int64_t axis, int64_t begin, int64_t end);
  /// Returns the parts of these sizes along an axis.
  std::vector<ValueId> split(ValueId v, int64_t axis, const std::vector<int64_t>& sizes);
  ValueId joined(const std::vector<ValueId>& parts, int64_t axis) { return add("Concat", parts, {{"axis", axis}}); }
  /// Returns the indices with which ScatterND writes values of shape `update` at the positions `at` along an axis: i64,
  /// of a shape that broadcasts to the dimensions of the update up to the axis.
  ValueId indices_along(const Shape& update, ValueId at, size_t axis);

  ExpandContext& ctx_;
};

}  // namespace kilter
