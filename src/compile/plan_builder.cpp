#include "compile/plan_builder.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

#include "base/hash.h"
#include "compile/build_cache.h"
#include "compile/check_options.h"
#include "compile/kernel_set.h"
#include "compile/memory_budget.h"
#include "compile/memory_plan.h"
#include "compile/packer.h"
#include "compile/reference_call.h"
#include "compile/storage.h"
#include "compile/tasks.h"
#include "graph/values.h"
#include "ops/builder.h"
#include "schedule/emit.h"
#include "schedule/paying_threads.h"

namespace kilter {
namespace {

/// A buffer of the arena while its offset is not known yet.
struct ArenaBuffer {
  std::string name;
  Lifetime life;
};

class PlanBuilder {
 public:
  PlanBuilder(Graph graph, const CompileOptions& options)
      : graph_(std::move(graph)), options_(options), limits_(options.target.limits) {}

  Compiled run() {
    split_unschedulable();
    const Graph fused = graph_;
    dense_ = reference_;
    while (!lower_all()) graph_ = fused;
    finish_arena();
    while (slim()) {
      graph_ = fused;
      while (!lower_all()) graph_ = fused;
      finish_arena();
    }
    check_memory();
    if (options_.generate_code) generate_code();
    describe();
    if (options_.keep_placed) out_.placed = std::make_shared<Placed>(std::move(graph_), std::move(storage_));
    if (options_.cache != nullptr) options_.cache->next();
    return std::move(out_);
  }

 private:
  /// Places and lowers everything; false when tasks that cannot take the strides of their operands were added to
  /// dense_: then the graph is to be placed again.
  bool lower_all() {
    const size_t dense = dense_.size();
    Compiled fresh;
    fresh.unfused = std::move(out_.unfused);
    out_ = std::move(fresh);
    refs_.clear(), buffers_.clear(), halos_done_.clear(), step_of_.clear();
    kernels_ = {};
    packer_ = Packer(options_);
    storage_ = place(graph_, dense_);
    verify(graph_);
    if (!names_checked_) check_node_names(graph_, options_);  // placing adds tasks, such as copies to outputs
    names_checked_ = true;
    bind_roots();
    for (const Unit& unit : units(graph_)) {
      storage_.views.contains(unit.nodes.front()) ? refuse_forced(unit) : lower_unit(unit);
    }
    return dense_.size() == dense;
  }

  /// What became a view has no kernel that a schedule could be for.
  void refuse_forced(const Unit& unit) const {
    const Task task = make_task(graph_, unit, nullptr);
    if (const Schedule* wanted = given(task)) {
      fail(ErrorKind::usage, "{}: {} is a view of its operands' memory and runs no kernel; leave it out",
           option_text(options_, "--schedule", task.node().name, wanted->text()), task.ops());
    }
  }

  // --- which nodes have no template ---

  /// Groups that no template takes fall apart into single nodes; nodes that no template takes run their reference
  /// kernel.
  void split_unschedulable() {
    for (const Unit& unit : units(graph_)) {
      if (viewable(unit) || schedulable(unit)) continue;
      note_split(unit);
      for (NodeId id : unit.nodes) {
        graph_.node(id).group = id;
        const Unit alone{{id}};
        if (unit.nodes.size() > 1 && schedulable(alone)) continue;
        graph_.node(id).group = kNone;
        make_plain(id);
        reference_.insert(id);
      }
    }
  }

  /// The nodes of a group that no template takes run on their own.
  void note_split(const Unit& unit) {
    if (unit.nodes.size() < 2) return;
    const Task task = make_task(graph_, unit, nullptr);
    std::string reason = "its schedule is forced to reference";
    if (given(task) == nullptr) {
      reason = "no template takes the group";
      for (const auto& [name, rejected] : rejections(task)) reason += fmt::format("; {}: {}", name, rejected.text());
    }
    for (NodeId id : unit.nodes) {
      const Node& node = graph_.node(id);
      if (id != task.anchor) out_.unfused.push_back({Unfused::schedule, node.name, task.node().name, reason});
    }
  }

  std::vector<std::pair<std::string, Rejected>> rejections(const Task& task) const {
    std::vector<std::pair<std::string, Rejected>> all;
    for (const Template* t : all_templates()) {
      auto picked = t->pick(task, limits_);
      if (auto* rejected = std::get_if<Rejected>(&picked)) all.emplace_back(t->name, std::move(*rejected));
    }
    return all;
  }

