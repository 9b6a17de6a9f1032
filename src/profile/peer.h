// Another runtime (ONNX Runtime or OpenVINO), run in its own Python process and never linked.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/tensor.h"

namespace kilter::profile {

struct PeerLayer {
  std::string name, op;
  double ms = 0;
};
struct PeerLayers {
  std::vector<PeerLayer> layers;
  double run_ms = 0;  ///< of a whole run with the profiler, which slows it
};

/// Makes peers run in this Python interpreter unless KILTER_PYTHON is set. For programs that themselves run in a Python
/// interpreter. Call it before any peer starts.
void set_interpreter(std::string path);

class Peer {
 public:
  struct Request {
    std::string runtime;  ///< "onnxruntime" or "openvino"
    std::string model;    ///< path of an ONNX file
    int threads = 1;
    std::map<std::string, Shape> shapes;        ///< for inputs whose dimensions the model leaves open
    std::map<std::string, Tensor> values = {};  ///< of inputs; others get random values
  };
  /// Starts the process and loads the model. The interpreter is KILTER_PYTHON; if that is not set, that of
  /// set_interpreter(), otherwise .venv/bin/python of the current folder if it exists, and otherwise python3. Throws
  /// unsupported, quoting the peer, if it cannot run the model. If the runtime is missing, the error says how to
  /// install it, and into which interpreter.
  explicit Peer(const Request& request);
  ~Peer();
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  /// "onnxruntime 1.31.1"
  const std::string& version() const { return version_; }
  // run() and layers() throw unsupported, quoting the peer, if the peer fails or ends.
  /// Returns the milliseconds of one run, as the mean of `runs`, by the peer's own clock.
  double run(int64_t runs);
  /// Returns the CPU time that the peer's process has used so far, or 0 if the system does not report it.
  double cpu_ms() const;
  /// Returns the layers that the peer's own profiler reports, as the mean of `runs`.
  PeerLayers layers(int64_t runs);

 private:
  template <class Read>
  auto ask(const std::string& line, Read&& read);

  struct Process;
  std::unique_ptr<Process> process_;
  std::string what_, version_;
};

}  // namespace kilter::profile
