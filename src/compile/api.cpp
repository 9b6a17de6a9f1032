// The public C++ interface (include/kilter/kilter.h) over Session.

#include <algorithm>
#include <new>

#include "base/error.h"
#include "base/float_environment.h"
#include "compile/session.h"
#include "exec/plan_file.h"
#include "kilter/kilter.h"

namespace kilter {
namespace {

static_assert(static_cast<int>(Type::f32) == static_cast<int>(DType::f32));
static_assert(static_cast<int>(Type::boolean) == static_cast<int>(DType::boolean));
static_assert(static_cast<int>(Type::string) == static_cast<int>(DType::string));
static_assert(static_cast<int>(Type::f8e4m3fn) == static_cast<int>(DType::f8e4m3fn));
static_assert(static_cast<int>(Type::u2) == static_cast<int>(DType::u2));

DType dtype(Type type) { return static_cast<DType>(type); }

Port public_port(const onnx::Port& port) {
  if (!port.is_tensor()) {
    throw ApiError(
        "'" + port.name + "' is " + onnx::text(port) +
        "; the C++ interface has tensors only: use the Python package, or change the model to return tensors");
  }
  Port out{port.name, static_cast<Type>(port.type), {}};
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

/// Runs `f`; any failure becomes an ApiError.
template <class F>
auto translated(F&& f) {
  try {
    return f();
  } catch (const ApiError&) {
    throw;
  } catch (const Error& e) {
    if (e.kind() == ErrorKind::out_of_memory) throw OutOfMemory(e.message());
    throw ApiError(e.message());
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

Precision precision_named(const std::string& text) {
  for (const Precision precision : kPrecisions) {
    if (text == name(precision)) return precision;
  }
  fail(ErrorKind::usage, "precision '{}': expected declared, bf16 or fp16", text);
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

struct Network::Impl {
  std::unique_ptr<Session> session;
  std::vector<std::string> output_names;
  bool plain = true;  ///< all ports are onnx::Port::plain()
};

Network::Network(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Network::Network(Network&&) noexcept = default;
Network& Network::operator=(Network&&) noexcept = default;
Network::~Network() = default;

Network Network::load(const std::string& model, const NetworkOptions& options) {
  return translated([&] {
    const FloatEnvironment standard;
    Session::Options session;
    session.threads = options.threads;
    session.compile.target = parse_target(options.target);
    session.compile.precision = precision_named(options.precision);
    session.compile.keep_float = {options.keep_float.begin(), options.keep_float.end()};
    for (const auto& [name, shape] : options.shapes) session.shapes[name] = shape;
    session.verify_file = options.verify_file;
    session.plan_cache_bytes = options.plan_cache_bytes;
    auto impl = std::make_unique<Impl>();
    impl->session = Session::open(model, session);
    if (impl->session->compiled_file() && options.precision != NetworkOptions().precision) {
      fail(ErrorKind::usage, "precision '{}': {} is a compiled file, which runs as it was compiled; load the model",
           options.precision, model);
    }
    for (const onnx::Port& port : impl->session->inputs()) impl->plain &= port.plain();
    for (const onnx::Port& port : impl->session->outputs()) {
      impl->output_names.push_back(port.name);
      impl->plain &= port.plain();
    }
    if (impl->session->compiled_file()) impl->session->prepare();
    return Network(std::move(impl));
  });
}

std::vector<Port> Network::inputs() const {
  return translated([&] { return public_ports(impl_->session->inputs()); });
}

std::vector<Port> Network::outputs() const {
  return translated([&] { return public_ports(impl_->session->outputs()); });
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

}  // namespace

std::vector<TensorValue> Network::run(const std::map<std::string, View>& inputs) {
  return translated([&] {
    const FloatEnvironment standard;
    std::vector<TensorValue> values;
    if (impl_->plain) {
      std::map<std::string, Tensor> tensors;
      for (const auto& [name, view] : inputs) tensors.emplace_hint(tensors.end(), name, tensor_of(name, view));
      const std::vector<Tensor> results = impl_->session->run(tensors);
      values.reserve(results.size());
      for (size_t i = 0; i < results.size(); ++i) values.push_back(value_of(impl_->output_names.at(i), results[i]));
      return values;
    }
    outputs();  // throws if one is no tensor
    std::map<std::string, AnyValue> given;
    for (const auto& [name, view] : inputs) given.emplace(name, tensor_of(name, view));
    const std::vector<AnyValue> results = impl_->session->run_values(given);
    for (size_t i = 0; i < results.size(); ++i) {
      const std::string& name = impl_->output_names.at(i);
      if (!results[i].is_tensor())
        fail(ErrorKind::unsupported, "output '{}' is {}, although the model declares a tensor", name, text(results[i]));
      values.push_back(value_of(name, results[i].tensor()));
    }
    return values;
  });
}

void Network::save(const std::string& file) {
  translated([&] {
    const FloatEnvironment standard;
    save_plan(impl_->session->compile().own_plan(), file);
    return 0;
  });
}

}  // namespace kilter
