#include "compile/program_runner.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/free_memory.h"
#include "compile/check_options.h"
#include "graph/maker.h"
#include "onnx/specialise.h"
#include "ops/support/evaluate.h"
#include "ops/support/fold.h"
#include "vm/host_op.h"

namespace kilter {
namespace {

/// A segment is compiled when it first occurs with certain shapes if its reference kernels would do more operations
/// than this, and otherwise when it has occurred kRunsBeforeCompiling times, since compiling takes a few milliseconds.
constexpr int64_t kManyOperations = 1 << 17;
constexpr int64_t kRunsBeforeCompiling = ProgramRunner::kRunsUntilCompiled - 1;

bool fits(const TensorType& type, const Tensor& tensor) {
  return type.dtype == tensor.dtype() && type.shape == tensor.shape();
}

bool has_strings(const Graph& graph) {
  for (size_t v = 0; v < graph.value_count(); ++v) {
    const Value& value = graph.value(static_cast<ValueId>(v));
    if (!value.dead && value.type.dtype == DType::string) return true;
  }
  return false;
}

int64_t operations(const Graph& graph) {
  int64_t sum = 0;
  for (const NodeId id : graph.order()) sum += fold_work(view(graph, graph.node(id)));
  return sum;
}

using Names = std::set<std::string, std::less<>>;

/// Whether `names` contains a node, or the node for which a pass created it.
bool has(const Names& names, std::string_view node) {
  return maker_length(node, [&](std::string_view name) { return names.contains(name); }) > 0;
}

}  // namespace

ProgramRunner::ProgramRunner(std::string name, std::shared_ptr<const OpenGraph> graph, Options options,
                             std::shared_ptr<ThreadPool> pool)
    : name_(std::move(name)),
      program_(vm::make_program(std::move(graph), options.varying)),
      fixed_(vm::constant_memory(program_)),
      options_(std::move(options)),
      pool_(std::move(pool)),
      host_{pool_.get(), options_.compile.debug.naive},
      own_memo_(program_.graph),
      index_(program_.segments.size()),
      machine_(
          program_,
          [this](int32_t segment, std::vector<AnyValue> inputs) { return run_segment(segment, std::move(inputs)); },
          options_.interrupt, host_) {
  check_named_nodes();
}

void ProgramRunner::check_named_nodes() const {
  const CompileOptions& options = options_.compile;
  if (options.choices.empty() && options.forbidden.empty()) return;
  Names names;
  for (const OpenGraph& segment : program_.segments) {
    for (const OpenNode& node : segment.nodes) names.insert(node.name);
    for (const OpenValue& value : segment.values) names.insert(value.name);
  }
  const auto check = [&](const std::string& node, const std::string& option) {
    if (node.empty() || has(names, node)) return;
    fail(ErrorKind::usage, "{}: no node that runs compiled in the program {} has this name; `kilter tasks` lists them",
         option, name_);
  };
  for (const auto& [node, choice] : options.choices) check(node, option_text(options, option_of(choice), node));
  for (const Forbidden& f : options.forbidden) check(f.node, "--forbid " + f.text());
}

/// Returns the options without those for nodes of other segments.
CompileOptions ProgramRunner::options_for(const Graph& graph) const {
  CompileOptions out = options_.compile;
  if (out.choices.empty() && out.forbidden.empty() && out.keep_float.empty()) return out;
  Names names, ops;
  for (const NodeId id : graph.order()) names.insert(graph.node(id).name), ops.emplace(graph.node(id).op->name);
  for (size_t v = 0; v < graph.value_count(); ++v) names.insert(graph.value(static_cast<ValueId>(v)).name);
  std::erase_if(out.choices, [&](const auto& choice) { return !has(names, choice.first); });
  std::erase_if(out.forbidden, [&](const Forbidden& f) { return !f.node.empty() && !has(names, f.node); });
  std::erase_if(out.keep_float, [&](const std::string& held) { return !names.contains(held) && !ops.contains(held); });
  return out;
}

std::string ProgramRunner::records() const {
  std::string out;
  std::set<std::string> seen;
  for (const Form& form : forms_) {
    const std::string text = form.loaded ? form.loaded->plan().records : "";
    if (!text.empty() && seen.insert(text).second) out += (out.empty() ? "" : "; ") + text;
  }
  return out;
}

std::vector<AnyValue> ProgramRunner::run(std::vector<AnyValue> inputs) {
  vm::UsedMemory used;
  for (const AnyValue& input : inputs) used.add(input);
  outputs_.begin_run();
  std::vector<AnyValue> outputs = machine_.run(std::move(inputs));
  for (AnyValue& output : outputs) vm::separate(output, fixed_, used);
  has_run_ = true;
  if (std::exchange(has_compiled_, false)) return_free_memory();
  return outputs;
}

std::vector<AnyValue> ProgramRunner::run_segment(int32_t segment, std::vector<AnyValue> inputs) {
  const OpenGraph& open = program_.segments[static_cast<size_t>(segment)];
  const bool tensors = std::ranges::all_of(
      inputs, [](const AnyValue& value) { return value.is_tensor() && value.tensor().dtype() != DType::string; });
  if (!tensors) return vm::interpret(open, std::move(inputs), host_);
  std::vector<Tensor> given;
  for (AnyValue& value : inputs) given.push_back(value.tensor());
  Form& form = form_for(segment, given);
  if (!form.is_static) return vm::interpret(open, std::move(inputs), host_);
  if (watch_) watch_(segment, given);
  if (!form.loaded && form.compiles && form.runs >= kRunsBeforeCompiling) {
    compile(form);
    drop_unused();  // keeps this form, which is the newest
  }
  ++form.runs;
  if (form.loaded) return run_plan(form, given);
  std::vector<AnyValue> outputs;
  const auto kernel = [this](const Node& node, std::vector<Tensor> operands, const std::vector<TensorType>& types) {
    return vm::run_node(node, std::move(operands), types, host_);
  };
  for (Tensor& made : evaluate(*form.graph, given, {}, kernel)) {
    // The form keeps its constants.
    const bool constant = form.graph->value(form.graph->outputs()[outputs.size()].value).constant.has_value();
    outputs.emplace_back(constant ? made.clone() : std::move(made));
  }
  return outputs;
}

ProgramRunner::Form& ProgramRunner::form_for(int32_t segment, const std::vector<Tensor>& inputs) {
  std::vector<Forms::iterator>& known = index_[static_cast<size_t>(segment)];
  // Search the newest forms first: a growing cache never has an earlier shape again.
  const auto found = std::find_if(known.rbegin(), known.rend(),
                                  [&](Forms::iterator form) { return std::ranges::equal(form->inputs, inputs, fits); });
  if (found != known.rend()) {
    forms_.splice(forms_.begin(), forms_, *found);
    return forms_.front();
  }
  std::vector<TensorType> types;
  for (const Tensor& tensor : inputs) types.push_back({tensor.dtype(), tensor.shape(), {}});
  return add_form(segment, std::move(types));
}

ProgramRunner::Form& ProgramRunner::add_form(int32_t segment, std::vector<TensorType> inputs) {
  Form form{.segment = segment, .inputs = std::move(inputs)};
  form.graph = graph_of(segment, form.inputs);
  form.is_static = form.graph.has_value();
  forms_.push_front(std::move(form));
  index_[static_cast<size_t>(segment)].push_back(forms_.begin());
  Form& fresh = forms_.front();
  if (fresh.graph) {
    fresh.compiles = !has_strings(*fresh.graph);
    if (fresh.compiles && operations(*fresh.graph) > kManyOperations) compile(fresh);
  }
  drop_unused();
  return fresh;
}

std::optional<std::vector<TensorType>> ProgramRunner::prepare(int32_t segment, const std::vector<TensorType>& inputs) {
  std::vector<Forms::iterator>& known = index_[static_cast<size_t>(segment)];
  const auto found = std::ranges::find_if(known, [&](Forms::iterator form) { return form->inputs == inputs; });
  Form& form = found != known.end() ? **found : add_form(segment, inputs);
  if (!form.is_static) return std::nullopt;
  if (!form.loaded && form.compiles) compile(form);
  std::vector<TensorType> outputs;
  if (form.loaded) {
    for (const PlanTensor& output : form.loaded->plan().outputs) outputs.push_back({output.type, output.shape, {}});
    return outputs;
  }
  for (const Graph::Output& output : form.graph->outputs()) {
    const TensorType& type = form.graph->type(output.value);
    outputs.push_back({type.dtype, type.shape, {}});
  }
  return outputs;
}

std::vector<Plan> ProgramRunner::plans_of(size_t segment, bool& tuned) const {
  std::vector<Plan> plans;
  for (const Forms::iterator form : index_[segment]) {
    if (!form->loaded) continue;
    plans.push_back(form->loaded->plan());
    tuned |= form->loaded->compiled.records_tuned_at > 0;
  }
  return plans;
}

std::optional<Graph> ProgramRunner::graph_of(int32_t segment, const std::vector<TensorType>& inputs) const {
  const OpenGraph& open = program_.segments[static_cast<size_t>(segment)];
  Graph graph;
  graph.name = open.name;
  onnx::Specialiser specialiser(open, graph, name_, onnx::Specialiser::Mode::segment);
  if (!specialiser.walk_from(inputs)) return std::nullopt;
  std::set<std::string> names;
  for (const OpenGraph::Output& output : open.outputs) {
    const ValueId value = specialiser.value(output.value);
    if (value == kNone) return std::nullopt;
    std::string unique = output.name;
    while (!names.insert(unique).second) unique += "_";
    graph.add_output(value, unique);
  }
  graph.remove_dead();
  return graph;
}

void ProgramRunner::compile(Form& form) {
  try {
    Loaded loaded;
    CompileOptions compile = options_for(*form.graph);
    const bool again = index_[static_cast<size_t>(form.segment)].size() > 1;
    kernels_.share(again);
    const bool own = options_.constants == nullptr;
    compile.shared = {&kernels_, own ? &own_constants_ : options_.constants, own ? &own_memo_ : options_.memo};
    if (!again) compile.shared.memo = nullptr;
    loaded.compiled = compile_graph(*form.graph, compile, options_.chooser.get());
    form.loaded.emplace(std::move(loaded));
    form.graph.reset();
    has_compiled_ = true;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::unsupported) throw;
    form.compiles = false;
  }
}

