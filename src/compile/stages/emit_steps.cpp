// Creates the steps of the plan from the tasks: kernels, arguments, buffers with their lifetimes, and notes.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/align.h"
#include "base/hash.h"
#include "codegen/backend.h"
#include "compile/stages/constant_pool.h"
#include "compile/stages/plan_state.h"
#include "graph/values.h"

namespace kilter {
namespace {

int64_t type_bytes(const TensorType& type) { return physical(type).elems * stored_bytes(type); }

class StepEmitter {
 public:
  explicit StepEmitter(PlanState& state)
      : s_(state), options_(state.options), graph_(state.tasks.graph), storage_(state.tasks.storage) {
    if (!options_.target.features.empty())
      instructions_ = fmt::format("{}", fmt::join(features_used(options_.target), ","));
  }

  void run() {
    describe(s_.out.plan, graph_, options_.target);
    s_.out.plan.precision = std::string(name(options_.precision)) + (options_.keep_float.empty() ? "" : "+f32");
    bind_roots();
    for (size_t i = 0; i < s_.tasks.tasks.size(); ++i) {
      tell_task(options_, "make steps", static_cast<int64_t>(i), std::ssize(s_.tasks.tasks));
      const TaskEntry& entry = s_.tasks.tasks[i];
      if (entry.kind == TaskEntry::kernel) emit_kernels(entry, s_.lowerings[i]);
      if (entry.kind == TaskEntry::reference) emit_reference(entry, s_.lowerings[i]);
    }
  }

 private:
  // --- buffers ---

  void bind_roots() {
    const auto& inputs = graph_.inputs();
    for (size_t i = 0; i < inputs.size(); ++i) {
      refs_[inputs[i]] = {Space::input, 0, static_cast<int32_t>(i), type_bytes(graph_.type(inputs[i]))};
    }
    for (size_t i = 0; i < graph_.outputs().size(); ++i) {
      const ValueId root = storage_.of(graph_.outputs()[i].value).root;
      refs_[root] = {Space::output, 0, static_cast<int32_t>(i), type_bytes(graph_.type(root))};
    }
  }

  /// The buffer of a value, as an argument of the step under construction.
  BufferRef ref(ValueId value) {
    const Value& v = graph_.value(value);
    if (v.constant) return constant(value);
    const Storage& s = storage_.of(value);
    const int64_t offset = s.offset_elems * stored_bytes(v.type);
    auto it = refs_.find(s.root);
    if (it == refs_.end()) {
      const BufferRef fresh{Space::arena, 0, static_cast<int32_t>(s_.buffers.size()), type_bytes(graph_.type(s.root))};
      s_.buffers.push_back({graph_.value(s.root).name, {fresh.bytes, step(), step()}});
      it = refs_.emplace(s.root, fresh).first;
    }
    BufferRef out = it->second;
    if (out.space == Space::arena) touch(out.index);
    out.offset = offset;
    out.bytes -= offset;
    return out;
  }

  int64_t step() const { return static_cast<int64_t>(s_.out.plan.steps.size()); }
  void touch(int32_t buffer) {
    Lifetime& life = s_.buffers[static_cast<size_t>(buffer)].life;
    life.first = std::min(life.first, step());
    life.last = std::max(life.last, step());
  }

  // --- constants ---

  /// A constant of the graph in the layout of its type.
  BufferRef constant(ValueId value) {
    const auto [it, fresh] = values_.try_emplace(value);
    if (fresh) it->second = want({nullptr, 0, value}, type_bytes(graph_.type(value)));
    return it->second;
  }

  /// The packed constants of a lowered task.
  const std::vector<BufferRef>& constants_of(LoweredForm& lowered) {
    const std::vector<Packing>& packings = lowered.packed->chosen.lowered.constants;
    for (size_t i = lowered.constants.size(); i < packings.size(); ++i) {
      const Packing& packing = packings[i];
      const auto [it, fresh] =
          packing.from == kNone ? std::pair(packed_.end(), true) : packed_.try_emplace({packing.from, packing.form});
      if (!fresh) {
        lowered.constants.push_back(it->second);
        continue;
      }
      lowered.constants.push_back(want({lowered.packed, i, kNone}, packing.bytes()));
      if (packing.from != kNone) it->second = lowered.constants.back();
    }
    return lowered.constants;
  }

  BufferRef want(WantedConstant constant, int64_t bytes) {
    s_.weight_bytes += stored_bytes(bytes);
    s_.constants.push_back(std::move(constant));
    return {Space::constant, 0, static_cast<int32_t>(s_.constants.size() - 1), bytes};
  }