  bool viewable(const Unit& unit) const {
    const Node& node = graph_.node(unit.nodes.front());
    if (options_.naive || is_string(node)) return false;
    if (node.op->family == Family::reshape) return true;
    // A blocked Slice or Split is a run of blocks.
    return node.op->family == Family::movement &&
           (node.op->name == "Concat" || (node.outputs[0] != kNone && graph_.type(node.outputs[0]).layout.block > 1));
  }
  bool is_string(const Node& node) const {
    return std::any_of(node.outputs.begin(), node.outputs.end(),
                       [&](ValueId v) { return v != kNone && graph_.type(v).dtype == DType::string; });
  }

  bool schedulable(const Unit& unit) const {
    if (options_.naive) return false;
    const Task task = make_task(graph_, unit, nullptr);
    if (const Schedule* schedule = given(task)) return schedule->name != "reference";
    for (const Template* t : all_templates()) {
      if (std::holds_alternative<Schedule>(t->pick(task, limits_))) return true;
    }
    return false;
  }

  static const Schedule* find(const std::map<std::string, Schedule>& schedules, const Task& task) {
    const auto it = schedules.find(task.node().name);
    return it == schedules.end() ? nullptr : &it->second;
  }
  const Schedule* given(const Task& task) const { return find(options_.schedules, task); }
  /// What runs in place of the default, if anything.
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

  /// Reference kernels read and write plain tensors; readers of a blocked output get a Relayout.
  void make_plain(NodeId id) {
    for (size_t i = 0; i < graph_.node(id).inputs.size(); ++i) {
      const ValueId in = graph_.node(id).inputs[i];
      if (in == kNone || graph_.type(in).layout.plain()) continue;
      if (constant_of(graph_, in) != nullptr) {
        graph_.node(id).inputs[i] =
            graph_.add_constant(graph_.fresh_name(graph_.value(in).name), *constant_of(graph_, in));
        continue;
      }
      graph_.node(id).inputs[i] = relayout(in, Layout{});
    }
    for (ValueId out : graph_.node(id).outputs) {
      if (out == kNone || graph_.type(out).layout.plain()) continue;
      const Layout layout = graph_.type(out).layout;
      const std::vector<NodeId> users = graph_.users(out);
      graph_.value(out).type.layout = Layout{};
      const ValueId blocked = relayout(out, layout);
      for (NodeId user : users)
        std::replace(graph_.node(user).inputs.begin(), graph_.node(user).inputs.end(), out, blocked);
    }
    graph_.sort();
  }

  ValueId relayout(ValueId from, const Layout& layout) {
    TensorType type = graph_.type(from);
    type.layout = layout;
    const std::string hint = graph_.value(from).name + ".relayout";
    const NodeId id = graph_.add_node(find_op("kilter", "Relayout", 1), hint, 1, {}, {from}, {type}, {hint});
    graph_.node(id).group = id;
    return graph_.node(id).outputs[0];
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

  /// The buffer of a value as an argument of the step being built.
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
      return note_step(unit, task, {{"reference", {}}, {}, {}});
    }
    const Schedule* schedule = wanted(task);
    if (schedule != nullptr && !fits(task, *schedule) && make_dense(unit)) return;
    const std::shared_ptr<const PackedTask> packed = packer_.task(task, schedule);
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
    for (const Operand& out : task.outputs) add_halo(out.value);
    add_stages(task, chosen, packed->constants);
    note_step(unit, task, chosen);
  }

  void note_step(const Unit& unit, const Task& task, const Chosen& chosen) {
    if (out_.plan.steps.empty()) return;
    const size_t last = out_.plan.steps.size() - 1;
    StepNotes& notes = out_.notes[last];
    std::set<size_t> from;
    for (const Operand& in : task.inputs) add_producers(in.value, from);
    notes.producers.assign(from.begin(), from.end());
    for (NodeId id : unit.nodes) {
      step_of_[id] = last;
      notes.nodes.push_back(graph_.node(id).name);
    }
    notes.task_bytes = task.bytes();
    if (!options_.keep_alternatives) return;
    constexpr size_t kMostRanked = 6;
    notes.templates = survey(task, limits_, chosen, options_.accuracy, kMostRanked);
    notes.estimate = estimate_of(task, chosen.schedule, limits_);
    const auto before = given_up_.find(task.node().name);
    if (before != given_up_.end() && notes.estimate)
      notes.given_up = GivenUp{before->second.schedule, before->second.bytes, notes.estimate->constant_bytes};
  }

