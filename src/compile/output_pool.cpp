#include "compile/output_pool.h"

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <utility>

#include "base/align.h"
#include "exec/memory.h"

namespace kilter {
namespace {

/// Memory, and the time of its release.
struct Piece {
  Tensor memory;
  int64_t released = 0;
};
/// Keyed by size in bytes.
using Pieces = std::multimap<int64_t, Piece>;
/// Releasing a result must not fail, so it moves nodes and allocates nothing.
using Node = Pieces::node_type;

Node new_piece(int64_t bytes) {
  Pieces pieces;
  pieces.emplace(bytes, Piece{Tensor(DType::u8, {bytes})});
  return pieces.extract(pieces.begin());
}

}  // namespace

struct OutputPool::State {
  std::mutex mutex;
  Pieces free;
  int64_t free_bytes = 0, used_bytes = 0;
  int64_t asked_bytes = 0;  ///< of the tensors in use, whose memory may be larger
  int64_t releases = 0;
  std::array<int64_t, kRuns> needs{};  ///< the peak of asked_bytes in each of the last runs
  size_t run = 0;

  Node find(int64_t bytes) {
    const auto found = free.lower_bound(bytes);
    if (found == free.end() || found->first > 2 * bytes) return {};
    free_bytes -= found->first;
    return free.extract(found);
  }

  /// Drops free memory, starting with the longest unused, until `more` bytes can be added within the limit.
  void make_room(int64_t more) {
    const int64_t limit = 2 * *std::ranges::max_element(needs);
    while (!free.empty() && free_bytes + used_bytes + more > limit) {
      const auto oldest = std::ranges::min_element(free, {}, [](const auto& entry) { return entry.second.released; });
      free_bytes -= oldest->first;
      free.erase(oldest);
    }
  }
};

namespace {

/// Returns memory to the pool when the last tensor that uses it is destroyed.
template <class State>
class Loan {
 public:
  Loan(std::shared_ptr<State> state, Node node, int64_t asked)
      : state_(std::move(state)), node_(std::move(node)), asked_(asked) {
    const std::lock_guard lock(state_->mutex);
    state_->used_bytes += node_.key(), state_->asked_bytes += asked_;
  }
  ~Loan() {
    const std::lock_guard lock(state_->mutex);
    state_->used_bytes -= node_.key(), state_->asked_bytes -= asked_;
    state_->free_bytes += node_.key();
    node_.mapped().released = ++state_->releases;
    state_->free.insert(std::move(node_));
  }
  Loan(const Loan&) = delete;
  Loan& operator=(const Loan&) = delete;
  std::byte* data() const { return node_.mapped().memory.raw(); }

 private:
  std::shared_ptr<State> state_;
  Node node_;
  int64_t asked_;
};

}  // namespace

OutputPool::OutputPool() : state_(std::make_shared<State>()) {}

Tensor OutputPool::take(DType type, const Shape& shape) {
  const int64_t bytes = round_up(elems(shape) * size_bytes(type), kCacheLine);
  if (bytes == 0) return {type, shape};
  Node node;
  {
    const std::lock_guard lock(state_->mutex);
    int64_t& need = state_->needs[state_->run];
    need = std::max(need, state_->asked_bytes + bytes);
    node = state_->find(bytes);
    if (node.empty()) state_->make_room(bytes);
  }
  if (node.empty()) node = new_piece(bytes);
  const auto loan = std::make_shared<Loan<State>>(state_, std::move(node), bytes);
  return {type, shape, loan->data(), loan};
}

void OutputPool::begin_run() {
  const std::lock_guard lock(state_->mutex);
  state_->run = (state_->run + 1) % state_->needs.size();
  state_->needs[state_->run] = state_->asked_bytes;
  state_->make_room(0);
}

int64_t OutputPool::bytes() const {
  const std::lock_guard lock(state_->mutex);
  return state_->free_bytes + state_->used_bytes;
}

}  // namespace kilter
