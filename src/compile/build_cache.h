// What compilations of one network under several schedules share, so that each further one costs only what is new in
// it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "codegen/llvm/backend.h"
#include "exec/plan.h"
#include "graph/graph.h"
#include "schedule/schedule.h"

namespace kilter {

/// Where packed constants go that do not make up a block of the plan's own.
class ConstantSink {
 public:
  virtual ~ConstantSink() = default;
  /// Offset from data() of a copy of these bytes, 64-byte aligned. Each call wants one release().
  virtual int64_t add(std::span<const std::byte> bytes) = 0;
  /// One use more of what add() gave; wants one release() more.
  virtual void share(int64_t offset, int64_t bytes) = 0;
  virtual void release(int64_t offset) = 0;
  /// Everything added lies in [data(), data() + size()); it never moves.
  virtual const std::byte* data() const = 0;
  virtual int64_t size() const = 0;
};

/// A task as a schedule lowers it, its constants where they are packed.
struct PackedTask {
  Chosen chosen;                     ///< Lowered::constants without data once they lie in a sink
  std::vector<BufferRef> constants;  ///< by index of Lowered::constants
};

/// Used by one compilation at a time. The sink outlives it and all plans that were made with it.
class BuildCache {
 public:
  struct Kernel {
    KernelObject object;
    int64_t scratch_bytes = 0;  ///< of a worker
  };
  using Objects = std::map<std::string, Kernel>;

  /// `keep`: what no build has used since so many builds is forgotten, and its constants released. `objects`:
  /// kernels that this cache shares with others, one build at a time; null: they are its own.
  explicit BuildCache(ConstantSink& sink, int64_t keep = 2, std::shared_ptr<Objects> objects = nullptr)
      : sink_(sink), keep_(keep), objects_(objects != nullptr ? std::move(objects) : std::make_shared<Objects>()) {}
  ~BuildCache();
  BuildCache(const BuildCache&) = delete;
  BuildCache& operator=(const BuildCache&) = delete;

  ConstantSink& sink() { return sink_; }

  /// Null for a task that is not known. `key`: node, schedule and layouts.
  std::shared_ptr<const PackedTask> task(const std::string& key);
  void keep_task(const std::string& key, std::shared_ptr<const PackedTask> task);
  /// Of a constant that a kernel reads as it is; null for one that is not known.
  const BufferRef* value(ValueId value, const std::string& layout) const;
  void keep_value(ValueId value, const std::string& layout, const BufferRef& ref);
  /// A constant operand as Packing::form says, with one use of the sink for the caller; null where no build has used it
  /// lately.
  std::optional<BufferRef> packed(ValueId from, const std::string& form);
  void keep_packed(ValueId from, const std::string& form, const BufferRef& ref);
  /// Kernels by the text of their loop IR.
  Objects& objects() { return *objects_; }

  /// A build has ended.
  void next();

 private:
  struct Kept {
    std::shared_ptr<const PackedTask> task;
    int64_t used = 0;
  };
  struct KeptConstant {
    BufferRef ref;  ///< of which the cache has a use of its own
    int64_t used = 0;
  };
  bool outdated(int64_t used) const { return used + keep_ < build_; }
  void forget(const PackedTask& task);

  ConstantSink& sink_;
  int64_t keep_, build_ = 0;
  std::map<std::string, Kept> tasks_;
  std::map<std::pair<ValueId, std::string>, BufferRef> values_;
  std::map<std::pair<ValueId, std::string>, KeptConstant> packed_;
  std::shared_ptr<Objects> objects_;
};

}  // namespace kilter
