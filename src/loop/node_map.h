// A table keyed by expression node, for analyses that visit each node of a function once. It uses open addressing and
// keeps values in chunks, so references stay valid while the table grows.
#pragma once

#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "loop/expr.h"

namespace kilter {

/// Maps nodes to values. The nodes must outlive their entries: a new node at the address of a dead one would find its
/// entry.
template <class Value>
class NodeMap {
 public:
  /// Returns nullptr when there is no entry.
  Value* find(const ExprNode* node) {
    if (values_.empty()) return nullptr;
    const Slot& s = slots_[probe(node)];
    return s.node == nullptr ? nullptr : &values_[s.value];
  }

  /// Returns the entry of `node`, value-initialised when it is new.
  Value& operator[](const ExprNode* node) {
    if (values_.size() * 2 >= slots_.size()) grow();
    Slot& s = slots_[probe(node)];
    if (s.node == nullptr) {
      s = {node, static_cast<uint32_t>(values_.size())};
      values_.emplace_back();
    }
    return values_[s.value];
  }

  void clear() {
    if (values_.empty()) return;
    slots_.assign(slots_.size(), {});
    values_.clear();
  }

 private:
  struct Slot {
    const ExprNode* node = nullptr;
    uint32_t value = 0;
  };

  size_t probe(const ExprNode* node) const {
    const size_t mask = slots_.size() - 1;
    size_t at = (reinterpret_cast<uintptr_t>(node) * 0x9e3779b97f4a7c15U >> 20) & mask;
    while (slots_[at].node != nullptr && slots_[at].node != node) at = (at + 1) & mask;
    return at;
  }

  void grow() {
    std::vector<Slot> old(slots_.empty() ? 64 : slots_.size() * 4);
    old.swap(slots_);
    for (const Slot& s : old) {
      if (s.node != nullptr) slots_[probe(s.node)] = s;
    }
  }

  std::vector<Slot> slots_;
  std::deque<Value> values_;
};

}  // namespace kilter
