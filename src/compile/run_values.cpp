#include "compile/run_values.h"

#include <cstring>
#include <map>

#include "base/error.h"
#include "base/iterate.h"
#include "graph/values.h"

namespace kilter {
namespace {

/// The elements of a value as they are stored: dense, of stored_type().
Tensor stored_elements(const TensorType& type, const Tensor& elements) {
  const DType stored = stored_type(type);
  if (elements.dtype() == stored) return elements;
  const bool codes = type.layout.stored == DType::u8;
  if (!is_float(elements.dtype()) || (!codes && !is_float(stored))) {
    fail(ErrorKind::internal, "a value stored as {} cannot be replaced by elements of type {}", name(stored),
         name(elements.dtype()));
  }
  Tensor out(stored, elements.shape());
  visit_dtype(stored, [&]<class T>(T) {
    for (int64_t i = 0; i < out.elems(); ++i) {
      const double x = elements.as_double(i);
      if constexpr (std::is_integral_v<T>) {
        out.data<T>()[i] = static_cast<T>(x + type.layout.zero);
      } else {
        out.data<T>()[i] = T(static_cast<float>(x));
      }
    }
  });
  return out;
}

Shape without_ones(Shape shape) {
  std::erase(shape, 1);
  return shape;
}

}  // namespace

std::vector<Tensor> run_visiting(Loaded& loaded, const std::vector<Tensor>& inputs, const VisitValue& visit) {
  std::multimap<size_t, const PlacedValue*> by_step;
  for (const PlacedValue& value : loaded.compiled.values) by_step.emplace(value.step, &value);
  StepObserver observer;
  observer.after = [&](size_t step) {
    for (auto [it, end] = by_step.equal_range(step); it != end; ++it)
      visit(*it->second, loaded.instance->address(it->second->buffer));
  };
  return run_plan(loaded, inputs, &observer);
}

void insert(const PlacedValue& value, const Tensor& elements, std::byte* buffer) {
  const Tensor stored = stored_elements(value.type, elements.reshaped(value.type.shape));
  const int64_t size = stored_bytes(value.type);
  for_each_element(value.type.shape, value.type.layout.block, value.strides, value.offset, [&](int64_t i, int64_t at) {
    std::memcpy(buffer + at * size, stored.raw() + i * size, static_cast<size_t>(size));
  });
}

RunValues values_of(Loaded& loaded, const std::vector<Tensor>& inputs, const std::map<std::string, Tensor>* only) {
  RunValues values;
  values.outputs = run_visiting(loaded, inputs, [&](const PlacedValue& value, std::byte* buffer) {
    if (only == nullptr || only->contains(value.name)) values.made.emplace_back(value.name, extract(value, buffer));
  });
  return values;
}

std::map<std::string, Tensor> values_of_layers_alone(Loaded& loaded, const std::vector<Tensor>& inputs,
                                                     const std::map<std::string, Tensor>& others) {
  std::map<std::string, Tensor> values;
  run_visiting(loaded, inputs, [&](const PlacedValue& value, std::byte* buffer) {
    const Tensor own = extract(value, buffer);
    values.emplace(value.name, own);
    const auto other = others.find(value.name);
    if (other != others.end() && comparable(other->second, own)) insert(value, other->second, buffer);
  });
  return values;
}

bool comparable(const Tensor& a, const Tensor& b) {
  return without_ones(a.shape()) == without_ones(b.shape()) && a.widened().dtype() == b.widened().dtype();
}

}  // namespace kilter
