// Kilter's C++ interface: load a network, compile it for this CPU, run it.
//
//   kilter::Network net = kilter::Network::load("resnet18.onnx", {.threads = 2});
//   std::vector<float> image(1 * 3 * 224 * 224);
//   std::vector<kilter::TensorValue> out = net.run({{"input", kilter::f32({1, 3, 224, 224}, image)}});
//   const float* scores = out[0].as<float>();
//
// examples/classify.cpp is the complete program. Every failure throws kilter::ApiError with one clear message.
//
// A compiled file contains machine code: running a stranger's file is running a stranger's program. Loading verifies a
// hash of the whole file before any of it runs; the hash detects damage, not malice. The file stays mapped while a
// Network uses it. To replace it, rename another file over it, as save() does. Truncating it in place ends the process
// with SIGBUS, and overwriting it in place (as `cp` does) changes the code that runs.
#pragma once

#include <kilter/version.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

namespace kilter {

/// An error, in one message: what went wrong, where, what was expected, what was found and what to do.
class ApiError : public std::runtime_error {
 public:
  enum class Kind : uint8_t {
    usage,          ///< wrong option or argument
    model,          ///< the model file or its graph is invalid
    input,          ///< an input tensor, shape or file is not as required
    unsupported,    ///< valid, but Kilter cannot do it yet
    file,           ///< a file cannot be read or written
    internal,       ///< a bug in Kilter
    out_of_memory,  ///< the class is then OutOfMemory
  };
  explicit ApiError(const std::string& message, Kind kind = Kind::internal)
      : std::runtime_error(message), kind_(kind) {}
  Kind kind() const noexcept { return kind_; }

 private:
  Kind kind_;
};

/// The error thrown when memory cannot be allocated. The failed call leaves the network unchanged.
class OutOfMemory : public ApiError {
 public:
  explicit OutOfMemory(const std::string& message) : ApiError(message, Kind::out_of_memory) {}
};

/// From f8e4m3fn on, an element has a byte of its own, whose lowest bits are those that ONNX gives it and whose other
/// bits are 0. Elements of type string are objects of std::string.
enum class Type : uint8_t {
  f32,
  f64,
  f16,
  bf16,
  i8,
  i16,
  i32,
  i64,
  u8,
  u16,
  u32,
  u64,
  boolean,
  string,
  f8e4m3fn,
  f8e4m3fnuz,
  f8e5m2,
  f8e5m2fnuz,
  f8e8m0,
  f4e2m1,
  i4,
  u4,
  i2,
  u2
};

/// Bytes of one element.
int64_t type_bytes(Type type);

/// Name, type and shape of an input or output. A dimension of -1 is unknown until the network runs. A shape of unknown
/// rank is empty. The other fields describe inputs and outputs that are not plain tensors.
struct Port {
  std::string name;
  Type type = Type::f32;  ///< of the tensors, or of the values in maps
  std::vector<int64_t> shape;
  bool optional = false;  ///< it may be absent
  bool sequence = false;  ///< it is a sequence of tensors or maps
  bool map = false;       ///< it is a map, or a sequence of maps
  Type key = Type::i64;   ///< of the keys in maps: i64 or string

  bool is_tensor() const { return !optional && !sequence && !map; }
};

/// A dense row-major tensor in memory of the caller, which must outlive the call that receives the view.
struct View {
  Type type = Type::f32;
  std::vector<int64_t> shape;
  const void* data = nullptr;
};

/// A view of floats. Throws ApiError if the shape's element count differs from the number of values.
View f32(std::vector<int64_t> shape, std::span<const float> values);
View i64(std::vector<int64_t> shape, std::span<const int64_t> values);
View strings(std::vector<int64_t> shape, std::span<const std::string> values);

/// Whether elements of a type are objects of T. The types of fewer than 32 bits that C++ lacks are read as their bits:
/// f16 and bf16 as uint16_t, those of a byte or less as uint8_t or int8_t. Bytes of any type are std::byte.
template <class T>
constexpr bool reads(Type type) {
  using enum Type;
  if constexpr (std::is_same_v<T, float>) return type == f32;
  if constexpr (std::is_same_v<T, double>) return type == f64;
  if constexpr (std::is_same_v<T, bool>) return type == boolean;
  if constexpr (std::is_same_v<T, std::string>) return type == string;
  if constexpr (std::is_same_v<T, std::byte>) return type != string;
  if constexpr (std::is_integral_v<T> && sizeof(T) == 8) return type == (std::is_signed_v<T> ? i64 : u64);
  if constexpr (std::is_integral_v<T> && sizeof(T) == 4) return type == (std::is_signed_v<T> ? i32 : u32);
  if constexpr (std::is_same_v<T, int16_t>) return type == i16;
  if constexpr (std::is_same_v<T, uint16_t>) return type == u16 || type == f16 || type == bf16;
  if constexpr (std::is_integral_v<T> && sizeof(T) == 1 && !std::is_same_v<T, bool>) {
    const bool narrow = type == boolean || (type >= f8e4m3fn && type <= u2);
    return narrow || type == (std::is_signed_v<T> ? i8 : u8);
  }
  return false;
}

/// A tensor that the caller owns.
struct TensorValue {
  std::string name;
  Type type = Type::f32;
  std::vector<int64_t> shape;
  std::shared_ptr<const std::byte[]> bytes;

