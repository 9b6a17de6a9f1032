// Packs the constants of the plan, once all choices are final.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <set>
#include <span>

#include "compile/build_cache.h"
#include "compile/shared_constants.h"
#include "compile/stages/plan_state.h"
#include "graph/values.h"
#include "passes/constant_memo.h"
#include "schedule/emit.h"

namespace kilter {
namespace {

constexpr std::string_view kTitle = "pack constants";

/// The recipe for a constant, if the options ask for recipes and the packing can be expressed as one.
std::optional<RecipeOfConstant> recipe_of(const PlanState& state, const Packing& packing) {
  if (!state.options.contents.recipes || packing.from == kNone || !packing.recipe) return std::nullopt;
  return RecipeOfConstant{
      .type = packing.dtype, .recipe = *packing.recipe, .source = *constant_of(state.tasks.graph, packing.from)};
}

/// Packs constants into the sink of a BuildCache, where the builds of one graph share them.
class CachePacker {
 public:
  explicit CachePacker(PlanState& state) : s_(state), cache_(*state.options.cache) {}

  void run() {
    std::vector<BufferRef> places;
    for (size_t i = 0; i < s_.constants.size(); ++i) {
      tell_task(s_.options, kTitle, static_cast<int64_t>(i), std::ssize(s_.constants));
      places.push_back(place(s_.constants[i]));
    }
    Plan& plan = s_.out.plan;
    for (Step& step : plan.steps) {
      for (BufferRef& arg : step.args) {
        if (arg.space == Space::constant) arg = places[static_cast<size_t>(arg.index)];
      }
    }
    list_recipes(places);
    plan.constants = cache_.sink().data();
    plan.constants_bytes = cache_.sink().size();
  }

 private:
  void list_recipes(const std::vector<BufferRef>& places) {
    std::set<int64_t> listed;
    for (size_t i = 0; i < places.size(); ++i) {
      const WantedConstant& wanted = s_.constants[i];
      if (wanted.task == nullptr) continue;
      auto recipe = recipe_of(s_, wanted.task->chosen.lowered.constants[wanted.index]);
      if (!recipe || !listed.insert(places[i].offset).second) continue;
      recipe->offset = places[i].offset, recipe->bytes = places[i].bytes;
      s_.out.plan.recipes.push_back(std::move(*recipe));
    }
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
    if (const BufferRef* known = cache_.value(value, layout)) return *known;
    const Tensor tensor = relay(*constant_of(s_.tasks.graph, value), type);
    const BufferRef fresh =
        store(tensor.bytes(), [&](std::byte* to) { std::copy_n(tensor.raw(), tensor.bytes(), to); });
    cache_.keep_value(value, layout, fresh);
    return fresh;
  }

  BufferRef packed(const Packing& packing) {
    const bool shared = packing.from != kNone;
    if (shared) {
      if (const auto known = cache_.packed(packing.from, packing.form)) return *known;
    }
    const BufferRef fresh = store(packing.bytes(), packing.fill);
    if (shared) cache_.keep_packed(packing.from, packing.form, fresh);
    return fresh;
  }

  BufferRef store(int64_t bytes, const std::function<void(std::byte*)>& fill) {
    const Block packed(bytes, "a packed constant");
    fill(packed.data());
    return {Space::constant, cache_.sink().add({packed.data(), static_cast<size_t>(bytes)}), 0, bytes};
  }

  PlanState& s_;
  BuildCache& cache_;
};

/// Packs constants into memory of the plan, except for those that earlier plans of the network have.
class PlanPacker {
 public:
  explicit PlanPacker(PlanState& state) : s_(state), memo_(state.options.shared.memo) {}

  void run() {
    std::vector<NewConstant> wanted;
    for (const WantedConstant& constant : s_.constants) wanted.push_back(packing_of(constant));
    SharedConstants own;
    SharedConstants* shared = s_.options.shared.constants;
    SharedConstants::Placed placed =
        (shared != nullptr ? *shared : own).place(s_.out.plan, std::move(wanted), [&](size_t i) {
          tell_task(s_.options, kTitle, static_cast<int64_t>(i), std::ssize(s_.constants));
        });
    s_.weight_bytes = constants_bytes(*placed.home);
    if (placed.shared) s_.out.home = placed.home;
    s_.owned->constants = std::move(placed.home);
  }

 private:
  NewConstant packing_of(const WantedConstant& wanted) const {
    if (!wanted.numbers.empty()) {
      const auto bytes = std::as_bytes(std::span(wanted.numbers));
      return {{}, std::ssize(bytes), [bytes](std::byte* to) { std::ranges::copy(bytes, to); }};
    }
    if (wanted.task == nullptr) return value(wanted.value);
    Packing& packing = wanted.task->chosen.lowered.constants[wanted.index];
    const std::string form = fmt::format("{} {} of {}", packing.elems, name(packing.dtype), packing.form);
    return {origin(packing.from, form), packing.bytes(), std::exchange(packing.fill, nullptr), recipe_of(s_, packing)};
  }

  NewConstant value(ValueId value) const {
    const TensorType& type = s_.tasks.graph.type(value);
    const Tensor& tensor = *constant_of(s_.tasks.graph, value);
    const auto fill = [&tensor, &type](std::byte* to) {
      const Tensor placed = relay(tensor, type);
      std::copy_n(placed.raw(), placed.bytes(), to);
    };
    return {origin(value, ""), physical(type).elems * stored_bytes(type), fill};
  }

  std::optional<ConstantOrigin> origin(ValueId value, const std::string& form) const {
    if (value == kNone || memo_ == nullptr) return std::nullopt;
    const Tensor& tensor = *constant_of(s_.tasks.graph, value);
    if (!memo_->is_kept(tensor)) return std::nullopt;
    return ConstantOrigin{tensor.raw(), text(s_.tasks.graph.type(value)) + "|" + form};
  }

  PlanState& s_;
  const ConstantMemo* memo_;
};

}  // namespace

void pack_constants(PlanState& state) {
  state.options.cache != nullptr ? CachePacker(state).run() : PlanPacker(state).run();
}

}  // namespace kilter
