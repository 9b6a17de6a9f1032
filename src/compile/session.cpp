#include "compile/session.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/free_memory.h"
#include "base/narrow.h"
#include "base/other_threads.h"
#include "base/random.h"
#include "base/text.h"
#include "compile/memory_model.h"
#include "ops/support/builder.h"
#include "zoo/zoo.h"

namespace kilter {
namespace {

constexpr std::string_view kZooPrefix = "zoo:";
/// The number of kernels, of about 10 KB each, that a session keeps for plans of other shapes.
constexpr size_t kKeptKernels = 1024;

onnx::Port port(const PlanTensor& t) {
  onnx::Port p{t.name, t.type, std::vector<onnx::Dim>{}};
  for (int64_t d : t.shape) p.dims->push_back({d, ""});
  return p;
}

onnx::Port port(const vm::FilePort& f) {
  onnx::Port p{f.name, f.type, std::nullopt, f.kind, f.of_sequence, f.key};
  if (!f.dims) return p;
  p.dims.emplace();
  for (size_t i = 0; i < f.dims->size(); ++i) {
    const int64_t d = (*f.dims)[i];
    p.dims->push_back({d < 0 ? std::nullopt : std::optional(d), f.symbol(i)});
  }
  return p;
}

/// Throws bad_input unless these shapes are those of the graph's inputs.
void check_given(const Graph& graph, const onnx::Model::Shapes& given, const std::string& model) {
  std::vector<std::string> inputs;
  for (const ValueId v : graph.inputs())
    inputs.push_back(fmt::format("input '{}' of shape {}", graph.value(v).name, text(graph.type(v).shape)));
  for (const auto& [name, shape] : given) {
    const auto same = [&, wanted = &name](ValueId v) { return graph.value(v).name == *wanted; };
    const auto place = std::find_if(graph.inputs().begin(), graph.inputs().end(), same);
    if (place == graph.inputs().end() || graph.type(*place).shape != shape)
      fail(ErrorKind::bad_input, "--input {}={}: {} has {}", name, text(shape), model, fmt::join(inputs, ", "));
  }
}

}  // namespace

std::unique_ptr<Session> Session::open(const std::string& model, Options options) {
  std::unique_ptr<Session> s = open_unbound(model, std::move(options));
  if (s->model_) s->model_->fail_if_missing();
  s->bind_ranges();
  return s;
}

std::unique_ptr<Session> Session::open_unbound(const std::string& model, Options options) {
  std::unique_ptr<Session> s(new Session());
  s->options_ = std::move(options);
  s->fix_single_shapes();
  s->pool_ = std::make_shared<ThreadPool>(s->options_.threads);
  install_reference_runner();
  if (!s->options_.signed_by.empty() && !vm::is_compiled_file(model))
    fail(ErrorKind::usage, "{} is not a compiled file, so it has no signature; leave out the key", model);
  if (model.starts_with(kZooPrefix)) {
    s->name_ = model.substr(kZooPrefix.size());
    zoo::Options zoo_options;
    if (!s->options_.shapes.empty()) {
      const Shape& shape = s->options_.shapes.begin()->second;
      if (!shape.empty()) zoo_options.batch = shape.front();
      if (shape.size() > 1) zoo_options.size = shape.size() == 3 ? shape[1] : shape.back();  // batch x tokens x width
    }
    s->graph_ = zoo::build(s->name_, zoo_options);
    check_given(*s->graph_, s->options_.shapes, model);
    return s;
  }
  if (names_memory(model)) {
    const MemoryModel::Content content = memory_content(model);
    if (const auto* graph = std::get_if<std::shared_ptr<const Graph>>(&content)) {
      s->graph_ = **graph;
      s->name_ = (*graph)->name;
      check_given(*s->graph_, s->options_.shapes, s->name_);
    } else {
      s->model_ = std::get<std::shared_ptr<const onnx::Model>>(content);
      s->name_ = s->model_->name();
    }
    return s;
  }
  if (vm::is_compiled_file(model)) {
    s->name_ = std::filesystem::path(model).filename().string();
    s->take(vm::load_compiled(model, {.verify = s->options_.verify_file, .signed_by = s->options_.signed_by}));
    return s;
  }
  s->model_ = onnx::Model::load(model);
  s->name_ = s->model_->name();
  return s;
}

std::unique_ptr<Session> Session::twin() const {
  std::unique_ptr<Session> s(new Session());
  s->name_ = name_, s->options_ = options_, s->model_ = model_, s->graph_ = graph_;
  s->needs_program_ = needs_program_, s->program_inputs_ = program_inputs_;
  s->pool_ = std::make_shared<ThreadPool>(options_.threads);
  s->file_program_ = file_program_;
  if (file_program_) s->file_runner_ = std::make_unique<vm::FileRunner>(file_program_, s->pool_, options_.interrupt);
  for (const Kept& kept : plans_) {
    Kept& same = s->plans_.emplace_back();
    same.shapes = kept.shapes, same.values = kept.values;
    same.loaded.program = kept.loaded.program;
    same.loaded.compiled.plan = kept.loaded.compiled.plan, same.loaded.compiled.home = kept.loaded.compiled.home;
  }
  return s;
}

std::vector<onnx::Port> Session::inputs() const {
  if (model_) return model_->inputs();
  std::vector<onnx::Port> ports;
  if (graph_) {
    for (ValueId v : graph_->inputs())
      ports.push_back(port({graph_->value(v).name, graph_->type(v).dtype, graph_->type(v).shape}));
  } else if (file_program_) {
    for (const vm::FilePort& p : file_program_->file().inputs) ports.push_back(port(p));
  } else {
    for (const PlanTensor& t : plans_.front().loaded.plan().inputs) ports.push_back(port(t));
  }
  return ports;
}

std::vector<onnx::Port> Session::default_inputs() const {
  return model_ ? model_->default_inputs() : std::vector<onnx::Port>{};
}

std::vector<onnx::Port> Session::outputs() const {
  if (model_) return model_->outputs();
  std::vector<onnx::Port> ports;
  if (graph_) {
    for (const auto& o : graph_->outputs())
      ports.push_back(port({o.name, graph_->type(o.value).dtype, graph_->type(o.value).shape}));
  } else if (file_program_) {
    for (const vm::FilePort& p : file_program_->file().outputs) ports.push_back(port(p));
  } else {
    for (const PlanTensor& t : plans_.front().loaded.plan().outputs) ports.push_back(port(t));
  }
  return ports;
}

std::string Session::note() const {
  if (!compiled_file()) return {};
  const int compiled_for = file_program_ ? file_program_->file().compiled_for : file_plan()->compiled_for;
  return other_threads_text(compiled_for, pool_->threads());
}

onnx::Model::Shapes Session::merged(const onnx::Model::Shapes& shapes) const {
  onnx::Model::Shapes all = options_.shapes;
  for (const auto& [name, shape] : shapes) all[name] = shape;
  options_.ranges.check(all, name_);
  return all;
}

onnx::Model::Shapes Session::whole(const onnx::Model::Shapes& shapes) const {
  onnx::Model::Shapes all = merged(shapes);
  for (const onnx::Port& p : inputs()) {
    if (all.contains(p.name)) continue;
    if (const auto declared = onnx::declared_shape(p)) all[p.name] = *declared;
  }
  return all;
}

/// Throws NeedsProgram if an input or output of the model is not a tensor of numbers.
void Session::check_plain() const {
  for (const auto& ports : {model_->inputs(), model_->outputs()}) {
    for (const onnx::Port& port : ports) {
      if (!port.plain())
        throw NeedsProgram(fmt::format("{}: '{}' is {}, not a tensor of numbers", name_, port.name, onnx::text(port)));
    }
  }
}

Graph Session::graph(const onnx::Model::Shapes& shapes, const onnx::Model::Values& values) const {
  if (model_) {
    check_plain();
    return model_->bind(merged(shapes), values);
  }
  if (graph_) return *graph_;
  if (file_program_) throw NeedsProgram(fmt::format("{} is a compiled file of a program", name_));
  fail(ErrorKind::unsupported, "{} is a compiled file: it has no graph; use the model that it was compiled from",
       name_);
}

namespace {

onnx::Model::Shapes shapes_of(const std::map<std::string, Tensor>& inputs) {
  onnx::Model::Shapes shapes;
  for (const auto& [name, tensor] : inputs) shapes[name] = tensor.shape();
  return shapes;
}

}  // namespace

Session::Bound Session::bind(const std::map<std::string, Tensor>& inputs) const {
  if (graph_) check_given(*graph_, shapes_of(inputs), name_);
  if (model_ == nullptr) return {graph(shapes_of(inputs))};
  check_plain();
  const onnx::Model::Shapes shapes = merged(shapes_of(inputs));
  onnx::Model::Values values;
  for (;;) {  // knowing one value can reveal that another is needed
    onnx::Model::Bound bound = model_->try_bind(shapes, values);
    if (bound.needed.empty()) return {std::move(bound.graph), std::move(values)};
    for (const std::string& name : bound.needed) {
      const bool fresh = values.emplace(name, inputs.at(name).clone()).second;
      require(fresh, "{}: the value of input '{}' is given, yet needed", name_, name);
    }
  }
}

/// Whether there is a plan for the shapes of these inputs, whatever their values.
bool Session::has_plan(const std::map<std::string, Tensor>& inputs) const {
  if (model_ == nullptr) return true;
  const onnx::Model::Shapes shapes = whole(shapes_of(inputs));
  return std::ranges::any_of(plans_, [&](const Kept& kept) { return kept.values.empty() && kept.shapes == shapes; });
}

Loaded& Session::prepare_for(const std::map<std::string, Tensor>& inputs) {
  return has_plan(inputs) ? prepare(shapes_of(inputs)) : prepare_bound(inputs, bind(inputs));
}

Loaded& Session::prepare_bound(const std::map<std::string, Tensor>& inputs, Bound bound) {
  Kept& kept = kept_for(shapes_of(inputs), bound.values, std::move(bound.graph));
  make_ready(kept.loaded);
  return kept.loaded;
}

Loaded& Session::prepare(const onnx::Model::Shapes& shapes, const onnx::Model::Values& values) {
  Kept& kept = kept_for(shapes, values);
  make_ready(kept.loaded);
  return kept.loaded;
}

Loaded& Session::compile(const onnx::Model::Shapes& shapes, const onnx::Model::Values& values) {
  return kept_for(shapes, values).loaded;
}

void Session::make_ready(Loaded& loaded) {
  const Instance* before = loaded.instance.get();
  work_.prepare(loaded, pool_);
  if (loaded.instance.get() != before) drop_unused();
}

/// Frees working memory that has been replaced by a larger block.
void Session::release_replaced() {
  for (Kept& kept : plans_) work_.release(kept.loaded);
}

/// Plans for other shapes have many kernels and constants in common with earlier ones. The first plan shares none with
/// others, so that a network that runs with only one shape has the kernels compiled for it and keeps no constant twice.
SharedParts Session::shared_parts() {
  const auto is_open = [](const onnx::Port& port) { return !onnx::declared_shape(port); };
  if (kernels_ == nullptr && model_ && std::ranges::any_of(inputs(), is_open))
    kernels_ = std::make_unique<KernelStore>(kKeptKernels);
  if (kernels_ != nullptr && !plans_.empty()) share_kernels();
  return {kernels_.get(), &constants_, memo_.get()};
}

void Session::share_kernels() {
  kernels_->share(true);
  if (memo_ == nullptr) memo_ = std::make_unique<ConstantMemo>(model_->open_graph());
}

Session::Kept& Session::use(std::list<Kept>::iterator kept) {
  plans_.splice(plans_.begin(), plans_, kept);
  return plans_.front();
}

/// The plan for these shapes and values, which becomes the one in use; null if there is none.
Session::Kept* Session::find_kept(const onnx::Model::Shapes& whole, const onnx::Model::Values& values) {
  const auto same_value = [](const auto& a, const auto& b) { return a.first == b.first && a.second.same(b.second); };
  const auto known = std::find_if(plans_.begin(), plans_.end(), [&](const Kept& kept) {
    return kept.shapes == whole &&
           std::equal(kept.values.begin(), kept.values.end(), values.begin(), values.end(), same_value);
  });
  return known != plans_.end() ? &use(known) : nullptr;
}

Session::Kept Session::make_kept(const onnx::Model::Shapes& whole, const onnx::Model::Values& values,
                                 CompileOptions compile, std::optional<Graph> bound) const {
  if (compile.report.progress) compile.report.progress({"read the model"});
  Kept fresh{whole, values, {}, std::nullopt};
  if (!bound) bound = graph(whole, values);
  fresh.loaded.compiled = compile_graph(std::move(*bound), compile, options_.chooser.get());
  return fresh;
}

Session::Kept& Session::kept_for(const onnx::Model::Shapes& shapes, const onnx::Model::Values& values,
                                 std::optional<Graph> bound) {
  if (file_program_) throw NeedsProgram(fmt::format("{} is a compiled file of a program", name_));
  if (compiled_file()) return plans_.front();
  const onnx::Model::Shapes all = whole(shapes);
  take_made();
  if (Kept* known = find_kept(all, values); known != nullptr) return *known;
  const auto pause = pause_background();
  take_made();  // the pause waited for a task, which may have compiled the plan
  if (Kept* known = find_kept(all, values); known != nullptr) return *known;
  CompileOptions compile = options_.compile;
  compile.shared = shared_parts();
  plans_.push_front(make_kept(all, values, std::move(compile), std::move(bound)));
  if (ahead_ && values.empty()) ahead_->planned.insert(all);
  drop_unused();
  return_free_memory();
  return plans_.front();
}

int64_t Session::own_bytes(const Kept& kept) const {
  return kilter::held_bytes(kept.loaded, pool_->threads()) + (kept.known ? output_bytes(kept.loaded.plan()) : 0);
}

int64_t Session::held_bytes() const {
  if (file_program_) return file_program_->held_bytes() + file_runner_->held_bytes();
  int64_t bytes = compiled_file() ? plans_.front().loaded.plan().constants_bytes : constants_.bytes();
  for (const Kept& kept : plans_) bytes += own_bytes(kept);
  bytes += ahead_bytes();
  bytes += work_.bytes() + (memo_ != nullptr ? memo_->bytes() : 0);
  if (program_) bytes += program_->held_bytes();
  if (varying_) bytes += varying_->held_bytes();
  return bytes;
}

/// The plan in use does not count, so that a large network does not evict all others.
void Session::drop_unused() {
  while (plans_.size() > 1) {
    const Kept& used = plans_.front();
    const int64_t in_use = own_bytes(used) + work_.bytes() + used.loaded.constants_bytes();
    if (held_bytes() - in_use <= options_.plan_cache_bytes) return;
    plans_.pop_back();
  }
}

void Session::check_inputs(const std::map<std::string, AnyValue>& inputs) const {
  const std::vector<onnx::Port> declared = this->inputs(), optional = default_inputs();
  std::vector<std::string> names;
  for (const auto* ports : {&declared, &optional}) {
    for (const onnx::Port& p : *ports) names.push_back(p.name);
  }
  for (const auto& [name, value] : inputs) {
    if (std::find(names.begin(), names.end(), name) == names.end())
      fail(ErrorKind::bad_input, "{}: no input '{}'; legal values are {}", name_, name, fmt::join(names, ", "));
  }
  const auto check = [&](const onnx::Port& p, bool needed) {
    const auto it = inputs.find(p.name);
    if (it == inputs.end()) {
      if (!needed || p.kind == DeclaredType::Kind::optional) return;
      fail(ErrorKind::bad_input, "{}: input '{}' ({}) is missing", name_, p.name, onnx::text(p));
    }
    if (onnx::fits(p, it->second)) return;
    fail(ErrorKind::bad_input, "{}: input '{}' must be {}, got {}{}", name_, p.name, onnx::text(p),
         it->second.is_tensor() ? std::string(kilter::name(it->second.tensor().dtype())) : text(it->second),
         is_narrow(p.type) ? "; arrays of ml_dtypes and ONNX tensor files (.pb) have this type" : "");
  };
  for (const onnx::Port& p : declared) check(p, true);
  for (const onnx::Port& p : optional) check(p, options_.shapes.contains(p.name));
  if (options_.ranges.empty()) return;
  onnx::Model::Shapes shapes;
  for (const auto& [name, value] : inputs) {
    if (value.is_tensor()) shapes[name] = value.tensor().shape();
  }
  options_.ranges.check(shapes, name_);
}

void Session::check_shapes(const Plan& plan, const std::map<std::string, Tensor>& inputs) const {
  for (const PlanTensor& t : plan.inputs) {
    const Tensor& tensor = inputs.at(t.name);
    if (tensor.shape() == t.shape) continue;
    fail(ErrorKind::bad_input, "{}: input '{}' must have shape {}, got {}", name_, t.name, text(t.shape),
         text(tensor.shape()));
  }
}

namespace {

/// Whether a network's shapes depend on the values of an input whose size the model leaves open. Such an input contains
/// data (tokens, for example) that change from run to run. A plan for each value would never be used again.
bool any_varies(const onnx::Model::Values& values, const std::vector<onnx::Port>& ports) {
  return std::ranges::any_of(
      ports, [&](const onnx::Port& port) { return values.contains(port.name) && !onnx::declared_shape(port); });
}

}  // namespace

std::vector<Tensor> Session::run(const std::map<std::string, Tensor>& inputs,
                                 const std::map<std::string, Tensor>& outputs) {
  for (auto it = plans_.begin(); it != plans_.end(); ++it) {
    if (!it->known || !it->known->like(inputs)) continue;
    Kept& kept = use(it);
    make_ready(kept.loaded);
    return kept.known->run(kept.loaded, inputs, outputs);
  }
  const std::map<std::string, AnyValue> given{inputs.begin(), inputs.end()};
  check_inputs(given);
  take_made();
  if (ProgramRunner* runner = varying_runner(inputs); runner != nullptr) {
    const auto pause = pause_background();
    return tensors_of(runner->run(open_inputs(given)), given, outputs);
  }
  if (!needs_program_) {
    try {
      std::optional<Bound> bound;
      if (!has_plan(inputs)) bound = bind(inputs);
      if (!bound || !any_varies(bound->values, this->inputs())) {
        Loaded& loaded = bound ? prepare_bound(inputs, std::move(*bound)) : prepare(shapes_of(inputs));
        check_shapes(loaded.plan(), inputs);
        release_replaced();
        Kept& kept = plans_.front();
        return kept.known.emplace(loaded.plan(), inputs, kept.values).run(loaded, inputs, outputs);
      }
      needs_program_ = true;
    } catch (const NeedsProgram&) {
      needs_program_ = true;
    }
  }
  return run_program(given, outputs);
}

std::vector<Tensor> Session::run_program(const std::map<std::string, AnyValue>& inputs,
                                         const std::map<std::string, Tensor>& outputs) {
  return tensors_of(program_values(inputs), inputs, outputs);
}

/// The runner for inputs whose shapes differ from earlier ones only in dimensions on which little of the network
/// depends; null if there is none, or if there is a plan for these shapes.
ProgramRunner* Session::varying_runner(const std::map<std::string, Tensor>& inputs) {
  const CompileOptions& compile = options_.compile;
  // Options for single layers and limits on memory apply to the network as a whole.
  const bool plain = compile.cache == nullptr && compile.choices.empty() && compile.keep_float.empty() &&
                     compile.forbidden.empty() && !compile.budget.memory && compile.debug == DebugOptions{};
  if (!plain || needs_program_ || kernels_ == nullptr || plans_.empty()) return nullptr;
  const onnx::Model::Shapes shapes = whole(shapes_of(inputs));
  if (std::ranges::any_of(plans_, [&](const Kept& kept) { return kept.shapes == shapes; })) return nullptr;
  const auto graph = model_->open_graph();
  std::vector<TensorType> types;
  for (const ValueId id : graph->inputs) {
    const auto input = inputs.find(graph->values[static_cast<size_t>(id)].name);
    if (input == inputs.end()) return nullptr;
    types.push_back({input->second.dtype(), input->second.shape(), {}});
  }
  if (types.size() != inputs.size()) return nullptr;  // default inputs are given
  if (!varying_) {
    varying_.emplace(name_, graph, [this, graph](std::vector<bool> varying) {
      return std::make_unique<ProgramRunner>(
          name_, graph,
          ProgramRunner::Options{options_.compile, options_.chooser, options_.plan_cache_bytes, options_.interrupt,
                                 std::move(varying), &constants_, memo_.get()},
          pool_);
    });
  }
  return varying_->runner_for(shapes, types);
}

std::vector<Tensor> Session::tensors_of(std::vector<AnyValue> values, const std::map<std::string, AnyValue>& inputs,
                                        const std::map<std::string, Tensor>& outputs) const {
  write_outputs(values, inputs, outputs);
  std::vector<Tensor> results;
  for (const AnyValue& value : values) {
    if (!value.is_tensor()) {
      fail(ErrorKind::unsupported, "{}: output '{}' is {}; this interface returns tensors only", name_,
           this->outputs().at(results.size()).name, text(value));
    }
    results.push_back(value.tensor());
  }
  return results;
}

/// Copies values into the memory that is given for outputs, which then replaces them.
void Session::write_outputs(std::vector<AnyValue>& values, const std::map<std::string, AnyValue>& inputs,
                            const std::map<std::string, Tensor>& outputs) const {
  if (outputs.empty()) return;
  const std::vector<onnx::Port> ports = this->outputs();
  std::vector<PlanTensor> made;
  for (size_t i = 0; i < values.size(); ++i) {
    const std::string& name = ports.at(i).name;
    const bool plain = values[i].is_tensor() && values[i].tensor().dtype() != DType::string;
    if (plain) made.push_back({name, values[i].tensor().dtype(), values[i].tensor().shape()});
    if (plain || !outputs.contains(name)) continue;
    fail(ErrorKind::bad_input, "memory for output '{}': the output is {}; memory can be given for tensors of numbers",
         name, text(values[i]));
  }
  std::map<std::string, Tensor> tensors;
  for (const auto& [name, value] : inputs) {
    if (value.is_tensor()) tensors.emplace(name, value.tensor());
  }
  check_outputs(made, tensors, outputs);
  for (size_t i = 0; i < values.size(); ++i) {
    const auto own = outputs.find(ports[i].name);
    if (own == outputs.end()) continue;
    const Tensor& from = values[i].tensor();
    std::copy_n(from.raw(), from.bytes(), own->second.raw());
    values[i] = own->second;
  }
}

std::vector<AnyValue> Session::run_values(const std::map<std::string, AnyValue>& inputs,
                                          const std::map<std::string, Tensor>& outputs) {
  std::map<std::string, Tensor> tensors;
  for (const auto& [name, value] : inputs) {
    if (value.is_tensor() && value.tensor().dtype() != DType::string) tensors.emplace(name, value.tensor());
  }
  const bool plain = tensors.size() == inputs.size() && std::ranges::all_of(this->inputs(), &onnx::Port::plain) &&
                     std::ranges::all_of(this->outputs(), &onnx::Port::plain);
  if (plain) {
    std::vector<Tensor> made = run(tensors, outputs);
    return {std::make_move_iterator(made.begin()), std::make_move_iterator(made.end())};
  }
  check_inputs(inputs);
  needs_program_ = true;
  std::vector<AnyValue> values = program_values(inputs);
  write_outputs(values, inputs, outputs);
  return values;
}

/// Runs the program on inputs that check_inputs() has accepted.
std::vector<AnyValue> Session::program_values(const std::map<std::string, AnyValue>& inputs) {
  if (file_program_) {
    std::vector<AnyValue> values;
    for (const vm::FilePort& p : file_program_->file().inputs) {
      const auto given = inputs.find(p.name);
      values.push_back(given != inputs.end() ? given->second : AnyValue());
    }
    return file_runner_->run(std::move(values));
  }
  const auto pause = pause_background();
  for (const onnx::Port& p : default_inputs()) {
    if (inputs.contains(p.name) && program_inputs_.insert(p.name).second) program_.reset();
  }
  return program().run(open_inputs(inputs));
}

/// The values of the open graph's inputs.
std::vector<AnyValue> Session::open_inputs(const std::map<std::string, AnyValue>& inputs) const {
  const auto graph = model_->open_graph();
  const std::vector<onnx::Port> declared = this->inputs();
  std::vector<AnyValue> values;
  for (const ValueId id : graph->inputs) {
    const OpenValue& value = graph->values[static_cast<size_t>(id)];
    const auto given = inputs.find(value.name);
    values.push_back(given != inputs.end() ? given->second : value.constant ? AnyValue(*value.constant) : AnyValue());
    const auto port = std::ranges::find(declared, value.name, &onnx::Port::name);
    if (port == declared.end() || !values.back().is_tensor() || onnx::fits(*port, values.back().tensor().shape()))
      continue;
    fail(ErrorKind::bad_input, "{}: input '{}' must be {}, got {}", name_, port->name, onnx::text(*port),
         text(values.back()));
  }
  return values;
}

ProgramRunner& Session::program() {
  if (program_) return *program_;
  if (file_program_)
    fail(ErrorKind::unsupported, "{} is a compiled file of a program; use the model that it was compiled from", name_);
  if (!model_) fail(ErrorKind::unsupported, "{}: only a model can run as a program", name_);
  program_ = std::make_unique<ProgramRunner>(
      name_, model_->open_graph(program_inputs_),
      ProgramRunner::Options{options_.compile, options_.chooser, options_.plan_cache_bytes, options_.interrupt}, pool_);
  return *program_;
}

Tensor random_input(const std::string& name, DType type, const Shape& shape, uint64_t seed, int64_t most) {
  Tensor t(type, shape);
  const Random random(seed, name);
  if (is_narrow(type)) {
    for (int64_t i = 0; i < t.elems(); ++i)
      t.data<uint8_t>()[i] = narrow_code(type, random.normal(static_cast<uint64_t>(i)));
    return t;
  }
  const bool known = visit_dtype(type, [&]<class T>(T) {
    for (int64_t i = 0; i < t.elems(); ++i) {
      const auto n = static_cast<uint64_t>(i);
      if constexpr (std::is_same_v<T, bool>) {
        t.data<bool>()[i] = (random.bits(n) & 1U) != 0;
      } else if constexpr (std::is_integral_v<T>) {
        t.data<T>()[i] = static_cast<T>(random.integer(n, 0, most));
      } else {
        t.data<T>()[i] = T(random.normal(n));
      }
    }
  });
  if (!known)
    fail(ErrorKind::unsupported, "input '{}': random values of type {} cannot be generated; give its value in a file",
         name, kilter::name(type));
  return t;
}

}  // namespace kilter
