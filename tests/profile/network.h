// A compiled built-in network with input and output tensors, for tests that time it.
#pragma once

#include <string>
#include <vector>

#include "compile/session.h"

namespace kilter {

struct TestNetwork {
  explicit TestNetwork(const std::string& model, int threads = 1, CompileOptions compile = {}) {
    Session::Options options;
    options.compile = std::move(compile);
    if (options.compile.target.name.empty()) options.compile.target = parse_target("native");
    options.threads = threads;
    session = Session::open(model, options);
    loaded = &session->prepare();
    for (const PlanTensor& t : plan().inputs) inputs.push_back(random_input(t.name, t.type, t.shape));
    for (const PlanTensor& t : plan().outputs) outputs.emplace_back(t.type, t.shape);
    for (const Tensor& t : inputs) from.push_back(t.raw());
    for (const Tensor& t : outputs) to.push_back(t.raw());
  }
  const Plan& plan() const { return loaded->plan(); }
  Instance& instance() { return *loaded->instance; }

  std::unique_ptr<Session> session;
  Loaded* loaded = nullptr;
  std::vector<Tensor> inputs, outputs;
  std::vector<const std::byte*> from;
  std::vector<std::byte*> to;
};

}  // namespace kilter
