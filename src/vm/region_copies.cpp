#include "vm/region_copies.h"

#include <algorithm>
#include <cstring>

#include "base/convert.h"

namespace kilter::vm {
namespace {

/// Copies `count` elements of `size` bytes; steps are in bytes.
template <int64_t kSize>
void copy_elements(const std::byte* from, int64_t from_step, std::byte* to, int64_t to_step, int64_t count) {
  for (int64_t i = 0; i < count; ++i) std::memcpy(to + i * to_step, from + i * from_step, kSize);
}

void copy_row(const std::byte* from, int64_t from_step, std::byte* to, int64_t to_step, int64_t count, int64_t size) {
  if (from_step == size && to_step == size) {
    const int64_t bytes = count * size;
    if (bytes == 8) {
      std::memcpy(to, from, 8);
    } else if (bytes == 16) {
      std::memcpy(to, from, 16);
    } else {
      std::memcpy(to, from, static_cast<size_t>(bytes));
    }
    return;
  }
  switch (size) {
    case 1:
      return copy_elements<1>(from, from_step, to, to_step, count);
    case 2:
      return copy_elements<2>(from, from_step, to, to_step, count);
    case 4:
      return copy_elements<4>(from, from_step, to, to_step, count);
    default:
      return copy_elements<8>(from, from_step, to, to_step, count);
  }
}

/// Copies a box from dimension d on. A region without input repeats one element.
void copy_box(const CopyRegion& region, size_t d, const std::byte* from, std::byte* to, int64_t size) {
  if (d == region.extent.size()) return copy_row(from, size, to, size, 1, size);
  const bool fills = region.input == kNone;
  const int64_t from_step = fills ? 0 : region.in_strides[d] * size, to_step = region.out_strides[d] * size;
  if (d + 1 == region.extent.size()) return copy_row(from, from_step, to, to_step, region.extent[d], size);
  for (int64_t i = 0; i < region.extent[d]; ++i) copy_box(region, d + 1, from + i * from_step, to + i * to_step, size);
}

}  // namespace

OpView view_of(const Node& node, const std::vector<Tensor>& inputs, const std::vector<TensorType>& types) {
  OpView view{node, {}, {}, {}, types};
  for (const Tensor& input : inputs) {
    view.inputs.push_back(input.defined() ? TensorType{input.dtype(), input.shape(), {}} : TensorType{});
    view.present.push_back(input.defined());
    view.values.push_back(input.defined() ? &input : nullptr);
  }
  return view;
}

namespace {

/// Returns one element of this type, or nullopt if the type's elements are not numbers that a double represents.
std::optional<Tensor> fill_element(DType type, double value) {
  Tensor element(type, {});
  const bool known =
      visit_dtype(type, [&](auto zero) { *element.data<decltype(zero)>() = convert<decltype(zero)>(value); });
  if (!known) return std::nullopt;
  return element;
}

}  // namespace

std::optional<std::vector<Tensor>> run_regions(const Node& node, const std::vector<Tensor>& inputs,
                                               const std::vector<TensorType>& types) {
  if (node.op->regions == nullptr) return std::nullopt;
  const auto is_string = [](DType type) { return type == DType::string; };
  if (std::ranges::any_of(types, is_string, &TensorType::dtype)) return std::nullopt;
  const OpView view = view_of(node, inputs, types);
  std::vector<Tensor> outputs(types.size());
  for (size_t i = 0; i < types.size(); ++i) {
    if (node.outputs[i] == kNone) continue;
    const auto regions = node.op->regions(view, static_cast<int32_t>(i));
    if (!regions) return std::nullopt;
    outputs[i] = Tensor(types[i].dtype, types[i].shape);
    const int64_t size = size_bytes(types[i].dtype);
    for (const CopyRegion& region : *regions) {
      if (elems(region.extent) == 0) continue;
      std::byte* to = outputs[i].raw() + region.out_offset * size;
      if (region.input != kNone) {
        const Tensor& from = inputs[static_cast<size_t>(region.input)];
        copy_box(region, 0, from.raw() + region.in_offset * size, to, size);
      } else if (region.fill != 0) {
        const std::optional<Tensor> element = fill_element(types[i].dtype, region.fill);
        if (!element) return std::nullopt;
        copy_box(region, 0, element->raw(), to, size);
      }
    }
  }
  return outputs;
}

}  // namespace kilter::vm
