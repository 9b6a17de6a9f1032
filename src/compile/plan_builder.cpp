#include "compile/plan_builder.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

#include "base/hash.h"
#include "codegen/backend.h"
#include "compile/build_cache.h"
#include "compile/check_options.h"
#include "compile/kernel_set.h"
#include "compile/memory_budget.h"
#include "compile/packer.h"
#include "compile/split_groups.h"
#include "compile/steps.h"
#include "compile/storage.h"
#include "compile/task_memo.h"
#include "compile/tasks.h"
#include "graph/values.h"
#include "schedule/emit.h"

namespace kilter {
namespace {

class PlanBuilder {
 public:
  PlanBuilder(const Graph& fused, const CompileOptions& options)
      : fused_(fused), graph_(fused), options_(options), limits_(options.target.limits) {
    if (!options.target.features.empty())
      instructions_ = fmt::format("{}", fmt::join(features_used(options.target), ","));
  }

  Compiled run() {
    SplitGroups split_groups = split_unschedulable(graph_, options_);
    reference_ = std::move(split_groups.reference);
    out_.unfused = std::move(split_groups.unfused);
    std::optional<Graph> split;
    if (graph_.changes() != fused_.changes()) split = graph_;
    const Graph& fused = split ? *split : fused_;
    dense_ = reference_;
    const auto lower = [&] {
      while (!lower_all()) graph_ = fused;
      place_arena(buffers_, out_.plan, out_.values);
    };
    lower();
    while (slim()) graph_ = fused, lower();
    check_memory();
    if (options_.generate_code) generate_code();
    describe(out_.plan, graph_, options_.target);
    if (options_.keep_placed) out_.placed = std::make_shared<Placed>(std::move(graph_), std::move(storage_));
    if (options_.cache != nullptr) options_.cache->next();
    return std::move(out_);
  }

 private:
  /// Places and lowers everything. Returns false if it added tasks to dense_ that cannot take the strides of their
  /// operands: the graph must then be placed again.
  bool lower_all() {
    const size_t dense = dense_.size();
    Compiled fresh;
    fresh.unfused = std::move(out_.unfused);
    out_ = std::move(fresh);
    refs_.clear(), buffers_.clear(), halos_done_.clear(), step_of_.clear(), lowered_.clear();
    kernels_ = {};
    packer_ = Packer(options_);
    storage_ = place(graph_, dense_);
    verify(graph_);
    if (!names_checked_) check_node_names(graph_, options_);  // placing adds tasks, such as copies to outputs
    names_checked_ = true;
    bind_roots();
    int64_t done = 0;
    const std::vector<Unit> all = units(graph_);
    for (const Unit& unit : all) {
      tell_task(options_, "lower", done++, std::ssize(all));
      storage_.views.contains(unit.nodes.front()) ? refuse_forced(unit) : lower_unit(unit);
    }
    return dense_.size() == dense;
  }

  /// Throws usage if a schedule is forced on a unit that became a view: views have no kernel.
  void refuse_forced(const Unit& unit) const {
    const Task task = make_task(graph_, unit, nullptr);
    if (const Schedule* wanted = given(task)) {
      fail(ErrorKind::usage, "{}: {} is a view of its operands' memory and runs no kernel; leave it out",
           option_text(options_, "--schedule", task.node().name, wanted->text()), task.ops());
    }
  }

  /// rejections() of the task; computed once per form.
  std::vector<std::pair<std::string, Rejected>> known_rejections(const Task& task) {
    const std::optional<TaskForm> form = form_of(task);
    if (!form) return rejections(task, limits_);
    const auto [it, fresh] = rejections_.try_emplace(form->text);
    if (fresh) it->second = rejections(task, limits_);
    return it->second;
  }

