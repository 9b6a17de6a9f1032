#include "vm/own_memory.h"

#include <algorithm>
#include <utility>

namespace kilter::vm {
namespace {

std::pair<const std::byte*, const std::byte*> range(const Tensor& tensor) {
  if (tensor.dtype() != DType::string) return {tensor.raw(), tensor.raw() + tensor.bytes()};
  const auto* strings = reinterpret_cast<const std::byte*>(&tensor.strings());
  return {strings, strings + 1};
}

}  // namespace

void UsedMemory::add(const AnyValue& value) {
  if (value.is_sequence()) {
    for (const AnyValue& element : value.elements()) add(element);
  }
  if (!value.is_tensor() || value.tensor().elems() == 0) return;
  auto [begin, end] = range(value.tensor());
  auto at = ranges_.upper_bound(begin);
  if (at != ranges_.begin() && std::prev(at)->second > begin) --at;
  while (at != ranges_.end() && at->first < end) {
    begin = std::min(begin, at->first), end = std::max(end, at->second);
    at = ranges_.erase(at);
  }
  ranges_.emplace(begin, end);
}

bool UsedMemory::has(const Tensor& tensor) const {
  if (tensor.elems() == 0) return false;
  const auto [begin, end] = range(tensor);
  const auto next = ranges_.lower_bound(end);
  return next != ranges_.begin() && std::prev(next)->second > begin;
}

UsedMemory constant_memory(const Program& program) {
  UsedMemory memory;
  const auto add = [&](const OpenGraph& graph) {
    for (const OpenValue& value : graph.values) {
      if (value.constant) memory.add(*value.constant);
    }
  };
  for (const Function& function : program.functions) add(*function.graph);
  for (const OpenGraph& segment : program.segments) add(segment);
  return memory;
}

void separate(AnyValue& value, const UsedMemory& fixed, UsedMemory& used) {
  if (value.is_tensor()) {
    if (fixed.has(value.tensor()) || used.has(value.tensor())) value = value.tensor().clone();
    used.add(value);
  } else if (value.is_sequence()) {
    for (AnyValue& element : value.change_elements()) separate(element, fixed, used);
  }
}

}  // namespace kilter::vm
