// The public C++ interface (include/kilter/kilter.h) over Session.

#include <algorithm>
#include <new>
#include <optional>

#include "api/named_options.h"
#include "api/option_words.h"
#include "base/error.h"
#include "base/float_environment.h"
#include "base/map_value.h"
#include "base/text.h"
#include "compile/session.h"
#include "compile/several_targets.h"
#include "compile/state.h"
#include "kilter/kilter.h"

namespace kilter {
namespace {

static_assert(static_cast<int>(Type::f32) == static_cast<int>(DType::f32));
static_assert(static_cast<int>(Type::boolean) == static_cast<int>(DType::boolean));
static_assert(static_cast<int>(Type::string) == static_cast<int>(DType::string));
static_assert(static_cast<int>(Type::f8e4m3fn) == static_cast<int>(DType::f8e4m3fn));
static_assert(static_cast<int>(Type::u2) == static_cast<int>(DType::u2));
static_assert(static_cast<int>(ApiError::Kind::model) == static_cast<int>(ErrorKind::bad_model));
static_assert(static_cast<int>(ApiError::Kind::file) == static_cast<int>(ErrorKind::io));
static_assert(static_cast<int>(ApiError::Kind::out_of_memory) == static_cast<int>(ErrorKind::out_of_memory));

DType dtype(Type type) { return static_cast<DType>(type); }

Port public_port(const onnx::Port& port) {
  Port out{port.name, static_cast<Type>(port.type), {}};
  out.optional = port.kind == DeclaredType::Kind::optional;
  out.sequence = port.is_sequence();
  out.map = port.key.has_value();
  if (port.key) out.key = static_cast<Type>(*port.key);
  if (port.dims) {
    for (const onnx::Dim& d : *port.dims) out.shape.push_back(d.size.value_or(-1));
  }
  return out;
}

std::vector<Port> public_ports(const std::vector<onnx::Port>& ports) {
  std::vector<Port> out;
  for (const onnx::Port& p : ports) out.push_back(public_port(p));
  return out;
}

/// Runs `f` and turns any failure into an ApiError.
template <class F>
auto translated(F&& f) {
  try {
    return f();
  } catch (const ApiError&) {
    throw;
  } catch (const Error& e) {
    const std::string message = with_fields(e.message());
    if (e.kind() == ErrorKind::out_of_memory) throw OutOfMemory(message);
    throw ApiError(message, static_cast<ApiError::Kind>(e.kind()));
  } catch (const std::bad_alloc&) {
    throw OutOfMemory("out of memory");
  } catch (const std::exception& e) {
    throw ApiError(std::string("internal error: ") + e.what());
  }
}

View typed_view(Type type, std::vector<int64_t> shape, const void* data, size_t count) {
  translated([&] {
    if (elems(shape) != static_cast<int64_t>(count)) {
      fail(ErrorKind::bad_input, "a tensor of shape {} has {} elements, got {} values", text(shape), elems(shape),
           count);
    }
    return 0;
  });
  return {type, std::move(shape), data};
}

Tensor tensor_of(const std::string& name, const View& view) {
  if (view.type == Type::string) {
    Tensor tensor(DType::string, view.shape);
    if (view.data == nullptr && tensor.elems() > 0)
      fail(ErrorKind::bad_input, "input '{}' of shape {} is a null pointer; expected strings", name, text(view.shape));
    std::copy_n(static_cast<const std::string*>(view.data), tensor.elems(), tensor.strings().begin());
    return tensor;
  }
  auto* data = const_cast<std::byte*>(static_cast<const std::byte*>(view.data));  // inputs are never written
  Tensor tensor(dtype(view.type), view.shape, data, nullptr);
  if (data == nullptr && tensor.bytes() > 0) {
    fail(ErrorKind::bad_input, "input '{}' of shape {} is a null pointer; expected {} bytes", name, text(view.shape),
         tensor.bytes());
  }
  return tensor;
}

}  // namespace

int64_t type_bytes(Type type) {
  return type == Type::string ? static_cast<int64_t>(sizeof(std::string)) : size_bytes(dtype(type));
}

View f32(std::vector<int64_t> shape, std::span<const float> values) {
  return typed_view(Type::f32, std::move(shape), values.data(), values.size());
}
View i64(std::vector<int64_t> shape, std::span<const int64_t> values) {
  return typed_view(Type::i64, std::move(shape), values.data(), values.size());
}
View strings(std::vector<int64_t> shape, std::span<const std::string> values) {
  return typed_view(Type::string, std::move(shape), values.data(), values.size());
}

void TensorValue::wrong_type() const {
  constexpr const char* kReaders[] = {"float",    "double",   "uint16_t", "uint16_t",   "int8_t",
                                      "int16_t",  "int32_t",  "int64_t",  "uint8_t",    "uint16_t",
                                      "uint32_t", "uint64_t", "bool",     "std::string"};
  const auto index = static_cast<size_t>(type);
  const std::string reader = index < std::size(kReaders)            ? kReaders[index]
                             : type == Type::i4 || type == Type::i2 ? "int8_t"
                                                                    : "uint8_t";
  throw ApiError(
      fmt::format("'{}' has elements of type {}; read them with as<{}>()", name, kilter::name(dtype(type)), reader),
      ApiError::Kind::usage);
}

namespace {

/// A tensor over memory that the caller keeps.
TensorValue lent(const View& view) {
  const std::shared_ptr<const std::byte[]> bytes(std::shared_ptr<void>(), static_cast<const std::byte*>(view.data));
  return {"", view.type, view.shape, bytes};
}

}  // namespace

NetworkValue::NetworkValue(const View& view) : kind(Kind::tensor), tensor(lent(view)) {}

NetworkValue NetworkValue::sequence(std::vector<NetworkValue> elements) {
  NetworkValue made;
  made.kind = Kind::sequence;
  made.elements = std::move(elements);
  return made;
}

NetworkValue NetworkValue::map(const View& keys, const View& values) {
  NetworkValue made;
  made.kind = Kind::map;
  made.keys = lent(keys), made.values = lent(values);
  return made;
}

struct Network::Impl {
  std::string model;  ///< as it was loaded
  std::unique_ptr<Session> session;
  std::optional<State> state;
  std::vector<std::string> output_names;  ///< of a run
  bool plain = true;                      ///< all ports of the session are onnx::Port::plain()