  static const Schedule* find(const std::map<std::string, Schedule>& schedules, const Task& task) {
    const auto it = schedules.find(task.node().name);
    return it == schedules.end() ? nullptr : &it->second;
  }
  const Schedule* given(const Task& task) const { return find(options_.schedules, task); }
  /// The schedule that replaces the default; null if there is none.
  const Schedule* wanted(const Task& task) const {
    for (const auto* schedules : {&options_.schedules, &slim_}) {
      if (const Schedule* schedule = find(*schedules, task)) return schedule;
    }
    const Schedule* preferred = find(options_.preferred, task);
    return preferred != nullptr && allowed(task, *preferred) && fits(task, *preferred) ? preferred : nullptr;
  }
  bool allowed(const Task& task, const Schedule& schedule) const {
    if (forbids(options_.forbidden, task.node().name, schedule) != nullptr) return false;
    const Template* from = find_template(schedule.name);
    return options_.accuracy != Accuracy::strict || from == nullptr || from->approximates == nullptr;
  }

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

  static int64_t type_bytes(const TensorType& type) { return physical(type).elems * size_bytes(type.dtype); }

  /// The buffer of a value, as an argument of the step under construction.
  BufferRef ref(ValueId value) {
    const Value& v = graph_.value(value);
    if (v.constant) return packer_.constant(graph_, value);
    const Storage& s = storage_.of(value);
    const int64_t offset = s.offset_elems * size_bytes(v.type.dtype);
    auto it = refs_.find(s.root);
    if (it == refs_.end()) {
      const BufferRef fresh{Space::arena, 0, static_cast<int32_t>(buffers_.size()), type_bytes(graph_.type(s.root))};
      buffers_.push_back({graph_.value(s.root).name, {fresh.bytes, step(), step()}});
      it = refs_.emplace(s.root, fresh).first;
    }
    BufferRef out = it->second;
    if (out.space == Space::arena) touch(out.index);
    out.offset = offset;
    out.bytes -= offset;
    return out;
  }

  int64_t step() const { return static_cast<int64_t>(out_.plan.steps.size()); }
  void touch(int32_t buffer) {
    Lifetime& life = buffers_[static_cast<size_t>(buffer)].life;
    life.first = std::min(life.first, step());
    life.last = std::max(life.last, step());
  }

  // --- steps ---

  void lower_unit(const Unit& unit) {
    const Task task = make_task(graph_, unit, &storage_);
    if (reference_.contains(unit.nodes.front())) {
      add_reference(task);
      LoweredForm none{{}, nullptr, {}, {}, task.bytes(), {}, {}};
      return note_step(unit, task, {{"reference", {}}, {}, {}}, none);
    }
    const Schedule* schedule = wanted(task);
    if (schedule != nullptr && !fits(task, *schedule) && make_dense(unit)) return;
    const std::optional<TaskForm> form = repeats(schedule) ? form_of(task) : std::nullopt;
    if (form) {
      if (const auto known = lowered_.find(form->text); known != lowered_.end())
        return add_lowered(unit, task, *form, known->second);
    }
    std::shared_ptr<const PackedTask> packed = packer_.task(task, schedule);
    Chosen chosen = packed->chosen;
    if (chosen.schedule.name == "reference") {
      if (make_dense(unit)) return;
      if (schedule != nullptr && schedule->name == "reference") {
        fail(ErrorKind::usage, "{}: the layer changes a layout, for which there is no reference kernel; leave it out",
             option_text(options_, "--schedule", task.node().name, schedule->name));
      }
      std::string why;
      for (const auto& [name, r] : chosen.rejected) why += fmt::format("; {}: {}", name, r.text());
      require(false, "'{}' lost its template when its operands were placed{}", task.node().name, why);
    }
    note_given_up(task, chosen);
    LoweredForm lowered{form.value_or(TaskForm{}), std::move(packed), {}, {}, task.bytes(), {}, {}};
    add_halos(task);
    add_stages(task, chosen, lowered);
    note_step(unit, task, chosen, lowered);
    const bool own = form && form->any_content && !lowered.packed->constants.empty();
    if (form && !own) lowered_.emplace(form->text, std::move(lowered));
  }

