// Loads a network, runs it on one input and prints the five largest outputs. usage: classify [MODEL]

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <vector>

#include "kilter/kilter.h"

int main(int argc, char** argv) {
  try {
    kilter::Network net = kilter::Network::load(argc > 1 ? argv[1] : "zoo:squeezenet1_1", {.threads = 1});
    if (!net.note().empty()) std::fprintf(stderr, "classify: %s\n", net.note().c_str());
    const kilter::Port input = net.inputs().at(0);
    const int64_t count = std::accumulate(input.shape.begin(), input.shape.end(), int64_t{1}, std::multiplies<>());
    std::vector<float> image(static_cast<size_t>(count));
    for (size_t i = 0; i < image.size(); ++i) image[i] = static_cast<float>(i % 255) / 255;

    const std::vector<kilter::TensorValue> outputs = net.run({{input.name, kilter::f32(input.shape, image)}});

    const float* scores = outputs[0].as<float>();
    std::vector<int64_t> order(static_cast<size_t>(outputs[0].shape.back()));
    std::iota(order.begin(), order.end(), 0);
    const size_t top = std::min<size_t>(5, order.size());
    std::partial_sort(order.begin(), order.begin() + static_cast<int64_t>(top), order.end(),
                      [&](int64_t a, int64_t b) { return scores[a] > scores[b]; });
    for (size_t i = 0; i < top; ++i)
      std::printf("class %lld: %g\n", static_cast<long long>(order[i]), static_cast<double>(scores[order[i]]));
  } catch (const std::exception& e) {
    std::fprintf(stderr, "classify: %s\n", e.what());
    return 1;
  }
}
