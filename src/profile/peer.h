// Another runtime beside Kilter, in a Python process of its own: ONNX Runtime or OpenVINO, never linked.
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

class Peer {
 public:
  struct Request {
    std::string runtime;  ///< "onnxruntime" or "openvino"
    std::string model;    ///< path of an ONNX file
    int threads = 1;
    std::map<std::string, Shape> shapes;  ///< of inputs whose dimensions the model leaves open
  };
  /// Starts the process and loads the model. The interpreter is KILTER_PYTHON, else .venv/bin/python of the current
  /// folder where it is there, else python3. Throws unsupported, with the peer's own words, when it cannot run the
  /// model, and with what installs it, into which interpreter, when it is not there.
  explicit Peer(const Request& request);
  ~Peer();
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  /// "onnxruntime 1.31.1"
  const std::string& version() const { return version_; }
  // Both throw unsupported, with the peer's own words, when it fails or ends.
  /// Milliseconds of one run, the mean of `runs`, by the peer's own clock.
  double run(int64_t runs);
  /// Processor time that its process has used so far; 0 where the system does not tell.
  double cpu_ms() const;
  /// Its layers as its own profiler gives them, mean of `runs`.
  std::vector<PeerLayer> layers(int64_t runs);

 private:
  template <class Read>
  auto ask(const std::string& line, Read&& read);

  struct Process;
  std::unique_ptr<Process> process_;
  std::string what_, version_;
};

}  // namespace kilter::profile
