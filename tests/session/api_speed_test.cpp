// The public API takes hardly more time than the plan alone: compares Network::run() with Instance::run() on equal
// inputs.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <ctime>

#include "../base/scratch_folder.h"
#include "kilter/kilter.h"
#include "models.h"

namespace kilter {
namespace {

using Make = std::function<ValueId(GraphBuilder&, ValueId)>;

Tensor weights(const Shape& shape, const std::string& name) { return random_input(name, DType::f32, shape); }

ValueId dense(GraphBuilder& b, ValueId x, int64_t in, int64_t out, const std::string& name) {
  return b.add("Relu", {b.add("MatMul", {x, b.constant(weights({in, out}, name), name)})});
}

/// A decoder layer for one token: as many nodes as a real model has, with little work in each.
ValueId decoder_layer(GraphBuilder& b, ValueId x, const std::string& name) {
  const ValueId scale = b.constant(weights({64}, name + "s"), name + "s");
  const ValueId normal = b.add("LayerNormalization", {x, scale}, {{"axis", int64_t{-1}}});
  const ValueId q = dense(b, normal, 64, 64, name + "q"), k = dense(b, normal, 64, 64, name + "k");
  const ValueId v = dense(b, normal, 64, 64, name + "v");
  const ValueId scores = b.add("MatMul", {q, b.add("Transpose", {k}, {{"perm", std::vector<int64_t>{1, 0}}})});
  const ValueId mixed = b.add("MatMul", {b.add("Softmax", {scores}, {{"axis", int64_t{-1}}}), v});
  const ValueId after = b.add("Add", {x, dense(b, mixed, 64, 64, name + "o")});
  return b.add("Add", {after, dense(b, dense(b, after, 64, 128, name + "u"), 128, 64, name + "d")});
}

struct TestNetwork {
  std::string name;
  std::string file;
  Shape shape;
  std::string input = "x";
};

std::vector<TestNetwork> networks(const std::filesystem::path& folder) {
  std::vector<TestNetwork> all;
  const auto small = [&](const std::string& name, const Shape& shape, const Make& make) {
    all.push_back({name, open_model(folder / (name + ".onnx"), small_graph(shape, make)), shape});
  };
  const auto zoo = [&](const std::string& name, int64_t size, double width = 1) {
    all.push_back({name, open_zoo(folder, name, size, width), {1, 3, size, size}, "input"});
  };
  small("one_add", {1, 16},
        [](GraphBuilder& b, ValueId x) { return b.add("Add", {x, b.constant(weights({16}, "w"))}); });
  small("mlp", {1, 64}, [](GraphBuilder& b, ValueId x) { return dense(b, dense(b, x, 64, 256, "a"), 256, 10, "b"); });
  small("two_hundred_nodes", {1, 256}, [](GraphBuilder& b, ValueId x) {
    for (int i = 0; i < 100; ++i) x = b.add("Softmax", {b.add("Relu", {x})}, {{"axis", int64_t{-1}}});
    return x;
  });
  small("decoder", {1, 64}, [](GraphBuilder& b, ValueId x) {
    for (int i = 0; i < 8; ++i) x = decoder_layer(b, x, "layer" + std::to_string(i));
    return x;
  });
  small("large_output", {64, 256}, [](GraphBuilder& b, ValueId x) { return dense(b, x, 256, 2048, "w"); });
  small("convolutions", {1, 3, 16, 16}, [](GraphBuilder& b, ValueId x) {
    for (int i = 0, channels = 3; i < 20; ++i, channels = 8) {
      const ValueId filter = b.constant(weights({8, channels, 3, 3}, "f" + std::to_string(i)));
      x = b.add("Relu", {b.add("Conv", {x, filter}, {{"pads", std::vector<int64_t>{1, 1, 1, 1}}})});
    }
    return x;
  });
  zoo("squeezenet1_0", 40);
  zoo("squeezenet1_1", 32);
  zoo("mobilenet_v1", 32, 0.25);
  zoo("mobilenet_v2", 32, 0.25);
  return all;
}

/// Returns the CPU time of this thread, which runs everything here. Other programs do not count.
double cpu_us() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) * 1e-3;
}

/// Measures the mean microseconds per run over at least 200 us. Keeps the minimum over all calls in `best`.
template <class F>
void time_once(double& best, F&& run) {
  int runs = 0;
  const double start = cpu_us();
  double end = start;
  while (end - start < 200) {
    run();
    ++runs;
    end = cpu_us();
  }
  best = std::min(best, (end - start) / runs);
}

TEST(ApiSpeed, NetworkRunAddsNoOverhead) {
  const ScratchFolder folder;
  for (const TestNetwork& net : networks(folder.path())) {
    const Tensor x = random_input(net.input, DType::f32, net.shape);
    const auto session = open_session(net.file);
    Loaded& loaded = session->prepare_for({{net.input, x}});
    std::vector<Tensor> outputs;
    for (const PlanTensor& t : loaded.plan().outputs) outputs.emplace_back(t.type, t.shape);
    const std::byte* from[] = {x.raw()};
    std::byte* to[] = {outputs.at(0).raw()};
    Network network = Network::load(net.file, {.threads = 1});
    const std::map<std::string, View> inputs{{net.input, f32(net.shape, x.span<float>())}};
    network.run(inputs);
    // Alternates, so other load on the machine affects both, and keeps the best of each. Adds rounds while they differ.
    double plan = 1e12, api = 1e12;
    const double start = cpu_us();
    const auto close = [&] { return api <= std::max(plan * 1.03, plan + 20); };
    for (int round = 0; round < 100 || (!close() && cpu_us() - start < 5e6); ++round) {
      time_once(plan, [&] { loaded.instance->run(from, to); });
      time_once(api, [&] { network.run(inputs); });
    }
    std::printf("%-18s the plan %9.2f us, Network::run %9.2f us\n", net.name.c_str(), plan, api);
    EXPECT_TRUE(close()) << net.name << ": Network::run takes " << api << " us, its plan " << plan
                         << " us; expected at most 3 % or 20 us more";
  }
}

}  // namespace
}  // namespace kilter