  /// The steps that write a value, through nodes that do nothing at run time.
  void add_producers(ValueId value, std::set<size_t>& steps) const {
    if (value == kNone || graph_.value(value).producer == kNone) return;
    const NodeId producer = graph_.value(value).producer;
    if (const auto known = step_of_.find(producer); known != step_of_.end()) {
      steps.insert(known->second);
      return;
    }
    for (ValueId in : graph_.node(producer).inputs) add_producers(in, steps);
  }

  bool fits(const Task& task, const Schedule& schedule) const {
    if (packer_.knows(task, &schedule)) return true;
    const Template* t = find_template(schedule.name);
    return t != nullptr && std::holds_alternative<Lowered>(t->lower(task, schedule, limits_));
  }

  /// Asks for dense operands of a task without blocked ones; false when it has them already.
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
    const Physical phys = physical(type);
    const auto& halo = type.layout.halo;
    const int64_t size = size_bytes(type.dtype);
    Step step;
    step.kind = StepKind::halo;
    step.name = "halo of " + graph_.value(root).name;
    step.ops = "halo";
    step.args = {ref(root)};
    step.halo.planes = phys.dims[0] * phys.dims[1];
    step.halo.plane_bytes = phys.strides[1] * size;
    step.halo.rows = phys.dims[2] + halo[0] + halo[1];
    step.halo.row_bytes = phys.strides[2] * size;
    step.halo.top = halo[0], step.halo.bottom = halo[1];
    step.halo.left_bytes = halo[2] * phys.strides[3] * size;
    step.halo.right_bytes = halo[3] * phys.strides[3] * size;
    step.bytes = step.halo.planes * (step.halo.plane_bytes - phys.dims[2] * phys.dims[3] * phys.strides[3] * size);
    push(std::move(step));
  }

  void push(Step step) {
    out_.plan.steps.push_back(std::move(step));
    out_.rejected.resize(out_.plan.steps.size());
    out_.notes.resize(out_.plan.steps.size());
    if (const int32_t k = out_.plan.steps.back().kernel; k >= 0) out_.notes.back().loops = kernels_.hash(k);
  }

  void add_stages(const Task& task, const Chosen& chosen, const std::vector<BufferRef>& constants) {
    std::vector<int32_t> temps;
    for (int64_t bytes : chosen.lowered.temp_bytes) {
      temps.push_back(static_cast<int32_t>(buffers_.size()));
      buffers_.push_back({task.node().name + " (temporary)", {bytes, step(), step()}});
    }
    const auto computing = std::count_if(chosen.lowered.stages.begin(), chosen.lowered.stages.end(),
                                         [](const Stage& stage) { return !stage.packs; });
    for (size_t s = 0; s < chosen.lowered.stages.size(); ++s) {
      const Stage& stage = chosen.lowered.stages[s];
      Step step;
      step.name = task.node().name;
      step.ops = stage.packs ? "pack" : task.ops();
      step.problem = task.problem();
      step.schedule = chosen.schedule.text();
      step.shapes = task.shapes();
      step.layouts = task.layouts();
      step.key = hash_text(fmt::format("{}|{}|{}|{}|{}|{}", step.problem, step.schedule, step.layouts,
                                       options_.target.cpu, codegen_version(), s));
      if (!stage.packs) {
        const int64_t share = task.flops() / computing;
        const StageWork work = stage.work.value_or(StageWork{share, share, task.bytes() / computing});
        step.flops = work.flops, step.effective_flops = work.effective_flops, step.bytes = work.bytes;
      }
      for (const StageArg& arg : stage.args) step.args.push_back(argument(arg, chosen.lowered, constants, temps));
      step.extent = stage.func.parallel_extent();
      if (const auto most = options_.layer_threads.find(step.name); most != options_.layer_threads.end())
        step.max_threads = most->second;
      else
        step.max_threads = paying_threads(stage.func, options_.target.limits);
      if (!options_.dump_ir.empty()) dump_kernel(stage.func, options_.target, options_.dump_ir, this->step());
      step.kernel = kernels_.add(stage.func);
      push(std::move(step));
    }
    if (chosen.lowered.stages.empty()) return;  // tensors without elements
    out_.rejected.back() = chosen.rejected;
    note_values(task);
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
    Step step;
    step.kind = StepKind::reference;
    step.name = task.node().name;
    step.ops = task.ops();
    step.problem = task.problem();
    step.schedule = "reference";
    step.shapes = task.shapes();
    step.layouts = task.layouts();
    step.flops = step.effective_flops = task.flops();
    step.bytes = task.bytes();
    step.reference = make_reference_call(graph_, task.node());
    for (ValueId v : task.node().inputs) {
      if (v != kNone) step.args.push_back(ref(v));
    }
    for (ValueId v : task.node().outputs) {
      if (v != kNone) step.args.push_back(ref(v));
    }
    push(std::move(step));
    if (!options_.naive && given(task) == nullptr) out_.rejected.back() = rejections(task);
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

  /// Of a task that gave up the template of its default: why it has that no more.
  void note_given_up(const Task& task, Chosen& chosen) const {
    const auto given = given_up_.find(task.node().name);
    if (given == given_up_.end() || given->second.schedule.name == chosen.schedule.name) return;
    chosen.rejected.emplace_back(
        given->second.schedule.name,
        Rejected{std::string(kWeightBytes), std::to_string(allowed_bytes_), std::to_string(wanted_bytes_)});
  }

  /// The tasks that could run with smaller weights than those they were lowered with.
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

  /// Most bytes that packed weights may have.
  int64_t weight_limit() const {
    constexpr double kGrowth = 2.5;
    constexpr int64_t kFree = int64_t{64} << 20;
    if (options_.memory) return *options_.memory - out_.plan.arena_bytes;
    return std::max(kFree, static_cast<int64_t>(static_cast<double>(parameter_bytes(graph_)) * kGrowth));
  }

  /// Exchanges schedules where packed weights are too large; whether there were any to exchange.
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
    if (!options_.memory || !options_.limit_weights || weights + arena <= *options_.memory) return;
    fail(ErrorKind::usage,
         "--memory {}: '{}' needs {} bytes: packed weights {}, arena {}; {}. Give at least as much, or compile for a "
         "smaller input",
         *options_.memory, graph_.name, weights + arena, weights, arena,
         slim_.empty() ? "no layer has a kernel with smaller weights"
                       : fmt::format("{} layers run kernels with smaller weights already", slim_.size()));
  }