  /// The elements. Throws ApiError unless reads<T>(type).
  template <class T>
  const T* as() const {
    if (!reads<T>(type)) wrong_type();
    return reinterpret_cast<const T*>(bytes.get());
  }

 private:
  /// Throws the error of as(), which states the type of the elements and the C++ type that reads them.
  [[noreturn]] void wrong_type() const;
};

/// A value of any kind. As an input, it refers to memory of the caller, as View does; outputs own their memory.
struct NetworkValue {
  enum class Kind : uint8_t { absent, tensor, sequence, map };
  std::string name;  ///< of an output
  Kind kind = Kind::absent;
  TensorValue tensor;                  ///< kind tensor
  std::vector<NetworkValue> elements;  ///< kind sequence
  TensorValue keys;                    ///< kind map: [n] of i64 or string
  TensorValue values;                  ///< kind map: [n] in the order of the keys, which ascend in outputs

  NetworkValue() = default;  ///< an optional value that is absent
  NetworkValue(const View& view);
  static NetworkValue sequence(std::vector<NetworkValue> elements);
  static NetworkValue map(const View& keys, const View& values);
};

struct NetworkOptions {
  int threads = 0;  ///< 0: KILTER_NUM_THREADS if it is set, otherwise the number of CPUs this process may use
  std::string target = "native";                            ///< CPU to generate code for; `kilter targets` lists them
  std::map<std::string, std::vector<int64_t>> shapes = {};  ///< for inputs whose dimensions the model leaves open
  /// The sizes that inputs may have, by name: "1x3x{320..960:32}x{w=64..800}" (doc/dynamic_shapes.md). A run with other
  /// sizes throws. save() writes a file with a plan for each of these shapes.
  std::map<std::string, std::string> shape_ranges = {};
  /// "now": load() compiles plans for all shapes of `shape_ranges` if there are at most `max_shapes`, otherwise for 16
  /// that are spread over them; "auto": a thread of the lowest priority compiles these plans while the network is used;
  /// "never": run() compiles a plan when a shape first occurs.
  std::string specialise = "never";
  int64_t max_shapes = 64;  ///< the most shapes of `shape_ranges` for which load() or save() compiles all plans
  /// "declared": the types of the model; "bf16" or "fp16": values between layers have this type, as with `kilter run
  /// --precision` (doc/precision.md). Not for compiled files, which have the precision that they were compiled with.
  std::string precision = "declared";
  std::vector<std::string> keep_float = {};  ///< nodes and operators that `precision` leaves in f32
  /// "strict": no approximating kernels (Winograd convolutions); "default": allows them (doc/accuracy.md).
  std::string accuracy = "default";
  /// Limit in bytes for packed weights and working memory of a plan. 0: packed weights up to 2.5 times the parameters,
  /// or 64 MiB.
  int64_t memory_bytes = 0;
  /// Tuning records to take schedules from: a file, a database of a server (postgresql://USER@HOST/DATABASE), or
  /// "default" for the file of `kilter tune`; empty: none.
  std::string records = {};
  /// How to use records: "accepted", "history-best" or "graph-best" (doc/records.md).
  std::string choose = "accepted";
  /// Layer plan to take schedules from, as written by `kilter tune --write-plan`; empty: none. Not with `records`.
  std::string layer_plan = {};
  /// Receives a line for each fact that the user must know, such as damaged records. May be empty.
  std::function<void(const std::string&)> notice = {};
  /// Whether loading a compiled file verifies the hash of the whole file (about 10 ms for 100 MB in memory). The fields
  /// of its header are checked either way.
  bool verify_file = true;
  /// The file of a public key: loading refuses a compiled file that was not signed with the matching secret key
  /// (doc/compatibility.md).
  std::string signed_by = {};
  /// Limit in bytes on the plans for shapes other than the latest: their code, working memory, outputs, and packed
  /// weights not shared with the latest plan. Above the limit, the least recently used plans are dropped; their shapes
  /// are compiled again when they recur.
  int64_t plan_cache_bytes = int64_t{1} << 30;
};

/// How to write a C library: Network::save_library().
struct LibraryOptions {
  std::string name = {};    ///< prefix of its functions; empty: the name of the file without "lib" and its extension
  std::string header = {};  ///< the file for its header; empty: beside the library
  bool weights_in_file = false;  ///< its weights go to a file NAME.weights beside it
  bool sources = false;          ///< write a folder with the sources and a CMakeLists.txt; needs no C compiler
  std::string compiler = {};     ///< command of the C compiler; empty: cc, or the cross compiler for the target
};

/// The progress of plans that are compiled in the background.
struct PlansAhead {
  int64_t made = 0, of = 0;
  bool ended = true;  ///< no more will be compiled
};

/// A network, compiled for each set of shapes that it runs with. It keeps the plans, up to
/// NetworkOptions::plan_cache_bytes; plans share identical packed weights. Networks with loops, branches, strings, and
/// shapes that depend on data run as well (doc/control_flow.md). Use a network from one thread at a time, and give each
/// thread its own.
class Network {
 public:
  /// `model`: an .onnx file, `zoo:NAME`, or a file written by save() or `kilter compile`.
  static Network load(const std::string& model, const NetworkOptions& options = {});
  Network(Network&&) noexcept;
  Network& operator=(Network&&) noexcept;
  ~Network();

