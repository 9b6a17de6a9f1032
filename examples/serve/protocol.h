// The Open Inference Protocol (KServe v2) over HTTP: from bodies to tensors and back, without sockets and networks.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tensor.h"

namespace serve {

/// What clients see of a model.
struct Signature {
  std::string name;
  std::string platform;
  std::vector<kilter::Port> inputs, outputs;
};

inline constexpr const char* kVersion = "1";  ///< the only version of every model

struct InferRequest {
  struct Output {
    size_t index;  ///< in Signature::outputs
    bool binary;
  };
  std::string id;
  std::vector<Tensor> inputs;  ///< as in Signature::inputs
  std::vector<Output> outputs;
};

/// The first `json_bytes` of `body` are JSON, the rest is binary data. The tensors refer to `body`, which must outlive
/// the result. Throws Failure 400 for anything that does not fit the protocol or the model.
InferRequest parse_infer(const Signature& model, std::string_view body, size_t json_bytes);

struct InferAnswer {
  std::string body;
  size_t json_bytes = 0;
  bool binary = false;  ///< `body` has binary data after the JSON
};

/// `outputs`: as in Signature::outputs. Throws Failure 400 if a value cannot be written as JSON.
InferAnswer infer_answer(const Signature& model, const InferRequest& request, const std::vector<Tensor>& outputs);

std::string server_metadata();
std::string model_metadata(const Signature& model);
std::string model_ready(const Signature& model);
/// {"error": "..."}
std::string error_body(const std::string& text);

}  // namespace serve
