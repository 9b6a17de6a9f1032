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

#include "codegen/backend.h"
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

/// Machine code of a kernel, with the scratch memory that a worker of it needs.
struct CompiledKernel {
  KernelObject object;
  int64_t scratch_bytes = 0;
};

/// Kernels by the text of their loop IR. Used by one build at a time.
class KernelStore {
 public:
  /// Beyond `most` kernels those are forgotten that none of the last `keep` builds has used.
  explicit KernelStore(size_t most = 2048, int64_t keep = 256) : most_(most), keep_(keep) {}
  /// Null for one that is not known; stays until build_ended().
  const CompiledKernel* find(const std::string& text);
  void add(const std::string& text, CompiledKernel kernel) { kernels_[text] = {std::move(kernel), build_}; }
  void build_ended();
  size_t size() const { return kernels_.size(); }

 private:
  struct Kept {
    CompiledKernel kernel;
    int64_t used = 0;
  };
  std::map<std::string, Kept> kernels_;
  size_t most_;
  int64_t keep_, build_ = 0;
};

/// Used by one compilation at a time. The sink outlives it and all plans that were made with it.
class BuildCache {
 public:
  /// `keep`: what no build has used since so many builds is forgotten, and its constants released. `kernels`: those
  /// that this cache shares with others, one build at a time; null: they are its own.
  explicit BuildCache(ConstantSink& sink, int64_t keep = 2, std::shared_ptr<KernelStore> kernels = nullptr)
      : sink_(sink), keep_(keep), kernels_(kernels != nullptr ? std::move(kernels) : std::make_shared<KernelStore>()) {}
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
  KernelStore& kernels() { return *kernels_; }

  /// A build has ended; what it has not used grows older.
  void next();
  /// While builds do not count, nothing grows older by them.
  void count_builds(bool counts) { counts_ = counts; }

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
  bool counts_ = true;
  std::map<std::string, Kept> tasks_;
  std::map<std::pair<ValueId, std::string>, BufferRef> values_;
  std::map<std::pair<ValueId, std::string>, KeptConstant> packed_;
  std::shared_ptr<KernelStore> kernels_;
};

}  // namespace kilter
