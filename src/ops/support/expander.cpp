#include "ops/support/expander.h"

#include "graph/values.h"
#include "ops/support/onnx_dtype.h"

namespace kilter {

void Expander::unsupported(const std::string& text) const {
  fail(ErrorKind::unsupported, "{}: {}", label(node()), text);
}

void Expander::require(size_t i, std::string_view what) const {
  if (!has(i)) error(fmt::format("{} (input {}) is left out but required", what, i));
}

void Expander::check_shape_of(size_t i, std::string_view what, std::span<const Shape> legal) const {
  if (!has(i)) return;
  const Shape own = shape(in(i));
  std::string texts;
  for (size_t k = 0; k < legal.size(); ++k) {
    if (own == legal[k]) return;
    texts += k == 0 ? "" : k + 1 == legal.size() ? " or " : ", ";
    texts += text(legal[k]);
  }
  error(fmt::format("{} (input {}) has shape {}, expected {}", what, i, text(own), texts));
}

const Tensor* Expander::known(size_t i) const { return constant_of(ctx_.builder.graph(), in(i)); }

const Tensor& Expander::needed(size_t i) const {
  const Tensor* value = known(i);
  if (value == nullptr) throw ShapeNeedsValue{in(i), label(node())};
  return *value;
}

int64_t Expander::needed_int(size_t i, std::string_view what) const {
  const Tensor& value = needed(i);
  if (value.elems() != 1 || !is_integer(value.dtype())) {
    error(fmt::format("{} (input {}) has type {}[{}], expected one integer", what, i, name(value.dtype()),
                      text(value.shape())));
  }
  return value.as_int(0);
}

ValueId Expander::one_element(size_t i, std::string_view what) {
  const Shape own = shape(in(i));
  if (elems(own) != 1) error(fmt::format("{} (input {}) has shape {}, expected one element", what, i, text(own)));
  return reshaped(in(i), {});
}

std::vector<ValueId> Expander::add_many(std::string_view op, std::vector<ValueId> inputs, Attrs attrs, size_t outputs) {
  GraphBuilder::Options options;
  options.name = node().name;
  options.output_count = outputs;
  return ctx_.builder.add(op, std::move(inputs), std::move(attrs), options);
}

ValueId Expander::counting(DType type, int64_t first, const Shape& shape) {
  Tensor tensor(type, shape);
  for (int64_t i = 0; i < tensor.elems(); ++i) {
    if (type == DType::i64) {
      tensor.data<int64_t>()[i] = first + i;
    } else {
      tensor.data<int32_t>()[i] = static_cast<int32_t>(first + i);
    }
  }
  return ctx_.builder.constant(std::move(tensor), node().name);
}

ValueId Expander::exchanged(ValueId v) {
  const Shape own = shape(v);
  if (own[1] == 1 || own[2] == 1) return reshaped(v, {own[0], own[2], own[1], own[3]});
  return transposed(v, {0, 2, 1, 3});
}

ValueId Expander::cast(ValueId v, DType type) {
  return dtype(v) == type ? v : add("Cast", {v}, {{"to", code_of_dtype(type)}});
}

ValueId Expander::slice(ValueId v, int64_t axis, int64_t begin, int64_t end) {
  const Shape own = shape(v);
  const int64_t extent = own.at(static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(own.size()) : axis));
  if (begin == 0 && end == extent) return v;
  return add("Slice", {v, list({begin}), list({end}), list({axis})});
}

std::vector<ValueId> Expander::split(ValueId v, int64_t axis, const std::vector<int64_t>& sizes) {
  return add_many("Split", {v, list(sizes)}, {{"axis", axis}}, sizes.size());
}

ValueId Expander::indices_along(const Shape& update, ValueId at, size_t axis) {
  Shape places(update.begin(), update.begin() + static_cast<int64_t>(axis) + 1);
  places.push_back(1);
  std::vector<ValueId> parts;
  for (size_t d = 0; d < axis; ++d) {
    Shape along(places.size(), 1);
    along[d] = update[d];
    parts.push_back(add("Expand", {counting(DType::i64, 0, along), list(places)}));
  }
  parts.push_back(add("Expand", {add("Unsqueeze", {at, list({-1})}), list(places)}));
  return parts.size() == 1 ? parts[0] : joined(parts, -1);
}

}  // namespace kilter
