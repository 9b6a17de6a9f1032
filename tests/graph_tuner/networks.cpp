#include "networks.h"

#include <cmath>
#include <limits>

namespace kilter::tune {
namespace {

constexpr double kImpossible = std::numeric_limits<double>::infinity();

class Draw {
 public:
  explicit Draw(uint64_t seed) : random_(seed) {}
  size_t below(size_t n) { return static_cast<size_t>(random_.integer(next_++, 0, static_cast<int64_t>(n) - 1)); }
  double uniform(double low, double high) { return low + (high - low) * static_cast<double>(random_.uniform(next_++)); }
  double cost(const RandomOptions& options) {
    if (uniform(0, 1) < options.impossible) return kImpossible;
    return options.whole ? static_cast<double>(below(7)) - 2 : uniform(0, 1);
  }

 private:
  Random random_;
  uint64_t next_ = 0;
};

/// Adds layers whose alternatives differ in layout (one of four) and speed, joined by layout changes.
class NetworkMaker {
 public:
  NetworkMaker(size_t alternatives, uint64_t seed) : alternatives_(alternatives), draw_(seed) {}

  size_t layer(const std::vector<size_t>& inputs) {
    const double ms = draw_.uniform(0.02, 0.5);
    std::vector<double> costs;
    for (size_t x = 0; x < alternatives_; ++x) costs.push_back(ms * draw_.uniform(1, 1.6));
    return add(std::move(costs), inputs);
  }
  /// A sum or concat, which works in any layout at the same speed.
  size_t join(const std::vector<size_t>& inputs) { return add(std::vector<double>(alternatives_, 0.01), inputs); }
  size_t size() const { return problem_.nodes.size(); }
  ChoiceProblem take() { return std::move(problem_); }

 private:
  size_t add(std::vector<double> costs, const std::vector<size_t>& inputs) {
    problem_.nodes.push_back(std::move(costs));
    change_ms_.push_back(draw_.uniform(0.01, 0.1));
    const size_t node = problem_.nodes.size() - 1;
    for (const size_t input : inputs) {
      ChoiceEdge edge{input, node, {}};
      for (size_t x = 0; x < alternatives_; ++x) {
        for (size_t y = 0; y < alternatives_; ++y) edge.ms.push_back(x % 4 == y % 4 ? 0 : change_ms_[input]);
      }
      problem_.edges.push_back(std::move(edge));
    }
    return node;
  }

  size_t alternatives_;
  Draw draw_;
  ChoiceProblem problem_;
  std::vector<double> change_ms_;  ///< of a layout change of each node's output
};

void residual_block(NetworkMaker& net, size_t& last, size_t number) {
  const size_t in = last;
  size_t way = in;
  for (int i = 0; i < 3; ++i) way = net.layer({way});
  last = net.join({way, number % 4 == 0 ? net.layer({in}) : in});
}

void inception_block(NetworkMaker& net, std::vector<size_t>& last) {
  std::vector<size_t> ends;
  for (size_t branch = 1; branch <= 4; ++branch) {
    size_t way = net.layer(last);
    for (size_t i = 1; i < branch; ++i) way = net.layer({way});
    ends.push_back(way);
  }
  last = {net.join(ends)};
}

void dense_block(NetworkMaker& net, size_t& last, size_t layers, bool flat) {
  std::vector<size_t> earlier = {last};
  for (size_t i = 0; i < layers; ++i) {
    if (flat) {
      earlier.push_back(net.layer(earlier));
    } else {
      const size_t bottleneck = net.layer({net.join(earlier)});
      earlier.push_back(net.layer({bottleneck}));
    }
  }
  last = net.layer({net.join(earlier)});
}

}  // namespace

ChoiceProblem random_problem(const RandomOptions& options, uint64_t seed) {
  Draw draw(seed);
  ChoiceProblem problem;
  for (size_t n = 0; n < options.nodes; ++n) {
    std::vector<double>& node = problem.nodes.emplace_back(1 + draw.below(options.alternatives));
    for (double& ms : node) ms = draw.cost(options);
  }
  const auto add_edge = [&](size_t from, size_t to) {
    ChoiceEdge edge{from, to, std::vector<double>(problem.nodes[from].size() * problem.nodes[to].size())};
    for (double& ms : edge.ms) ms = draw.cost(options);
    problem.edges.push_back(std::move(edge));
  };
  if (options.forest) {
    for (size_t n = 1; n < options.nodes; ++n) {
      const size_t parent = draw.below(n + 1);  // n itself: a root
      if (parent == n) continue;
      // In either direction, and sometimes twice.
      draw.below(2) == 0 ? add_edge(parent, n) : add_edge(n, parent);
      if (draw.below(5) == 0) add_edge(n, parent);
    }
    return problem;
  }
  const auto edges = static_cast<size_t>(std::lround(options.edges_per_node * static_cast<double>(options.nodes)));
  for (size_t e = 0; e < edges && options.nodes > 1; ++e) {
    const size_t from = draw.below(options.nodes);
    const size_t to = draw.below(options.nodes - 1);
    add_edge(from, to < from ? to : to + 1);
  }
  return problem;
}

ChoiceProblem network_problem(Shape shape, size_t nodes, size_t alternatives, uint64_t seed) {
  NetworkMaker net(alternatives, seed);
  size_t last = net.layer({});
  std::vector<size_t> read = {last};
  for (size_t block = 0; net.size() < nodes; ++block) {
    switch (shape) {
      case Shape::chain:
        last = net.layer({last});
        break;
      case Shape::residual:
        residual_block(net, last, block);
        break;
      case Shape::inception:
        inception_block(net, read);
        break;
      case Shape::dense:
      case Shape::dense_flat:
        dense_block(net, last, std::min<size_t>(24, 6 << block), shape == Shape::dense_flat);
        break;
    }
  }
  return net.take();
}

}  // namespace kilter::tune