  /// Whether all tasks of one form are lowered alike, because no option singles one out.
  bool repeats(const Schedule* wanted) const {
    return wanted == nullptr && options_.cache == nullptr && options_.forbidden.empty() && given_up_.empty();
  }

  void add_halos(const Task& task) {
    for (const Operand& out : task.outputs) add_halo(out.value);
  }

  /// `lowered` provides what an earlier task of the same form computed, or keeps it for a later one.
  void note_step(const Unit& unit, const Task& task, const Chosen& chosen, LoweredForm& lowered) {
    if (out_.plan.steps.empty()) return;
    const size_t last = out_.plan.steps.size() - 1;
    StepNotes& notes = out_.notes[last];
    notes.producers = producers_of(task);
    for (NodeId id : unit.nodes) {
      step_of_[id] = last;
      notes.nodes.push_back(graph_.node(id).name);
    }
    notes.task_bytes = lowered.task_bytes;
    if (!options_.keep_alternatives) return;
    constexpr size_t kMostRanked = 6;
    if (lowered.templates.empty()) {
      lowered.templates = survey(task, limits_, chosen, options_.accuracy, kMostRanked);
      lowered.estimate = estimate_of(task, chosen.schedule, limits_);
    }
    notes.templates = lowered.templates;
    notes.estimate = lowered.estimate;
    const auto before = given_up_.find(task.node().name);
    if (before != given_up_.end() && notes.estimate)
      notes.given_up = GivenUp{before->second.schedule, before->second.bytes, notes.estimate->constant_bytes};
  }

  /// The steps that write what a task reads, ascending. The search stops after a large number of nodes.
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

  bool fits(const Task& task, const Schedule& schedule) const {
    if (packer_.knows(task, &schedule)) return true;
    const Template* t = find_template(schedule.name);
    return t != nullptr && std::holds_alternative<Lowered>(t->lower(task, schedule, limits_));
  }

  /// Requests dense operands for a task without blocked ones. Returns false if they are dense already or cannot be.
  bool make_dense(const Unit& unit) {
    const auto plain = [&](const std::vector<ValueId>& values) {
      return std::all_of(values.begin(), values.end(), [&](ValueId v) {
        return v == kNone || constant_of(graph_, v) != nullptr || graph_.type(v).layout.plain();
      });
    };
    for (NodeId id : unit.nodes) {
      if (dense_.contains(id) || !plain(graph_.node(id).inputs) || !plain(graph_.node(id).outputs)) return false;
    }
    dense_.insert(unit.nodes.begin(), unit.nodes.end());
    return true;
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
    out_.plan.steps.push_back(std::move(step));
    out_.rejected.resize(out_.plan.steps.size());
    out_.notes.resize(out_.plan.steps.size());
    out_.notes.back().loops = loops;
  }

  std::vector<int32_t> add_temps(const Task& task, const Lowered& lowered) {
    std::vector<int32_t> temps;
    for (int64_t bytes : lowered.temp_bytes) {
      temps.push_back(static_cast<int32_t>(buffers_.size()));
      buffers_.push_back({task.node().name + " (temporary)", {bytes, step(), step()}});
    }
    return temps;
  }

  /// Completes a stage's step with what is specific to the task, and adds it.
  void add_stage(const Task& task, Step step, std::vector<BufferRef> args, const LoopFunc& func, uint64_t loops) {
    step.name = task.node().name;
    step.args = std::move(args);
    if (const auto most = options_.layer_threads.find(step.name); most != options_.layer_threads.end())
      step.max_threads = most->second;
    if (!options_.dump_ir.empty()) dump_kernel(func, options_.target, options_.dump_ir, this->step());
    push(std::move(step), loops);
  }