  // --- steps ---

  void emit_reference(const TaskEntry& entry, const Lowering& lowering) {
    const Task task = s_.tasks.task(entry);
    Step step = reference_step(graph_, task);
    for (const auto* values : {&task.node().inputs, &task.node().outputs}) {
      for (ValueId v : *values) {
        if (v != kNone) step.args.push_back(ref(v));
      }
    }
    push(std::move(step));
    s_.out.rejected.back() = lowering.rejected;
    note_values(task);
    LoweredForm none{{}, nullptr};
    none.task_bytes = task.bytes();
    note_step(entry, task, {entry.schedule, {}, {}}, none);
  }

  void emit_kernels(const TaskEntry& entry, const Lowering& lowering) {
    const Task task = s_.tasks.task(entry);
    LoweredForm& lowered = *lowering.lowered;
    for (const Operand& out : task.outputs) add_halo(out.value);
    emit_stages(task, lowering);
    lowered.emitted = true;
    std::optional<Chosen> with_reason = given_up(task, lowered.packed->chosen);
    const Chosen& chosen = with_reason ? *with_reason : lowered.packed->chosen;
    if (!chosen.lowered.stages.empty()) {  // none for tensors without elements
      s_.out.rejected.back() = chosen.rejected;
      note_values(task);
    }
    note_step(entry, task, chosen, lowered);
  }

  void emit_stages(const Task& task, const Lowering& lowering) {
    LoweredForm& form = *lowering.lowered;
    const Lowered& lowered = form.packed->chosen.lowered;
    if (!form.emitted) form.task_bytes = task.bytes();
    const std::vector<BufferRef>& constants = constants_of(form);
    const std::vector<int32_t> temps = add_temps(task, lowered);
    for (size_t s = 0; s < lowered.stages.size(); ++s) {
      const Stage& stage = lowered.stages[s];
      std::vector<BufferRef> args;
      for (StageArg arg : stage.args) {
        if (arg.kind == StageArg::value && form.emitted) arg.index = form.counterpart(arg.index, lowering.own);
        args.push_back(argument(arg, lowered, constants, temps));
      }
      if (!form.emitted) {
        const int32_t kernel = s_.kernels.add(stage.func, task.node().name);
        form.stages.push_back(stage_step(task, form.packed->chosen, s, options_.target, instructions_));
        form.stages.back().kernel = kernel;
        form.loops.push_back(s_.tasks.open ? 0 : hash_text(print(stage.func)));
      }
      uint64_t loops = form.loops[s];
      if (form.emitted && !options_.contents.code && lowering.own.elems != form.form.elems)
        loops = hash_text(print(form.with_elems_of(task, lowering.own, stage)));
      add_stage(task, form.stages[s], std::move(args), stage.func, loops);
    }
  }

  /// Completes a stage's step with the parts that are specific to the task, and adds it.
  void add_stage(const Task& task, Step step, std::vector<BufferRef> args, const LoopFunc& func, uint64_t loops) {
    step.name = task.node().name;
    step.args = std::move(args);
    if (const int32_t most = choice_for(s_.choices, step.name).threads; most > 0) step.max_threads = most;
    if (!options_.debug.dump_ir.empty()) dump_kernel(func, options_.target, options_.debug.dump_ir, this->step());
    push(std::move(step), loops);
  }

  BufferRef argument(const StageArg& arg, const Lowered& lowered, const std::vector<BufferRef>& constants,
                     const std::vector<int32_t>& temps) {
    switch (arg.kind) {
      case StageArg::value:
        return ref(arg.index);
      case StageArg::constant:
        return constants[static_cast<size_t>(arg.index)];
      case StageArg::temp:
        break;
    }
    const int32_t buffer = temps[static_cast<size_t>(arg.index)];
    touch(buffer);
    return {Space::arena, 0, buffer, lowered.temp_bytes[static_cast<size_t>(arg.index)]};
  }

  std::vector<int32_t> add_temps(const Task& task, const Lowered& lowered) {
    std::vector<int32_t> temps;
    for (int64_t bytes : lowered.temp_bytes) {
      temps.push_back(static_cast<int32_t>(s_.buffers.size()));
      s_.buffers.push_back({temporary_of(task.node().name), {bytes, step(), step()}});
    }
    return temps;
  }

  void add_halo(ValueId value) {
    const ValueId root = storage_.of(value).root;
    const TensorType& type = graph_.type(root);
    if (!type.layout.has_halo() || !halos_done_.insert(root).second) return;
    Step step = halo_step(graph_.value(root).name, type);
    step.args = {ref(root)};
    push(std::move(step));
  }

