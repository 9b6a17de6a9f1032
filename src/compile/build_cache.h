// Data shared by several compilations of one network with different schedules, so that each further compilation costs
// only its new parts.
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

#include "compile/kernel_store.h"
#include "exec/plan.h"
#include "graph/graph.h"
#include "schedule/schedule.h"

namespace kilter {

/// A store for packed constants outside the blocks that plans own.
class ConstantSink {
 public:
  virtual ~ConstantSink() = default;
  /// Copies the bytes and returns the copy's offset from data(), 64-byte aligned. Each call must be matched by one
  /// release().
  virtual int64_t add(std::span<const std::byte> bytes) = 0;
  /// Adds one use of bytes that add() stored. Each call must be matched by one more release().
  virtual void share(int64_t offset, int64_t bytes) = 0;
  virtual void release(int64_t offset) = 0;
  /// Everything added lies in [data(), data() + size()) and never moves.
  virtual const std::byte* data() const = 0;
  virtual int64_t size() const = 0;
};

/// A task lowered by a schedule, with the places of its packed constants.
struct PackedTask {
  Chosen chosen;                     ///< Lowered::constants have no data once they are packed
  std::vector<BufferRef> constants;  ///< by index of Lowered::constants; empty until they are packed
};

/// Used by one compilation at a time. The sink must outlive the cache and all plans compiled with it.
class BuildCache {
 public:
  /// `keep`: entries that the last `keep` builds have not used are dropped, and their constants released. `kernels`: a
  /// store shared with other caches, for one build at a time; null gives the cache its own.
  explicit BuildCache(ConstantSink& sink, int64_t keep = 2, std::shared_ptr<KernelStore> kernels = nullptr)
      : sink_(sink), keep_(keep), kernels_(kernels != nullptr ? std::move(kernels) : std::make_shared<KernelStore>()) {}
  ~BuildCache();
  BuildCache(const BuildCache&) = delete;
  BuildCache& operator=(const BuildCache&) = delete;

  ConstantSink& sink() { return sink_; }

  /// Returns null for an unknown task. `key` consists of node, schedule and layouts.
  std::shared_ptr<PackedTask> task(const std::string& key);
  void keep_task(const std::string& key, std::shared_ptr<PackedTask> task);
  /// The place of a constant that a kernel reads without packing; null if it is unknown.
  const BufferRef* value(ValueId value, const std::string& layout) const;
  void keep_value(ValueId value, const std::string& layout, const BufferRef& ref);
  /// A constant operand packed according to Packing::form; empty if no recent build has used it. Adds one use, which
  /// the caller must release.
  std::optional<BufferRef> packed(ValueId from, const std::string& form);
  void keep_packed(ValueId from, const std::string& form, const BufferRef& ref);
  KernelStore& kernels() { return *kernels_; }

  /// Ends a build: entries that it has not used grow older.
  void next();
  /// Sets whether builds count. While they do not, no entry grows older.
  void count_builds(bool counts) { counts_ = counts; }

 private:
  struct Kept {
    std::shared_ptr<PackedTask> task;
    int64_t used = 0;
  };
  struct KeptConstant {
    BufferRef ref;  ///< the cache itself counts as one use
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