  void add_stages(const Task& task, const Chosen& chosen, LoweredForm& lowered) {
    const std::vector<int32_t> temps = add_temps(task, chosen.lowered);
    for (size_t s = 0; s < chosen.lowered.stages.size(); ++s) {
      const Stage& stage = chosen.lowered.stages[s];
      std::vector<BufferRef> args;
      for (const StageArg& arg : stage.args)
        args.push_back(argument(arg, chosen.lowered, lowered.packed->constants, temps));
      Step step = stage_step(task, chosen, s, options_.target, instructions_);
      const KernelSet::Added kernel = kernels_.add(stage.func);
      step.kernel = kernel.index;
      lowered.stages.push_back(step), lowered.loops.push_back(kernel.loops);
      add_stage(task, std::move(step), std::move(args), stage.func, kernel.loops);
    }
    end_stages(task, chosen);
  }

  void end_stages(const Task& task, const Chosen& chosen) {
    if (chosen.lowered.stages.empty()) return;  // tensors without elements
    out_.rejected.back() = chosen.rejected;
    note_values(task);
  }

  /// Adds a task that is lowered like `known`.
  void add_lowered(const Unit& unit, const Task& task, const TaskForm& form, LoweredForm& known) {
    const Lowered& lowered = known.packed->chosen.lowered;
    add_halos(task);
    const std::vector<int32_t> temps = add_temps(task, lowered);
    for (size_t s = 0; s < lowered.stages.size(); ++s) {
      const Stage& stage = lowered.stages[s];
      std::vector<BufferRef> args;
      for (StageArg arg : stage.args) {
        if (arg.kind == StageArg::value) arg.index = known.counterpart(arg.index, form);
        args.push_back(argument(arg, lowered, known.packed->constants, temps));
      }
      uint64_t loops = known.loops[s];
      if (!options_.generate_code && form.elems != known.form.elems)
        loops = hash_text(print(known.with_elems_of(task, form, stage)));
      add_stage(task, known.stages[s], std::move(args), stage.func, loops);
    }
    end_stages(task, known.packed->chosen);
    note_step(unit, task, known.packed->chosen, known);
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

  void add_reference(const Task& task) {
    Step step = reference_step(graph_, task);
    for (ValueId v : task.node().inputs) {
      if (v != kNone) step.args.push_back(ref(v));
    }
    for (ValueId v : task.node().outputs) {
      if (v != kNone) step.args.push_back(ref(v));
    }
    push(std::move(step));
    if (!options_.naive && given(task) == nullptr) out_.rejected.back() = known_rejections(task);
    note_values(task);
  }

  void note_values(const Task& task) {
    const size_t last = out_.plan.steps.size() - 1;
    for (const Operand& o : task.outputs) {
      const Storage& s = storage_.of(o.value);
      const auto known = refs_.find(s.root);
      if (known == refs_.end()) continue;
      BufferRef ref = known->second;
      ref.offset = s.offset_elems * size_bytes(o.type.dtype);
      out_.values.push_back({graph_.value(o.value).name, o.type, ref, s.phys.strides, s.phys.offset, last});
    }
  }

  // --- memory ---

  /// For a task that gave up the template of its default: adds the reason to the rejections.
  void note_given_up(const Task& task, Chosen& chosen) const {
    const auto given = given_up_.find(task.node().name);
    if (given == given_up_.end() || given->second.schedule.name == chosen.schedule.name) return;
    chosen.rejected.emplace_back(
        given->second.schedule.name,
        Rejected{std::string(kWeightBytes), std::to_string(allowed_bytes_), std::to_string(wanted_bytes_)});
  }

  /// The tasks that could run with smaller weights than they were lowered with.
  std::vector<Tradable> tradables() const {
    std::vector<Tradable> all;
    for (const Unit& unit : units(graph_)) {
      const auto step = step_of_.find(unit.nodes.front());
      if (step == step_of_.end()) continue;
      const Task task = make_task(graph_, unit, &storage_);
      const Step& taken = out_.plan.steps[step->second];
      if (taken.name != task.node().name || options_.schedules.contains(taken.name)) continue;
      auto found = tradable(task, parse_schedule(taken.schedule), limits_);
      if (!found) continue;
      std::erase_if(found->others, [&](const Holding& other) { return !allowed(task, other.schedule); });
      all.push_back(std::move(*found));
    }
    return all;
  }

  /// Limit in bytes on packed weights.
  int64_t weight_limit() const {
    constexpr double kGrowth = 2.5;
    constexpr int64_t kFree = int64_t{64} << 20;
    if (options_.memory) return *options_.memory - out_.plan.arena_bytes;
    return std::max(kFree, static_cast<int64_t>(static_cast<double>(parameter_bytes(graph_)) * kGrowth));
  }

  /// Exchanges schedules if packed weights are too large. Returns whether any schedule changed.
  bool slim() {
    wanted_bytes_ = std::max(wanted_bytes_, packer_.bytes());
    allowed_bytes_ = weight_limit();
    if (!options_.limit_weights || packer_.bytes() <= allowed_bytes_) return false;
    const std::vector<Tradable> tasks = tradables();
    const Trade done = trade(tasks, packer_.bytes() - allowed_bytes_);
    for (const Tradable& t : tasks) {
      const auto it = done.schedules.find(t.node);
      if (it == done.schedules.end()) continue;
      slim_[t.node] = it->second;
      given_up_.emplace(t.node, t.now);
    }
    return !done.schedules.empty();
  }

  void check_memory() {
    for (const auto& [node, schedule] : slim_) out_.slimmed.push_back(node);
    const int64_t weights = packer_.bytes(), arena = out_.plan.arena_bytes;
    out_.memory = options_.memory;
    out_.weight_bytes = weights, out_.wanted_bytes = wanted_bytes_, out_.weight_limit = weight_limit();
    if (options_.memory && options_.limit_weights)
      check_budget(graph_.name, *options_.memory, weights, arena, std::ssize(slim_));
  }

  // --- the end ---

  void generate_code() {
    struct Owned {
      MachineCode code;
      Block constants;
    };
    if (options_.progress) options_.progress({"generate code of kernels", 0, kernels_.size()});
    auto owned = std::make_shared<Owned>();
    KernelSet::Code generated = kernels_.generate(options_.target, options_.compile_threads, options_.cache);
    owned->code = std::move(generated.code);
    Plan& plan = out_.plan;
    plan.scratch_bytes = generated.scratch_bytes;
    plan.entries = owned->code.entries;
    plan.code = owned->code.bytes.data();
    plan.code_bytes = static_cast<int64_t>(owned->code.bytes.size());
    packer_.place(plan, owned->constants);
    plan.owner = owned;
  }

  const Graph& fused_;
  Graph graph_;
  const CompileOptions& options_;
  const TargetLimits& limits_;
  std::string instructions_;  ///< the extensions that code may use, if `-mattr` names them
  std::set<NodeId> reference_;
  std::set<NodeId> dense_;  ///< reference_, and nodes whose template takes dense operands only
  bool names_checked_ = false;
  StorageMap storage_;
  std::map<ValueId, BufferRef> refs_;  ///< by root; in the arena, `index` refers to buffers_
  std::vector<ArenaBuffer> buffers_;
  std::set<ValueId> halos_done_;
  std::map<NodeId, size_t> step_of_;  ///< the last step of the task that a node is in
  FormMemo lowered_;                  ///< by TaskForm::text
  std::unordered_map<std::string, std::vector<std::pair<std::string, Rejected>>> rejections_;  ///< by TaskForm::text
  Packer packer_{options_};
  std::map<std::string, Schedule> slim_;          ///< schedules with smaller weights, by anchor
  std::map<std::string, Holding> given_up_;       ///< the original choice, by anchor
  int64_t wanted_bytes_ = 0, allowed_bytes_ = 0;  ///< of packed weights: before any were given up; the limit
  KernelSet kernels_;
  Compiled out_;
};

}  // namespace

Compiled build_plan(const Graph& graph, const CompileOptions& options) { return PlanBuilder(graph, options).run(); }

}  // namespace kilter