  /// `loops`: hash of the kernel's loop IR; 0 without a kernel.
  void push(Step step, uint64_t loops = 0) {
    s_.out.plan.steps.push_back(std::move(step));
    s_.out.rejected.resize(s_.out.plan.steps.size());
    s_.out.notes.resize(s_.out.plan.steps.size());
    s_.out.notes.back().loops = loops;
  }

  // --- notes ---

  /// Returns the choice for a task that gave up its default template, with the reason added to the rejections.
  std::optional<Chosen> given_up(const Task& task, const Chosen& chosen) const {
    const auto given = s_.given_up.find(task.node().name);
    if (given == s_.given_up.end() || given->second.schedule.name == chosen.schedule.name) return std::nullopt;
    Chosen out = chosen;
    out.rejected.emplace_back(
        given->second.schedule.name,
        Rejected{std::string(kWeightBytes), std::to_string(s_.allowed_bytes), std::to_string(s_.wanted_bytes)});
    return out;
  }

  void note_step(const TaskEntry& entry, const Task& task, const Chosen& chosen, LoweredForm& lowered) {
    if (s_.out.plan.steps.empty()) return;
    const size_t last = s_.out.plan.steps.size() - 1;
    StepNotes& notes = s_.out.notes[last];
    notes.producers = producers_of(task);
    for (NodeId id : entry.unit.nodes) {
      step_of_[id] = last;
      notes.nodes.push_back(graph_.node(id).name);
    }
    notes.task_bytes = lowered.task_bytes;
    if (!options_.contents.alternatives) return;
    constexpr size_t kMostRanked = 6;
    if (lowered.templates.empty()) {
      lowered.templates = survey(task, s_.limits, chosen, options_.accuracy, kMostRanked);
      lowered.estimate = estimate_of(task, chosen.schedule, s_.limits);
    }
    notes.templates = lowered.templates;
    notes.estimate = lowered.estimate;
    const auto before = s_.given_up.find(task.node().name);
    if (before != s_.given_up.end() && notes.estimate)
      notes.given_up = GivenUp{before->second.schedule, before->second.bytes, notes.estimate->constant_bytes};
  }

  /// The steps that write the inputs of a task, ascending. The search stops after a large number of nodes.
  std::vector<size_t> producers_of(const Task& task) const {
    constexpr size_t kMost = 1000;
    std::set<size_t> from;
    std::set<NodeId> seen;
    std::vector<ValueId> open;
    for (const Operand& in : task.inputs) open.push_back(in.value);
    while (!open.empty() && seen.size() < kMost) {
      const ValueId value = open.back();
      open.pop_back();
      const NodeId producer = value == kNone ? kNone : graph_.value(value).producer;
      if (producer == kNone || !seen.insert(producer).second) continue;
      if (const auto known = step_of_.find(producer); known != step_of_.end()) {
        from.insert(known->second);
        continue;
      }
      const std::vector<ValueId>& through = graph_.node(producer).inputs;  // the producer does nothing at run time
      open.insert(open.end(), through.begin(), through.end());
    }
    return {from.begin(), from.end()};
  }

  void note_values(const Task& task) {
    const size_t last = s_.out.plan.steps.size() - 1;
    for (const Operand& o : task.outputs) {
      const Storage& s = storage_.of(o.value);
      const auto known = refs_.find(s.root);
      if (known == refs_.end()) continue;
      BufferRef ref = known->second;
      ref.offset = s.offset_elems * stored_bytes(o.type);
      s_.out.values.push_back({graph_.value(o.value).name, o.type, ref, s.phys.strides, s.phys.offset, last});
    }
  }

  PlanState& s_;
  const CompileOptions& options_;
  const Graph& graph_;
  const StorageMap& storage_;
  std::string instructions_;             ///< the extensions that code may use, if `-mattr` names them
  std::map<ValueId, BufferRef> refs_;    ///< by root; in the arena, `index` refers to PlanState::buffers
  std::map<ValueId, BufferRef> values_;  ///< constants that are read without packing
  std::map<std::pair<ValueId, std::string>, BufferRef> packed_;  ///< by operand and form
  std::set<ValueId> halos_done_;
  std::map<NodeId, size_t> step_of_;  ///< the last step of the task that a node is in
};

}  // namespace

void emit_steps(PlanState& state) { StepEmitter(state).run(); }

}  // namespace kilter
