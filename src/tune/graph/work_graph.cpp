#include "tune/graph/work_graph.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tune/graph/solvers.h"

namespace kilter::tune {
namespace {

constexpr double kImpossible = std::numeric_limits<double>::infinity();

double least(const std::vector<double>& ms) { return *std::min_element(ms.begin(), ms.end()); }

}  // namespace

WorkGraph::WorkGraph(const ChoiceProblem& problem)
    : nodes_(problem.nodes), edges_of_(problem.nodes.size()), gone_(problem.nodes.size()) {
  for (ChoiceEdge& edge : merged_edges(problem)) {
    edges_of_[edge.from].push_back(edges_.size());
    edges_of_[edge.to].push_back(edges_.size());
    edges_.push_back({edge.from, edge.to, std::move(edge.ms)});
  }
}

double WorkGraph::edge_ms(size_t e, size_t n, size_t x, size_t y) const {
  const Edge& edge = edges_[e];
  return edge.a == n ? edge.ms[x * nodes_[edge.b].size() + y] : edge.ms[y * nodes_[edge.b].size() + x];
}

/// Returns the costs of alternative x of n; those for successive alternatives of the other end are `step` apart.
double* WorkGraph::at(size_t e, size_t n, size_t x, size_t& step) {
  Edge& edge = edges_[e];
  const size_t columns = nodes_[edge.b].size();
  step = edge.a == n ? 1 : columns;
  return edge.ms.data() + (edge.a == n ? x * columns : x);
}

std::vector<size_t> WorkGraph::core() const {
  std::vector<size_t> nodes;
  for (size_t n = 0; n < size(); ++n) {
    if (!gone_[n]) nodes.push_back(n);
  }
  return nodes;
}

size_t WorkGraph::alternatives(size_t n) const {
  return static_cast<size_t>(
      std::count_if(nodes_[n].begin(), nodes_[n].end(), [](double ms) { return ms < kImpossible; }));
}

void WorkGraph::detach(size_t e, size_t n) { std::erase(edges_of_[n], e); }

void WorkGraph::fold(size_t n) {
  folded_.push_back({n, edges_of_[n]});
  gone_[n] = true;
  for (const size_t e : edges_of_[n]) detach(e, other_end(e, n));
  edges_of_[n].clear();
}

void WorkGraph::fold_into_one(size_t n) {
  const size_t e = edges_of_[n][0];
  const size_t other = other_end(e, n);
  fold(n);
  for (size_t y = 0; y < nodes_[other].size(); ++y) {
    double best = kImpossible;
    for (size_t x = 0; x < nodes_[n].size(); ++x) best = std::min(best, nodes_[n][x] + edge_ms(e, n, x, y));
    nodes_[other][y] += best;
  }
}

void WorkGraph::fold_into_two(size_t n) {
  const size_t e = edges_of_[n][0];
  const size_t f = edges_of_[n][1];
  const size_t a = std::min(other_end(e, n), other_end(f, n));
  const size_t b = std::max(other_end(e, n), other_end(f, n));
  const size_t to_a = other_end(e, n) == a ? e : f;
  const size_t to_b = to_a == e ? f : e;
  fold(n);
  const auto joins = [&](size_t g) { return other_end(g, a) == b; };
  const auto known = std::find_if(edges_of_[a].begin(), edges_of_[a].end(), joins);
  size_t joint = edges_.size();
  if (known != edges_of_[a].end()) {
    joint = *known;
  } else {
    edges_.push_back({a, b, std::vector<double>(nodes_[a].size() * nodes_[b].size())});
    edges_of_[a].push_back(joint);
    edges_of_[b].push_back(joint);
  }
  for (size_t y = 0; y < nodes_[a].size(); ++y) {
    size_t step = 0;
    double* const row = at(joint, a, y, step);
    for (size_t z = 0; z < nodes_[b].size(); ++z) {
      double best = kImpossible;
      for (size_t x = 0; x < nodes_[n].size(); ++x) {
        best = std::min(best, nodes_[n][x] + edge_ms(to_a, n, x, y) + edge_ms(to_b, n, x, z));
      }
      row[z * step] += best;
    }
  }
}

bool WorkGraph::reduce() {
  std::vector<size_t> open = core();
  while (!open.empty()) {
    const size_t n = open.back();
    open.pop_back();
    const size_t degree = edges_of_[n].size();
    if (gone_[n] || degree > 2) continue;
    for (const size_t e : edges_of_[n]) open.push_back(other_end(e, n));
    if (degree == 0) {
      fold(n);
      folded_ms_ += least(nodes_[n]);
      if (folded_ms_ == kImpossible) return false;
    } else if (degree == 1) {
      fold_into_one(n);
    } else {
      fold_into_two(n);
    }
  }
  return true;
}

void WorkGraph::fix(size_t n, size_t x) {
  const std::vector<size_t> edges = edges_of_[n];
  for (size_t other = 0; other < nodes_[n].size(); ++other) {
    if (other != x) nodes_[n][other] = kImpossible;
  }
  fold(n);
  folded_ms_ += nodes_[n][x];
  for (const size_t e : edges) {
    const size_t to = other_end(e, n);
    for (size_t y = 0; y < nodes_[to].size(); ++y) nodes_[to][y] += edge_ms(e, n, x, y);
  }
}

void WorkGraph::drop(size_t n, size_t x) {
  nodes_[n][x] = kImpossible;
  for (const size_t e : edges_of_[n]) {
    size_t step = 0;
    double* const row = at(e, n, x, step);
    for (size_t y = 0; y < nodes_[other_end(e, n)].size(); ++y) row[y * step] = kImpossible;
  }
}

bool WorkGraph::drop_impossible() {
  for (const size_t n : core()) {
    for (size_t x = 0; x < nodes_[n].size(); ++x) {
      if (nodes_[n][x] == kImpossible) drop(n, x);
    }
  }
  for (bool changed = true; changed;) {
    changed = false;
    for (const size_t n : core()) {
      for (size_t x = 0; x < nodes_[n].size(); ++x) {
        if (nodes_[n][x] == kImpossible) continue;
        const bool possible = std::all_of(edges_of_[n].begin(), edges_of_[n].end(), [&](size_t e) {
          const size_t others = nodes_[other_end(e, n)].size();
          for (size_t y = 0; y < others; ++y) {
            if (edge_ms(e, n, x, y) < kImpossible) return true;
          }
          return false;
        });
        if (possible) continue;
        drop(n, x);
        changed = true;
      }
      if (least(nodes_[n]) == kImpossible) return false;
    }
  }
  return true;
}

void WorkGraph::collect(size_t n) {
  std::vector<double>& node = nodes_[n];
  for (const size_t e : edges_of_[n]) {
    const size_t others = nodes_[other_end(e, n)].size();
    for (size_t x = 0; x < node.size(); ++x) {
      if (node[x] == kImpossible) continue;
      size_t step = 0;
      double* const row = at(e, n, x, step);
      double low = kImpossible;
      for (size_t y = 0; y < others; ++y) low = std::min(low, row[y * step]);
      for (size_t y = 0; y < others; ++y) row[y * step] -= low;
      node[x] += low;
    }
  }
}

void WorkGraph::hand_out(size_t n, const std::vector<size_t>& edges, double share) {
  std::vector<double>& node = nodes_[n];
  for (size_t x = 0; x < node.size(); ++x) {
    if (node[x] == kImpossible) continue;
    const double part = node[x] * share;
    for (const size_t e : edges) {
      size_t step = 0;
      double* const row = at(e, n, x, step);
      for (size_t y = 0; y < nodes_[other_end(e, n)].size(); ++y) row[y * step] += part;
      node[x] -= part;
    }
  }
}

double WorkGraph::lower_bound() const {
  double sum = folded_ms_;
  for (size_t n = 0; n < size(); ++n) {
    if (gone_[n]) continue;
    sum += least(nodes_[n]);
    for (const size_t e : edges_of_[n]) {
      if (edges_[e].a == n) sum += least(edges_[e].ms);
    }
  }
  return sum;
}

double WorkGraph::rise(size_t n, size_t x) const {
  double sum = nodes_[n][x] - least(nodes_[n]);
  for (const size_t e : edges_of_[n]) {
    double low = kImpossible;
    for (size_t y = 0; y < nodes_[other_end(e, n)].size(); ++y) low = std::min(low, edge_ms(e, n, x, y));
    sum += low - least(edges_[e].ms);
  }
  return sum;
}

void WorkGraph::unfold(std::vector<size_t>& choice) const {
  for (auto step = folded_.rbegin(); step != folded_.rend(); ++step) {
    double best = kImpossible;
    choice[step->node] = 0;
    for (size_t x = 0; x < nodes_[step->node].size(); ++x) {
      double sum = nodes_[step->node][x];
      for (const size_t e : step->edges) sum += edge_ms(e, step->node, x, choice[other_end(e, step->node)]);
      if (sum >= best) continue;
      best = sum;
      choice[step->node] = x;
    }
  }
}

}  // namespace kilter::tune
