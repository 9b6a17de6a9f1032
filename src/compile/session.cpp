#include "compile/session.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/random.h"
#include "base/text.h"
#include "exec/other_threads.h"
#include "exec/plan_file.h"
#include "zoo/zoo.h"

namespace kilter {
namespace {

constexpr std::string_view kZooPrefix = "zoo:";

onnx::Port port(const PlanTensor& t) {
  onnx::Port p{t.name, t.type, std::vector<onnx::Dim>{}};
  for (int64_t d : t.shape) p.dims->push_back({d, ""});
  return p;
}

}  // namespace

std::unique_ptr<Session> Session::open(const std::string& model, Options options) {
  std::unique_ptr<Session> s(new Session());
  s->options_ = std::move(options);
  s->pool_ = std::make_shared<ThreadPool>(s->options_.threads);
  install_reference_runner();
  if (model.starts_with(kZooPrefix)) {
    s->name_ = model.substr(kZooPrefix.size());
    zoo::Options zoo_options;
    if (!s->options_.shapes.empty()) {
      const Shape& shape = s->options_.shapes.begin()->second;
      if (!shape.empty()) zoo_options.batch = shape.front();
      if (shape.size() > 1) zoo_options.size = shape.size() == 3 ? shape[1] : shape.back();  // batch x tokens x width
    }
    s->zoo_ = zoo::build(s->name_, zoo_options);
    for (const auto& [name, shape] : s->options_.shapes) {
      const ValueId v = s->zoo_->find_value(name);
      if (v == kNone || s->zoo_->type(v).shape != shape) {
        fail(ErrorKind::bad_input, "--input {}={}: {} has input '{}' of shape {}", name, text(shape), model,
             s->zoo_->value(s->zoo_->inputs()[0]).name, text(s->zoo_->type(s->zoo_->inputs()[0]).shape));
      }
    }
    return s;
  }
  if (is_plan_file(model)) {
    s->name_ = std::filesystem::path(model).filename().string();
    Loaded loaded;
    loaded.compiled.plan = load_plan(model);
    s->plans_.emplace("", std::move(loaded));
    return s;
  }
  s->model_ = onnx::Model::load(model);
  s->name_ = s->model_->name();
  return s;
}

std::vector<onnx::Port> Session::inputs() const {
  if (model_) return model_->inputs();
  std::vector<onnx::Port> ports;
  if (zoo_) {
    for (ValueId v : zoo_->inputs())
      ports.push_back(port({zoo_->value(v).name, zoo_->type(v).dtype, zoo_->type(v).shape}));
  } else {
    for (const PlanTensor& t : plans_.begin()->second.plan().inputs) ports.push_back(port(t));
  }
  return ports;
}

std::vector<onnx::Port> Session::default_inputs() const {
  return model_ ? model_->default_inputs() : std::vector<onnx::Port>{};
}

std::vector<onnx::Port> Session::outputs() const {
  if (model_) return model_->outputs();
  std::vector<onnx::Port> ports;
  if (zoo_) {
    for (const auto& o : zoo_->outputs())
      ports.push_back(port({o.name, zoo_->type(o.value).dtype, zoo_->type(o.value).shape}));
  } else {
    for (const PlanTensor& t : plans_.begin()->second.plan().outputs) ports.push_back(port(t));
  }
  return ports;
}

std::string Session::note() const {
  return compiled_file() ? other_threads_text(plans_.begin()->second.plan(), pool_->threads()) : std::string();
}

onnx::Model::Shapes Session::merged(const onnx::Model::Shapes& shapes) const {
  onnx::Model::Shapes all = options_.shapes;
  for (const auto& [name, shape] : shapes) all[name] = shape;
  return all;
}

Graph Session::graph(const onnx::Model::Shapes& shapes, const onnx::Model::Values& values) const {
  if (model_) return model_->bind(merged(shapes), values);
  if (zoo_) return *zoo_;
  fail(ErrorKind::unsupported, "{} is a compiled file: it has no graph; use the model that it was made from", name_);
}

namespace {

onnx::Model::Shapes shapes_of(const std::map<std::string, Tensor>& inputs) {
  onnx::Model::Shapes shapes;
  for (const auto& [name, tensor] : inputs) shapes[name] = tensor.shape();
  return shapes;
}

}  // namespace

onnx::Model::Values Session::needed_values(const std::map<std::string, Tensor>& inputs) const {
  onnx::Model::Values values;
  for (bool added = model_ != nullptr; added;) {  // knowing one value can show the need of the next
    added = false;
    for (const std::string& name : model_->value_inputs(merged(shapes_of(inputs)), values)) {
      if (values.contains(name)) continue;
      values[name] = inputs.at(name);
      added = true;
    }
  }
  return values;
}

Loaded& Session::prepare_for(const std::map<std::string, Tensor>& inputs) {
  return prepare(shapes_of(inputs), needed_values(inputs));
}

Loaded& Session::prepare(const onnx::Model::Shapes& shapes, const onnx::Model::Values& values) {
  Loaded& loaded = compile(shapes, values);
  if (loaded.instance == nullptr) {
    loaded.program = std::make_shared<Program>(loaded.plan());
    loaded.instance = std::make_unique<Instance>(loaded.program, pool_);
  }
  return loaded;
}

Loaded& Session::compile(const onnx::Model::Shapes& shapes, const onnx::Model::Values& values) {
  if (compiled_file()) return plans_.begin()->second;
  std::string key;
  for (const auto& [name, shape] : merged(shapes)) key += name + "=" + text(shape) + ";";
  for (const auto& [name, value] : values) {
    key +=
        name + ":" + std::string(reinterpret_cast<const char*>(value.raw()), static_cast<size_t>(value.bytes())) + ";";
  }
  auto it = plans_.find(key);
  if (it != plans_.end()) return it->second;
  Loaded loaded;
  loaded.compiled = compile_graph(graph(shapes, values), options_.compile);
  return plans_.emplace(key, std::move(loaded)).first->second;
}

void Session::check_inputs(const std::map<std::string, Tensor>& inputs) const {
  std::vector<std::string> names;
  const auto check = [&](const onnx::Port& p, bool needed) {
    names.push_back(p.name);
    const auto it = inputs.find(p.name);
    if (it == inputs.end()) {
      if (!needed) return;
      fail(ErrorKind::bad_input, "{}: input '{}' ({}) is missing; give it with --input {}=FILE.npy", name_, p.name,
           onnx::text(p), p.name);
    }
    if (it->second.dtype() != p.type) {
      fail(ErrorKind::bad_input, "{}: input '{}' must be {}, got {}", name_, p.name, onnx::text(p),
           kilter::name(it->second.dtype()));
    }
  };
  for (const onnx::Port& p : this->inputs()) check(p, true);
  for (const onnx::Port& p : default_inputs()) check(p, options_.shapes.contains(p.name));
  for (const auto& [name, tensor] : inputs) {
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      fail(ErrorKind::bad_input, "{}: no input '{}'; legal are {}", name_, name, fmt::join(names, ", "));
    }
  }
}

