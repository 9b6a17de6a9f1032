// Memory for the nodes of expressions and statements. Compiling a large network creates hundreds of thousands of small
// nodes that are freed together. With malloc, allocating them would take more time than all other work on them.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

namespace kilter {

namespace node_memory {

/// Returns memory from the current slab of this thread, aligned for any type. Throws std::bad_alloc.
void* take(size_t bytes);
/// Gives memory back; any thread may do so. A slab is freed with its last node.
void give(void* memory, size_t bytes) noexcept;

}  // namespace node_memory

/// The standard library's interface to it.
template <class T>
struct NodeAllocator {
  using value_type = T;

  NodeAllocator() = default;
  template <class Other>
  NodeAllocator(const NodeAllocator<Other>& /*other*/) {
  }  // NOLINT(google-explicit-constructor): required of allocators

  T* allocate(size_t count) { return static_cast<T*>(node_memory::take(count * sizeof(T))); }
  void deallocate(T* memory, size_t count) noexcept { node_memory::give(memory, count * sizeof(T)); }
  bool operator==(const NodeAllocator& /*other*/) const { return true; }
};

/// std::make_shared() for nodes.
template <class Node, class... Args>
std::shared_ptr<Node> make_node(Args&&... args) {
  return std::allocate_shared<Node>(NodeAllocator<Node>(), std::forward<Args>(args)...);
}

}  // namespace kilter