  // --- the end ---

  void finish_arena() {
    std::vector<Lifetime> lives;
    for (const ArenaBuffer& b : buffers_) lives.push_back(b.life);
    const ArenaPlan arena = plan_arena(lives);
    out_.plan.arena_bytes = arena.bytes;
    for (size_t i = 0; i < buffers_.size(); ++i) {
      const Lifetime& life = buffers_[i].life;
      out_.plan.arena.push_back({buffers_[i].name, arena.offsets[i], life.bytes, life.first, life.last});
    }
    const auto resolve = [&](BufferRef& r) {
      if (r.space != Space::arena) return;
      r.offset += arena.offsets[static_cast<size_t>(r.index)];
      r.index = 0;
    };
    for (Step& s : out_.plan.steps) std::for_each(s.args.begin(), s.args.end(), resolve);
    for (PlacedValue& v : out_.values) resolve(v.buffer);
  }

  void generate_code() {
    struct Owned {
      MachineCode code;
      Block constants;
    };
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

  void describe() {
    Plan& plan = out_.plan;
    plan.model = graph_.name;
    plan.target = options_.target.name;
    plan.cpu = options_.target.cpu;
    plan.arch = options_.target.arch;
    plan.codegen = codegen_version();
    plan.required_features = plan.code_bytes > 0 ? features_used(options_.target) : std::vector<std::string>{};
    for (ValueId v : graph_.inputs())
      plan.inputs.push_back({graph_.value(v).name, graph_.type(v).dtype, graph_.type(v).shape});
    for (const auto& o : graph_.outputs())
      plan.outputs.push_back({o.name, graph_.type(o.value).dtype, graph_.type(o.value).shape});
  }

  Graph graph_;
  const CompileOptions& options_;
  const TargetLimits& limits_;
  std::set<NodeId> reference_;
  std::set<NodeId> dense_;  ///< reference_, and nodes whose template takes dense operands only
  bool names_checked_ = false;
  StorageMap storage_;
  std::map<ValueId, BufferRef> refs_;  ///< by root; arena: index into buffers_
  std::vector<ArenaBuffer> buffers_;
  std::set<ValueId> halos_done_;
  std::map<NodeId, size_t> step_of_;  ///< the last step of the task that a node is in
  Packer packer_{options_};
  std::map<std::string, Schedule> slim_;          ///< schedules with smaller weights, by anchor
  std::map<std::string, Holding> given_up_;       ///< what an anchor had at first
  int64_t wanted_bytes_ = 0, allowed_bytes_ = 0;  ///< of packed weights: before any were given up; at most
  KernelSet kernels_;
  Compiled out_;
};

}  // namespace

Compiled build_plan(Graph graph, const CompileOptions& options) { return PlanBuilder(std::move(graph), options).run(); }

}  // namespace kilter