  std::vector<onnx::Port> inputs() const { return state ? state->inputs() : session->inputs(); }
  std::vector<onnx::Port> outputs() const { return state ? state->outputs() : session->outputs(); }
  std::vector<Tensor> run(const std::map<std::string, Tensor>& given) {
    return state ? state->run(given) : session->run(given);
  }
  std::vector<AnyValue> run_values(const std::map<std::string, AnyValue>& given) {
    return state ? state->run_values(given) : session->run_values(given);
  }
};

Network::Network(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Network::Network(Network&&) noexcept = default;
Network& Network::operator=(Network&&) noexcept = default;
Network::~Network() = default;

namespace {

/// Throws usage if an option is set that only the compiler reads.
void refuse_compile_options(const NetworkOptions& options, const std::string& file) {
  const NetworkOptions usual;
  std::string set;
  if (options.precision != usual.precision) set = "precision '" + options.precision + "'";
  if (options.accuracy != usual.accuracy) set = "accuracy '" + options.accuracy + "'";
  if (options.memory_bytes != usual.memory_bytes) set = fmt::format("memory_bytes {}", options.memory_bytes);
  if (!options.records.empty()) set = "records '" + options.records + "'";
  if (!options.layer_plan.empty()) set = "layer_plan '" + options.layer_plan + "'";
  if (set.empty()) return;
  fail(ErrorKind::usage, "{}: {} is a compiled file, which runs as it was compiled; load the model", set, file);
}

}  // namespace

Network Network::load(const std::string& model, const NetworkOptions& options) {
  return translated([&] {
    const FloatEnvironment standard;
    Session::Options session;
    session.threads = options.threads;
    session.compile.target = parse_target(options.target);
    session.compile.precision = parse_precision(options.precision);
    session.compile.keep_float = {options.keep_float.begin(), options.keep_float.end()};
    session.compile.accuracy = parse_accuracy(options.accuracy);
    if (options.memory_bytes < 0) fail(ErrorKind::usage, "memory_bytes {}: expected 0 or more", options.memory_bytes);
    if (options.memory_bytes > 0) session.compile.budget.memory = options.memory_bytes;
    session.compile.report.notice = options.notice;
    add_sources({options.records, tune::parse_choose(options.choose), options.layer_plan, options.threads},
                options.notice, session);
    for (const auto& [name, shape] : options.shapes) session.shapes[name] = shape;
    for (const auto& [name, ranges] : options.shape_ranges) session.ranges.add(name, ranges);
    session.max_shapes = options.max_shapes;
    if (options.max_shapes < 1) fail(ErrorKind::usage, "max_shapes {}: expected 1 or more", options.max_shapes);
    const bool now = options.specialise == "now", automatic = options.specialise == "auto";
    if (!now && !automatic && options.specialise != "never")
      fail(ErrorKind::usage, "specialise '{}': expected auto, never or now", options.specialise);
    session.verify_file = options.verify_file;
    session.signed_by = options.signed_by;
    session.plan_cache_bytes = options.plan_cache_bytes;
    auto impl = std::make_unique<Impl>();
    impl->model = model;
    impl->session = Session::open(model, session);
    if (impl->session->compiled_file()) refuse_compile_options(options, model);
    for (const onnx::Port& port : impl->session->inputs()) impl->plain &= port.plain();
    for (const onnx::Port& port : impl->session->outputs()) {
      impl->output_names.push_back(port.name);
      impl->plain &= port.plain();
    }
    if (impl->session->file_plan() != nullptr) impl->session->prepare();
    if (now) impl->session->specialise();
    if (automatic) impl->session->specialise_in_background();
    return Network(std::move(impl));
  });
}

PlansAhead Network::plans_ahead() const {
  const Session::PlansAhead state = impl_->session->plans_ahead();
  return {state.made, state.of, state.ended};
}

std::vector<Port> Network::inputs() const {
  return translated([&] { return public_ports(impl_->inputs()); });
}

std::vector<Port> Network::outputs() const {
  return translated([&] { return public_ports(impl_->outputs()); });
}

std::string Network::note() const {
  return translated([&] { return impl_->session->note(); });
}

namespace {

TensorValue value_of(const std::string& name, const Tensor& tensor) {
  const auto owner = std::make_shared<Tensor>(tensor);
  const auto* data =
      tensor.dtype() == DType::string ? reinterpret_cast<const std::byte*>(tensor.strings().data()) : tensor.raw();
  return {name, static_cast<Type>(tensor.dtype()), tensor.shape(), std::shared_ptr<const std::byte[]>(owner, data)};
}

void require_tensors(const std::vector<onnx::Port>& inputs, const std::vector<onnx::Port>& outputs) {
  for (const auto& ports : {inputs, outputs}) {
    for (const onnx::Port& port : ports) {
      if (port.is_tensor()) continue;
      fail(ErrorKind::usage, "'{}' is a {}; run() has tensors only, run_values() has values of every kind", port.name,
           onnx::text(port));
    }
  }
}

AnyValue input_value(const std::string& name, const NetworkValue& value) {
  const auto tensor = [&](const TensorValue& t) { return tensor_of(name, {t.type, t.shape, t.bytes.get()}); };
  std::vector<AnyValue> elements;
  switch (value.kind) {
    case NetworkValue::Kind::absent:
      return {};
    case NetworkValue::Kind::tensor:
      return tensor(value.tensor);
    case NetworkValue::Kind::map:
      return map_value(tensor(value.keys), tensor(value.values), "input '" + name + "'");
    case NetworkValue::Kind::sequence:
      for (const NetworkValue& element : value.elements) {
        if (element.kind != NetworkValue::Kind::tensor && element.kind != NetworkValue::Kind::map)
          fail(ErrorKind::bad_input, "input '{}': element {} of the sequence is neither a tensor nor a map", name,
               elements.size());
        elements.push_back(input_value(name, element));
      }
      return AnyValue::sequence(std::move(elements));
  }
  fail(ErrorKind::usage, "input '{}' has kind {}; legal values are those of NetworkValue::Kind", name,
       static_cast<int>(value.kind));
}

std::map<std::string, AnyValue> input_values(const std::map<std::string, NetworkValue>& values) {
  std::map<std::string, AnyValue> given;
  for (const auto& [name, value] : values) given.emplace_hint(given.end(), name, input_value(name, value));
  return given;
}

NetworkValue output_value(const std::string& name, const AnyValue& value) {
  NetworkValue made;
  made.name = name;
  if (value.is_tensor()) {
    made.kind = NetworkValue::Kind::tensor;
    made.tensor = value_of(name, value.tensor());
  } else if (is_map(value)) {
    made.kind = NetworkValue::Kind::map;
    made.keys = value_of(name, map_keys(value));
    made.values = value_of(name, map_values(value));
  } else if (value.is_sequence()) {
    made.kind = NetworkValue::Kind::sequence;
    for (const AnyValue& element : value.elements()) made.elements.push_back(output_value("", element));
  }
  return made;
}

}  // namespace

std::vector<NetworkValue> Network::run_values(const std::map<std::string, NetworkValue>& inputs) {
  return translated([&] {
    const FloatEnvironment standard;
    const std::vector<AnyValue> results = impl_->run_values(input_values(inputs));
    std::vector<NetworkValue> values;
    for (size_t i = 0; i < results.size(); ++i) values.push_back(output_value(impl_->output_names.at(i), results[i]));
    return values;
  });
}

std::vector<TensorValue> Network::run(const std::map<std::string, View>& inputs) {
  return translated([&] {
    const FloatEnvironment standard;
    std::vector<TensorValue> values;
    if (impl_->plain) {
      std::map<std::string, Tensor> tensors;
      for (const auto& [name, view] : inputs) tensors.emplace_hint(tensors.end(), name, tensor_of(name, view));
      const std::vector<Tensor> results = impl_->run(tensors);
      values.reserve(results.size());
      for (size_t i = 0; i < results.size(); ++i) values.push_back(value_of(impl_->output_names.at(i), results[i]));
      return values;
    }
    require_tensors(impl_->inputs(), impl_->outputs());
    std::map<std::string, AnyValue> given;
    for (const auto& [name, view] : inputs) given.emplace(name, tensor_of(name, view));
    const std::vector<AnyValue> results = impl_->run_values(given);
    for (size_t i = 0; i < results.size(); ++i) {
      const std::string& name = impl_->output_names.at(i);
      if (!results[i].is_tensor())
        fail(ErrorKind::unsupported, "output '{}' is {}, although the model declares a tensor", name, text(results[i]));
      values.push_back(value_of(name, results[i].tensor()));
    }
    return values;
  });
}

std::map<std::string, std::string> Network::bind_state(const std::map<std::string, std::string>& pairs,
                                                       const std::map<std::string, NetworkValue>& initial) {
  return translated([&] {
    State bound(*impl_->session, pairs, input_values(initial));
    std::vector<std::string> names;
    for (const onnx::Port& port : bound.outputs()) names.push_back(port.name);
    impl_->output_names = std::move(names);
    return impl_->state.emplace(std::move(bound)).pairs();
  });
}

void Network::reset_state(const std::map<std::string, NetworkValue>& values) {
  translated([&] {
    bound_state(impl_->state, *impl_->session).reset(input_values(values));
    return 0;
  });
}

std::vector<NetworkValue> Network::state() const {
  return translated([&] {
    std::vector<NetworkValue> values;
    if (!impl_->state) return values;
    for (const auto& [name, value] : impl_->state->values()) values.push_back(output_value(name, value));
    return values;
  });
}

void Network::save(const std::string& file, const std::vector<std::string>& targets, const std::string& size) {
  translated([&] {
    const FloatEnvironment standard;
    Session& own = *impl_->session;
    const bool small = parse_file_size(size) == vm::FileSize::small;
    if (targets.empty() && !small) {
      own.save(file);
      return 0;
    }
    if (own.compiled_file()) {
      fail(ErrorKind::usage,
           "{} is a compiled file, whose targets and size are those that it was compiled for; load the model",
           own.name());
    }
    Session::Options options = own.options();
    options.compile.contents.recipes = small;
    const std::vector<Target> all =
        targets.empty() ? std::vector<Target>{options.compile.target} : parse_targets(join(targets, ","));
    save_targets(open_for_targets(impl_->model, options, all), file);
    return 0;
  });
}

std::vector<std::string> Network::save_library(const std::string& file, const LibraryOptions& options) {
  return translated([&] {
    const FloatEnvironment standard;
    const aot::LibraryOptions given{options.name, options.header, options.weights_in_file, options.compiler};
    std::vector<std::string> files;
    for (const auto& path : impl_->session->save_library(aot::form_of(file, options.sources), file, given).files)
      files.push_back(path.string());
    return files;
  });
}

}  // namespace kilter