void ProgramRunner::make_ready(Form& form) {
  const int64_t before = work_.bytes();
  work_.prepare(*form.loaded, pool_);
  if (work_.bytes() == before) return;
  for (Form& other : forms_) {
    if (other.loaded) work_.release(*other.loaded);
  }
}

std::vector<AnyValue> ProgramRunner::run_plan(Form& form, const std::vector<Tensor>& inputs) {
  make_ready(form);
  const Plan& plan = form.loaded->plan();
  std::vector<const std::byte*> from;
  std::vector<std::byte*> to;
  std::vector<AnyValue> outputs;
  for (const Tensor& input : inputs) from.push_back(input.raw());
  for (const PlanTensor& output : plan.outputs) {
    outputs.emplace_back(outputs_.take(output.type, output.shape));
    to.push_back(outputs.back().tensor().raw());
  }
  RunTrace* trace = observer_ != nullptr ? observer_->enter_code(plan) : nullptr;
  form.loaded->instance->run(from, to, nullptr, trace);
  if (observer_ != nullptr) observer_->leave_code();
  return outputs;
}

std::vector<ProgramRunner::FormState> ProgramRunner::forms() const {
  std::vector<FormState> states;
  for (const std::vector<Forms::iterator>& known : index_) {
    for (const Forms::iterator form : known) {
      states.push_back(
          {form->segment, form->inputs, form->runs, form->is_static, form->loaded ? &form->loaded->plan() : nullptr});
    }
  }
  return states;
}

