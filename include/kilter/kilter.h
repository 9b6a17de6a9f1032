// Kilter's C++ interface: load a network, compile it for this CPU, run it.
//
//   kilter::Network net = kilter::Network::load("resnet18.onnx", {.threads = 2});
//   std::vector<float> image(1 * 3 * 224 * 224);
//   std::vector<kilter::TensorValue> out = net.run({{"input", kilter::f32({1, 3, 224, 224}, image)}});
//   const float* scores = out[0].as<float>();
//
// examples/classify.cpp is this program, complete. Every failure throws kilter::ApiError with one clear message.
//
// A compiled file is machine code: running one from a stranger is running a stranger's program. Loading checks a hash
// over the whole file before anything of it runs; the hash finds damage, not malice. The file stays mapped while a
// Network uses it: replace it by renaming another file to its name, as save() does. A file that is cut off in place
// ends the process with SIGBUS, and one that is overwritten in place (`cp` does that) changes what runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace kilter {

/// What went wrong, in one message: what, where, expected and got, what to do.
class ApiError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Memory that cannot be had; the network is as it was before the call.
class OutOfMemory : public ApiError {
 public:
  using ApiError::ApiError;
};

enum class Type : uint8_t { f32, f64, f16, bf16, i8, i16, i32, i64, u8, u16, u32, u64, boolean };

/// Bytes of one element.
int64_t type_bytes(Type type);

/// Type and shape of an input or output; a dimension of -1 is not known before the network runs.
struct Port {
  std::string name;
  Type type = Type::f32;
  std::vector<int64_t> shape;
};

/// A dense row-major tensor that somebody else owns; it must outlive the call that gets it.
struct View {
  Type type = Type::f32;
  std::vector<int64_t> shape;
  const void* data = nullptr;
};

/// A view of floats. Throws ApiError when the shape's element count is not that of the values.
View f32(std::vector<int64_t> shape, std::span<const float> values);
View i64(std::vector<int64_t> shape, std::span<const int64_t> values);

/// A tensor that the caller owns.
struct TensorValue {
  std::string name;
  Type type = Type::f32;
  std::vector<int64_t> shape;
  std::shared_ptr<const std::byte[]> bytes;

  /// The elements; T must be the C++ type of `type`.
  template <class T>
  const T* as() const {
    return reinterpret_cast<const T*>(bytes.get());
  }
};

struct NetworkOptions {
  int threads = 0;                ///< 0: KILTER_NUM_THREADS, else the CPUs this process may use
  std::string target = "native";  ///< CPU to generate code for, as `kilter targets` lists them
  std::map<std::string, std::vector<int64_t>> shapes = {};  ///< of inputs whose dimensions the model leaves open
  /// Whether the hash of a whole compiled file is checked when it is loaded (about 10 ms for 100 MB in memory). The
  /// fields of its header are checked in any case.
  bool verify_file = true;
  /// Most bytes that plans for other shapes than the last ones may take: code, working memory, outputs, and packed
  /// weights that the last plan does not share. Beyond it those go that were used longest ago; shapes that come again
  /// are compiled again then.
  int64_t plan_cache_bytes = int64_t{1} << 30;
};

/// A network, compiled for the shapes that it is run with; plans are kept (NetworkOptions::plan_cache_bytes) and have
/// the packed weights in common that are the same. One thread at a time; give each thread a Network of its own.
class Network {
 public:
  /// `model`: an .onnx file, `zoo:NAME`, or a file made by save() or `kilter compile`.
  static Network load(const std::string& model, const NetworkOptions& options = {});
  Network(Network&&) noexcept;
  Network& operator=(Network&&) noexcept;
  ~Network();

  std::vector<Port> inputs() const;
  std::vector<Port> outputs() const;
  /// What who runs it should know, in one line; empty where there is nothing. Of a file that was compiled with tuned
  /// schedules for another number of threads: "compiled for 1 thread, run on 2; expected loss about 4 % (an estimate)".
  std::string note() const;
  /// Runs once; every input must be there. Compiles on the first run with new shapes, or with new values of inputs that
  /// shapes depend on. Inputs at a 64-byte boundary are not copied. The outputs' memory serves a later run once the
  /// caller has given it up.
  std::vector<TensorValue> run(const std::map<std::string, View>& inputs);
  /// Compiles for the declared (or given) shapes and writes a file that loads without compiling, also with the C
  /// interface of runtime.h, which needs neither LLVM nor protobuf.
  void save(const std::string& file);

 private:
  struct Impl;
  explicit Network(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace kilter