  /// The inputs and outputs of run(), without those that bind_state() has bound.
  std::vector<Port> inputs() const;
  std::vector<Port> outputs() const;
  /// A one-line remark for whoever runs the network; empty if there is none. For a file compiled with schedules that
  /// were tuned for another number of threads, for example:
  /// "compiled for 1 thread, run on 2; expected loss about 4 % (an estimate)".
  std::string note() const;
  /// The progress of NetworkOptions::specialise "auto"; {0, 0, true} without it.
  PlansAhead plans_ahead() const;
  /// Runs the network once. Every input must be present. Compiles on the first run with new shapes, or with new values
  /// of inputs that shapes depend on. Inputs aligned to 64 bytes are not copied. A later run reuses the outputs' memory
  /// once the caller has released it.
  /// Throws ApiError if an input or output is not a tensor.
  std::vector<TensorValue> run(const std::map<std::string, View>& inputs);
  /// As run(), for inputs and outputs of any kind. An optional input may be missing.
  std::vector<NetworkValue> run_values(const std::map<std::string, NetworkValue>& inputs);
  /// Keeps state inside the network, such as the cache of a decoder (doc/state.md): later runs neither take the bound
  /// inputs nor return the bound outputs, because the value of a bound output becomes that of its input in the next
  /// run, without a copy. If a run throws, the state stays as it was. Returns the pairs.
  ///   `pairs`: for each input, by name, the output that is its next value; empty: pairs are found by their names and
  ///     in the model, as described in doc/state.md.
  ///   `initial`: initial values by the names of inputs; they are copied. Other inputs start with the model's default
  ///     value if there is one, and otherwise with zeros. The open dimensions of such zeros are 0 where the output is
  ///     longer than the input, and otherwise those of dimensions of the same name in the inputs of the first run.
  /// Throws ApiError, and changes nothing, if there is no such port, if an output or a value does not fit its input, if
  /// no pair is found, or if the initial size of an input cannot be determined. A second call replaces the first.
  std::map<std::string, std::string> bind_state(const std::map<std::string, std::string>& pairs = {},
                                                const std::map<std::string, NetworkValue>& initial = {});
  /// Returns to the initial values; inputs in `values` get copies of these instead. Throws ApiError, and changes
  /// nothing, if a value does not fit its input, or before bind_state().
  void reset_state(const std::map<std::string, NetworkValue>& values = {});
  /// The current values, named as the inputs; later runs do not change them. Before the first run, values whose sizes
  /// depend on it are missing.
  std::vector<NetworkValue> state() const;
  /// Compiles for the declared (or given) shapes and writes a file that loads without compiling. The C interface in
  /// runtime.h, which needs neither LLVM nor protobuf, can also load it. For a network with control flow or with shapes
  /// that depend on data, the file also has the code that earlier runs compiled (doc/control_flow.md).
  ///   `targets`: CPUs to compile for, as in NetworkOptions::target; loading selects the best one for the processor.
  ///     Empty: the target of the network.
  ///   `size`: "fast": the file has the packed weights, which are mapped. "small": it has the weights that take less
  ///     room before they are packed, and loading packs them (doc/compatibility.md).
  /// With targets, or if the file is small, the model is compiled again, for what the options ask for and not for what
  /// earlier runs did. Throws ApiError, and changes nothing, if the file exists and is not a compiled file.
  void save(const std::string& file, const std::vector<std::string>& targets = {}, const std::string& size = "fast");
  /// Compiles for the declared (or given) shapes and writes a C library of the network that does not need Kilter:
  /// NAME.so, NAME.a or NAME.o, according to the file's extension, and its header (doc/libraries.md). Returns the paths
  /// of all files. Throws ApiError, and changes no file, for a network with several shapes, with control flow, or with
  /// operators that need the runtime library, and if there is no C compiler.
  std::vector<std::string> save_library(const std::string& file, const LibraryOptions& options = {});

 private:
  struct Impl;
  explicit Network(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace kilter
