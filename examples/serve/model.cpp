// Loads models. Plans are compiled here, so that no request waits for a compiler.

#include "model.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <optional>
#include <thread>
#include <utility>

namespace serve {
namespace {

using kilter::Network;
using kilter::NetworkOptions;
using kilter::Port;
using kilter::Type;

bool is_compiled(const std::string& file) { return !file.starts_with("zoo:") && !file.ends_with(".onnx"); }

/// All sizes up to 16, and then steps of an eighth at most, up to `most`. Plans share code and weights, so many sizes
/// cost little, while each row of padding takes as long as a requested row.
std::vector<int64_t> sizes_up_to(int64_t most) {
  std::vector<int64_t> sizes;
  for (int64_t size = 1; size < most; size += std::max<int64_t>(1, std::bit_floor(static_cast<uint64_t>(size)) / 8))
    sizes.push_back(size);
  sizes.push_back(most);
  return sizes;
}

/// Throws if the protocol cannot express a port.
void require_expressible(const std::string& file, const std::vector<Port>& ports, const char* kind) {
  for (const Port& port : ports) {
    const std::string where = file + ": " + kind + " '" + port.name + "' is ";
    if (!port.is_tensor())
      throw kilter::ApiError(where +
                             (port.sequence ? "a sequence"
                              : port.map    ? "a map"
                                            : "optional") +
                             "; the protocol has tensors only");
    if (datatype(port.type) == nullptr) throw kilter::ApiError(where + "of a type that the protocol does not have");
  }
}

bool known_but_first(const Port& port) {
  return !port.shape.empty() && std::all_of(port.shape.begin() + 1, port.shape.end(), [](int64_t d) { return d >= 0; });
}

/// Returns why requests cannot be joined, according to the declared shapes; empty if nothing prevents it.
std::string obstacle(const std::vector<Port>& inputs, const std::vector<Port>& outputs) {
  if (inputs.empty()) return "it has no inputs";
  for (const Port& port : inputs) {
    if (port.shape.empty()) return "input '" + port.name + "' has no dimensions";
    if (port.shape[0] >= 0)
      return "dimension 0 of input '" + port.name + "' is always " + std::to_string(port.shape[0]);
    if (!known_but_first(port))
      return "input '" + port.name + "' of shape " + text(port.shape) + " has other open dimensions than the first";
  }
  for (const Port& port : outputs) {
    if (port.shape.empty() || port.shape[0] >= 0)
      return "output '" + port.name + "' of shape " + text(port.shape) + " has no open dimension 0";
  }
  return "";
}

/// "{batch=1,2,4}x3x224x224"; for inputs after the first "{batch}x...", the same sizes.
std::string ranges(const Port& port, const std::vector<int64_t>& sizes, bool first) {
  std::string out = "{batch";
  for (size_t i = 0; first && i < sizes.size(); ++i) out += (i == 0 ? "=" : ",") + std::to_string(sizes[i]);
  out += "}";
  for (size_t i = 1; i < port.shape.size(); ++i) out += "x" + std::to_string(port.shape[i]);
  return out;
}

template <class T>
void put(std::byte* to, T value) {
  std::memcpy(to, &value, sizeof(T));
}

/// One element of a made-up input: different in each row, and legal as an index.
void made_up_element(Type type, size_t row, size_t i, std::byte* to) {
  const auto bit = static_cast<uint8_t>((row + i) % 2);
  const auto real = static_cast<float>((row * 7919 + i * 104729) % 1000) / 1000;
  switch (type) {
    case Type::f32:
      return put(to, real);
    case Type::f64:
      return put(to, static_cast<double>(real));
    case Type::f16:
      return put(to, static_cast<uint16_t>(0x3800 + (row * 61 + i * 37) % 1000));  // 0.5 to 1
    case Type::bf16:
      return put(to, static_cast<uint16_t>(0x3f00 + (row * 61 + i * 37) % 128));  // 0.5 to 1
    case Type::i16:
    case Type::u16:
      return put(to, uint16_t{bit});
    case Type::i32:
    case Type::u32:
      return put(to, uint32_t{bit});
    case Type::i64:
    case Type::u64:
      return put(to, uint64_t{bit});
    default:
      return put(to, bit);
  }
}

/// An input with the rows `first` to `first + rows - 1`. `rows` 0: the declared shape, as one row.
Tensor made_up(const Port& port, size_t first, int64_t rows) {
  Tensor tensor;
  tensor.type = port.type;
  tensor.shape = port.shape;
  if (rows > 0) tensor.shape[0] = rows;
  const auto total = static_cast<size_t>(elements(tensor.shape).value_or(0));
  if (port.type == Type::string) {
    tensor.strings.assign(total, "1");
    return tensor;
  }
  const auto size = static_cast<size_t>(kilter::type_bytes(port.type));
  const size_t row = rows > 0 ? std::max<size_t>(1, total / static_cast<size_t>(rows)) : std::max<size_t>(1, total);
  tensor.own.resize(total * size);
  for (size_t i = 0; i < total; ++i) made_up_element(port.type, first + i / row, i % row, tensor.own.data() + i * size);
  tensor.bytes = tensor.own;
  return tensor;
}

std::vector<Tensor> made_up(const std::vector<Port>& inputs, size_t first, int64_t rows) {
  std::vector<Tensor> tensors;
  for (const Port& port : inputs) tensors.push_back(made_up(port, first, rows));
  return tensors;
}

double half(uint16_t bits) {
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  const double sign = bits >> 15 == 0 ? 1 : -1;
  if (exponent == 31) return fraction == 0 ? sign * INFINITY : NAN;
  return sign * (exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25));
}

/// Element `i` of a tensor of floating-point numbers.
double real(const Tensor& tensor, size_t i) {
  const auto get = [&](auto value) {
    std::memcpy(&value, tensor.own.data() + i * sizeof(value), sizeof(value));
    return value;
  };
  switch (tensor.type) {
    case Type::f64:
      return get(double{});
    case Type::f16:
      return half(get(uint16_t{}));
    case Type::bf16:
      return std::bit_cast<float>(static_cast<uint32_t>(get(uint16_t{})) << 16);
    default:
      return get(float{});
  }
}

/// Returns whether two outputs differ by no more than a different order of summation can explain.
bool same(const Tensor& a, const Tensor& b) {
  if (a.shape != b.shape) return false;
  const bool reals = a.type == Type::f32 || a.type == Type::f64 || a.type == Type::f16 || a.type == Type::bf16;
  if (!reals) return a.own == b.own && a.strings == b.strings;
  constexpr double kTolerance = 0.02;  // of the largest magnitude
  const size_t count = a.own.size() / static_cast<size_t>(kilter::type_bytes(a.type));
  double largest = 0;
  for (size_t i = 0; i < count; ++i) {
    if (std::isfinite(real(a, i))) largest = std::max(largest, std::abs(real(a, i)));
  }
  for (size_t i = 0; i < count; ++i) {
    const double x = real(a, i), y = real(b, i);
    if (std::isnan(x) != std::isnan(y) || (x != y && std::abs(x - y) > kTolerance * largest)) return false;
  }
  return true;
}

/// Runs requests of one row together and by themselves. Returns why they cannot be joined; empty if they can.
std::string check_rows(Instance& instance, const std::vector<int64_t>& sizes) {
  try {
    const auto joined = static_cast<size_t>(std::min<int64_t>(sizes.back(), 3));
    std::vector<std::vector<Tensor>> requests;
    std::vector<const std::vector<Tensor>*> pointers;
    for (size_t row = 0; row < joined; ++row) requests.push_back(made_up(instance.inputs(), row, 1));
    for (const auto& request : requests) pointers.push_back(&request);
    const int64_t size = *std::ranges::lower_bound(sizes, static_cast<int64_t>(joined));
    const std::vector<std::vector<Tensor>> together = instance.run_joined(pointers, size);
    for (size_t row = 0; row < joined; ++row) {
      const std::vector<std::vector<Tensor>> alone = instance.run_joined({pointers[row]}, sizes.front());
      for (size_t i = 0; i < alone[0].size(); ++i) {
        if (!same(alone[0][i], together[row][i]))
          return "output '" + instance.outputs()[i].name + "' of a row depends on the other rows";
      }
    }
    const std::vector<Tensor> rows = made_up(instance.inputs(), 0, sizes.back());
    static_cast<void>(instance.run_joined({&rows}, sizes.back()));  // allocates the working memory
  } catch (const kilter::ApiError& error) {
    return std::string("a run with made-up inputs failed: ") + error.what();
  }
  return "";
}

/// Time of the faster of two runs, in seconds.
double seconds_of_run(Instance& instance, int64_t rows) {
  using Clock = std::chrono::steady_clock;
  const std::vector<Tensor> inputs = made_up(instance.inputs(), 0, rows);
  Clock::duration least = Clock::duration::max();
  for (int i = 0; i < 2; ++i) {
    const Clock::time_point begin = Clock::now();
    static_cast<void>(instance.run_joined({&inputs}, rows));
    least = std::min(least, Clock::now() - begin);
  }
  return std::chrono::duration<double>(least).count();
}

/// Returns what joining gains, which depends on the network: a matrix is read once for all rows, but the amount of
/// arithmetic is the same.
std::string gain(Instance& instance, const std::vector<int64_t>& sizes) {
  const double times = seconds_of_run(instance, sizes.back()) / seconds_of_run(instance, sizes.front());
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f", times);
  return "a run of " + std::to_string(sizes.back()) + " rows takes " + text.data() + " times as long as a run of " +
         std::to_string(sizes.front());
}

/// The sizes for which a compiled file has plans.
std::vector<int64_t> working_sizes(Instance& instance, const std::vector<int64_t>& wanted) {
  std::vector<int64_t> working;
  for (const int64_t size : wanted) {
    try {
      const std::vector<Tensor> rows = made_up(instance.inputs(), 0, size);
      static_cast<void>(instance.run_joined({&rows}, size));
      working.push_back(size);
    } catch (const kilter::ApiError&) {  // no plan for this size
    }
  }
  return working;
}

NetworkOptions network_options(const ModelOptions& options) {
  NetworkOptions out;
  const int cpus = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  out.threads = options.threads > 0 ? options.threads : std::max(1, cpus / options.instances);
  return out;
}

/// Loads a network with plans for these batch sizes. A compiled file has its own.
Instance load_with_sizes(const std::string& file, const std::vector<Port>& inputs, const std::vector<int64_t>& sizes,
                         const ModelOptions& options) {
  NetworkOptions declared = network_options(options);
  if (!is_compiled(file)) {
    for (const Port& port : inputs) declared.shape_ranges[port.name] = ranges(port, sizes, &port == inputs.data());
    declared.specialise = "now";
    declared.max_shapes = std::ssize(sizes);
  }
  return Instance(Network::load(file, declared));
}

/// Returns the first instance, and puts the sizes for which it can join requests into the model; none, with a note, if
/// requests of this model cannot be joined.
std::optional<Instance> joining_instance(Model& model, const std::string& file, const ModelOptions& options) {
  const std::vector<Port>& inputs = model.signature.inputs;
  std::string reason = obstacle(inputs, model.signature.outputs);
  if (reason.empty()) {
    std::vector<int64_t> sizes = sizes_up_to(options.max_batch);
    Instance instance = load_with_sizes(file, inputs, sizes, options);
    if (is_compiled(file)) sizes = working_sizes(instance, sizes);
    reason = sizes.empty() ? "the file has no plan for a batch of up to " + std::to_string(options.max_batch)
                           : check_rows(instance, sizes);
    if (reason.empty()) {
      model.batch_sizes = sizes;
      return instance;
    }
  }
  model.notes.push_back("requests are not joined: " + reason);
  return std::nullopt;
}

bool has_known_shapes(const std::vector<Port>& inputs) {
  const auto known = [](const Port& port) { return std::ranges::all_of(port.shape, [](int64_t d) { return d >= 0; }); };
  return std::ranges::all_of(inputs, known);
}

/// An instance that runs requests by themselves.
Instance plain_instance(Model& model, const std::string& file, const ModelOptions& options) {
  Instance instance(Network::load(file, network_options(options)));
  if (!has_known_shapes(instance.inputs())) {
    if (!is_compiled(file))
      model.notes.emplace_back("a new shape is compiled when it first occurs, while its request waits");
    return instance;
  }
  try {
    static_cast<void>(instance.run(made_up(instance.inputs(), 0, 0)));  // compiles
  } catch (const kilter::ApiError& error) {
    model.notes.push_back(std::string("a run with made-up inputs failed: ") + error.what());
  }
  return instance;
}

/// A file in a folder that only this user can enter. It is removed with the object, and stays mapped where it is used.
class TemporaryFile {
 public:
  TemporaryFile() {
    std::string name = (std::filesystem::temp_directory_path() / "kilter-serve-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr)
      throw std::runtime_error("cannot create the folder " + name + ": " + std::strerror(errno));
    folder_ = name;
  }
  ~TemporaryFile() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  std::string path() const { return folder_ / "model.kilter"; }

 private:
  std::filesystem::path folder_;
};

/// Fills model.instances with copies of `first`. Networks that are loaded from one compiled file share its code and
/// weights in memory, so a model is compiled to a file for them; loaded by themselves, each would have its own.
void make_instances(Model& model, Instance first, const std::string& file, const ModelOptions& options) {
  const TemporaryFile shared;
  std::string source = file;
  if (!is_compiled(file) && (!model.batch_sizes.empty() || has_known_shapes(first.inputs()))) {
    try {
      first.save(shared.path());
      source = shared.path();
    } catch (const kilter::ApiError& error) {
      model.notes.push_back(std::string("each instance has weights of its own, since no file can be created: ") +
                            error.what());
    }
  }
  if (source == file) model.instances.push_back(std::move(first));
  while (std::cmp_less(model.instances.size(), options.instances)) {
    Instance next = model.batch_sizes.empty()
                        ? plain_instance(model, source, options)
                        : load_with_sizes(source, model.signature.inputs, model.batch_sizes, options);
    if (!model.batch_sizes.empty()) {
      const std::vector<Tensor> rows = made_up(next.inputs(), 0, model.batch_sizes.back());
      static_cast<void>(next.run_joined({&rows}, model.batch_sizes.back()));  // allocates its working memory
    }
    model.instances.push_back(std::move(next));
  }
}

}  // namespace

int64_t Model::size_for(int64_t rows) const { return *std::ranges::lower_bound(batch_sizes, rows); }

Model load_model(const std::string& name, const std::string& file, const ModelOptions& options) {
  Model model;
  {
    const Network probe = Network::load(file, network_options(options));
    model.signature = {name, is_compiled(file) ? "kilter_compiled" : "onnx_kilter", probe.inputs(), probe.outputs()};
  }
  require_expressible(file, model.signature.inputs, "input");
  require_expressible(file, model.signature.outputs, "output");
  std::optional<Instance> first = joining_instance(model, file, options);
  if (!first) first = plain_instance(model, file, options);
  if (options.instances == 1) {
    model.instances.push_back(std::move(*first));
  } else {
    make_instances(model, std::move(*first), file, options);
  }
  if (model.joins()) model.notes.push_back(gain(model.instances[0], model.batch_sizes));
  const std::string note = model.instances[0].note();
  if (!note.empty()) model.notes.push_back(note);
  return model;
}

}  // namespace serve
