#include "graph/equal.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <span>

#include "base/hash.h"

namespace kilter {
namespace {

constexpr int64_t kFewElems = 64;      ///< constants of a graph with at most so many elements are compared by bytes
constexpr size_t kSampleBytes = 1024;  ///< of the start, the middle and the end of a constant
constexpr size_t kMostAlike = 16;      ///< bounds the comparisons of constants with equal samples

bool same_bits(float a, float b) { return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b); }

struct SameAttr {
  const Attr& other;

  template <class T>
  bool operator()(const T& x) const {
    return x == std::get<T>(other);
  }
  bool operator()(float x) const { return same_bits(x, std::get<float>(other)); }
  bool operator()(const std::vector<float>& x) const {
    return std::ranges::equal(x, std::get<std::vector<float>>(other), same_bits);
  }
  bool operator()(const Tensor& x) const { return x.same(std::get<Tensor>(other)); }
};

bool same_attr(const Attr& a, const Attr& b) { return a.index() == b.index() && std::visit(SameAttr{b}, a); }

uint64_t sample_hash(const Tensor& tensor) {
  uint64_t hash = hash_combine(static_cast<uint64_t>(tensor.dtype()), static_cast<uint64_t>(tensor.elems()));
  if (tensor.dtype() == DType::string) return hash;
  const std::span<const std::byte> bytes(tensor.raw(), static_cast<size_t>(tensor.bytes()));
  if (bytes.size() <= 3 * kSampleBytes) return hash_bytes(bytes, hash);
  hash = hash_bytes(bytes.first(kSampleBytes), hash);
  hash = hash_bytes(bytes.subspan(bytes.size() / 2, kSampleBytes), hash);
  return hash_bytes(bytes.last(kSampleBytes), hash);
}

bool same_memory(const Tensor& a, const Tensor& b) {
  return a.raw() == b.raw() && a.dtype() == b.dtype() && a.dtype() != DType::string && a.shape() == b.shape();
}

bool same_value(const OpenValue& a, const OpenValue& b) {
  if (!a.constant || !b.constant) return !a.constant && !b.constant;
  return same_memory(*a.constant, *b.constant) || (a.constant->elems() <= kFewElems && a.constant->same(*b.constant));
}

}  // namespace

bool same_region(const Region& a, const Region& b) {
  return a.attribute == b.attribute && a.captures == b.captures && same_graph(*a.graph, *b.graph);
}

bool same_operation(const Node& a, const Node& b) {
  const auto wanted_alike = [](ValueId x, ValueId y) { return (x == kNone) == (y == kNone); };
  const auto same_entry = [](const auto& x, const auto& y) {
    return x.first == y.first && same_attr(x.second, y.second);
  };
  return a.op == b.op && a.opset == b.opset && std::ranges::equal(a.outputs, b.outputs, wanted_alike) &&
         std::ranges::equal(a.attrs, b.attrs, same_entry);
}

bool same_graph(const OpenGraph& a, const OpenGraph& b) {
  const auto same_node = [](const OpenNode& x, const OpenNode& y) {
    return same_operation(x, y) && x.inputs == y.inputs && x.outputs == y.outputs &&
           std::ranges::equal(x.regions, y.regions, same_region);
  };
  return a.inputs == b.inputs && a.own_inputs == b.own_inputs &&
         std::ranges::equal(a.outputs, b.outputs, {}, &OpenGraph::Output::value, &OpenGraph::Output::value) &&
         std::ranges::equal(a.nodes, b.nodes, same_node) && std::ranges::equal(a.values, b.values, same_value);
}

ValueId EqualConstants::first(ValueId v, const Tensor& constant) {
  std::vector<std::pair<ValueId, Tensor>>& alike = seen_[sample_hash(constant)];
  for (const auto& [other, tensor] : alike) {
    if (same_memory(tensor, constant) || tensor.same(constant)) return other;
  }
  if (alike.size() < kMostAlike) alike.emplace_back(v, constant);
  return v;
}

}  // namespace kilter