std::vector<Tensor> Session::run(const std::map<std::string, Tensor>& inputs) {
  check_inputs(inputs);
  Loaded& loaded = prepare_for(inputs);
  std::vector<Tensor> ordered;
  for (const PlanTensor& t : loaded.plan().inputs) {
    const Tensor& tensor = inputs.at(t.name);
    if (tensor.shape() != t.shape) {
      fail(ErrorKind::bad_input, "{}: input '{}' must have shape {}, got {}", name_, t.name, text(t.shape),
           text(tensor.shape()));
    }
    ordered.push_back(tensor);
  }
  return run_plan(loaded, ordered);
}

std::vector<Tensor> run_plan(Loaded& loaded, const std::vector<Tensor>& inputs, const StepObserver* observer) {
  std::vector<const std::byte*> from;
  std::vector<std::byte*> to;
  std::vector<Tensor> outputs;
  for (const Tensor& t : inputs) from.push_back(t.raw());
  for (const PlanTensor& t : loaded.plan().outputs) outputs.emplace_back(t.type, t.shape);
  for (const Tensor& t : outputs) to.push_back(t.raw());
  loaded.instance->run(from, to, observer);
  return outputs;
}

Tensor random_input(const std::string& name, DType type, const Shape& shape, uint64_t seed) {
  Tensor t(type, shape);
  const Random random(seed, name);
  const bool known = visit_dtype(type, [&]<class T>(T) {
    for (int64_t i = 0; i < t.elems(); ++i) {
      const auto n = static_cast<uint64_t>(i);
      if constexpr (std::is_same_v<T, bool>) {
        t.data<bool>()[i] = (random.bits(n) & 1U) != 0;
      } else if constexpr (std::is_integral_v<T>) {
        t.data<T>()[i] = static_cast<T>(random.integer(n, 0, 99));
      } else {
        t.data<T>()[i] = T(random.normal(n));
      }
    }
  });
  if (!known)
    fail(ErrorKind::unsupported, "input '{}': no random values for element type {}", name, kilter::name(type));
  return t;
}

}  // namespace kilter