std::string text(const ProgramRunner::FormState& form) {
  std::string types;
  for (const TensorType& type : form.inputs) types += (types.empty() ? "" : ", ") + text(type);
  std::string how = "reference kernels";
  if (form.plan != nullptr)
    how = fmt::format("compiled, {} step{}", form.plan->steps.size(), form.plan->steps.size() == 1 ? "" : "s");
  if (!form.is_static) how = "node by node, since shapes inside depend on data";
  return fmt::format("{}: {}, {} run{}", types.empty() ? "no inputs" : types, how, form.runs,
                     form.runs == 1 ? "" : "s");
}

int64_t ProgramRunner::held_bytes() const {
  int64_t bytes = own_constants_.bytes() + own_memo_.bytes() + work_.bytes() + outputs_.bytes();
  for (const Form& form : forms_) bytes += own_bytes(form);
  return bytes;
}

int64_t ProgramRunner::own_bytes(const Form& form) const {
  return form.loaded ? kilter::held_bytes(*form.loaded, pool_->threads()) : 0;
}

/// Drops the least recently used forms until the rest are within the limit. The form of each segment that ran last is
/// kept and does not count, so that a large network does not compile all its segments in each run.
void ProgramRunner::drop_unused() {
  constexpr size_t kMostForms = 4096;
  std::vector<bool> has_last(program_.segments.size());
  std::vector<Forms::iterator> others;
  int64_t in_use = work_.bytes() + outputs_.bytes();
  for (auto form = forms_.begin(); form != forms_.end(); ++form) {
    if (has_last[static_cast<size_t>(form->segment)]) {
      others.push_back(form);
      continue;
    }
    has_last[static_cast<size_t>(form->segment)] = true;
    in_use += own_bytes(*form) + (form->loaded ? form->loaded->constants_bytes() : 0);
  }
  while (!others.empty() && (forms_.size() > kMostForms || held_bytes() - in_use > options_.cache_bytes)) {
    const Forms::iterator last = others.back();
    others.pop_back();
    std::vector<Forms::iterator>& known = index_[static_cast<size_t>(last->segment)];
    known.erase(std::ranges::find(known, last));
    forms_.erase(last);
  }
}

}  // namespace kilter
