// Packs the constants of the plan, once all choices are final.
#include <algorithm>
#include <functional>
#include <span>

#include "compile/stages/constant_pool.h"
#include "compile/stages/plan_state.h"
#include "graph/values.h"
#include "schedule/emit.h"

namespace kilter {
namespace {

class Packer {
 public:
  explicit Packer(PlanState& state)
      : s_(state), cache_(state.options.cache), pool_(cache_ == nullptr ? state.weight_bytes + largest(state) : 0) {}

  void run() {
    std::vector<BufferRef> places;
    for (size_t i = 0; i < s_.constants.size(); ++i) {
      tell_task(s_.options, "pack constants", static_cast<int64_t>(i), std::ssize(s_.constants));
      places.push_back(place(s_.constants[i]));
    }
    for (Step& step : s_.out.plan.steps) {
      for (BufferRef& arg : step.args) {
        if (arg.space == Space::constant) arg = places[static_cast<size_t>(arg.index)];
      }
    }
    own_or_share();
  }

 private:
  /// The bytes of the largest constant, which ConstantPool needs beyond those that it keeps.
  static int64_t largest(const PlanState& state) {
    int64_t most = 0;
    for (const WantedConstant& wanted : state.constants) {
      if (wanted.task == nullptr) continue;
      for (const Packing& packing : wanted.task->chosen.lowered.constants) most = std::max(most, packing.bytes());
    }
    return most;
  }

  BufferRef place(const WantedConstant& wanted) {
    if (!wanted.numbers.empty()) {
      const auto bytes = std::as_bytes(std::span(wanted.numbers));
      return store(std::ssize(bytes), [&](std::byte* to) { std::ranges::copy(bytes, to); });
    }
    if (wanted.task == nullptr) return value(wanted.value);
    PackedTask& task = *wanted.task;
    std::vector<Packing>& packings = task.chosen.lowered.constants;
    for (size_t i = task.constants.size(); i < packings.size(); ++i) {
      task.constants.push_back(packed(packings[i]));
      packings[i].fill = nullptr;
    }
    return task.constants[wanted.index];
  }

  BufferRef value(ValueId value) {
    const TensorType& type = s_.tasks.graph.type(value);
    const std::string layout = text(type);
    if (cache_ != nullptr) {
      if (const BufferRef* known = cache_->value(value, layout)) return *known;
    }
    const Tensor tensor = relay(*constant_of(s_.tasks.graph, value), type);
    const BufferRef fresh =
        store(tensor.bytes(), [&](std::byte* to) { std::copy_n(tensor.raw(), tensor.bytes(), to); });
    if (cache_ != nullptr) cache_->keep_value(value, layout, fresh);
    return fresh;
  }

  BufferRef packed(const Packing& packing) {
    const bool shared = cache_ != nullptr && packing.from != kNone;
    if (shared) {
      if (const auto known = cache_->packed(packing.from, packing.form)) return *known;
    }
    const BufferRef fresh = store(packing.bytes(), packing.fill);
    if (shared) cache_->keep_packed(packing.from, packing.form, fresh);
    return fresh;
  }

  BufferRef store(int64_t bytes, const std::function<void(std::byte*)>& fill) {
    if (cache_ == nullptr) return {Space::constant, pool_.add(bytes, fill), 0, bytes};
    const Block packed(bytes, "a packed constant");
    fill(packed.data());
    return {Space::constant, cache_->sink().add({packed.data(), static_cast<size_t>(bytes)}), 0, bytes};
  }

  /// Points the plan at its constants: in the cache's sink if there is a cache, otherwise in a block of its own.
  void own_or_share() {
    Plan& plan = s_.out.plan;
    if (cache_ != nullptr) {
      plan.constants = cache_->sink().data();
      plan.constants_bytes = cache_->sink().size();
      return;
    }
    s_.weight_bytes = pool_.bytes();
    s_.owned->constants = pool_.finish();
    plan.constants = s_.owned->constants.data();
    plan.constants_bytes = pool_.bytes();
  }

  PlanState& s_;
  BuildCache* cache_;
  ConstantPool pool_;
};

}  // namespace

void pack_constants(PlanState& state) { Packer(state).run(); }

}  // namespace kilter
