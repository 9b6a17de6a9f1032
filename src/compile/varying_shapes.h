// Runs of a network whose inputs differ in a few dimensions only, such as a decoder whose cache grows with each token.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "compile/program_runner.h"
#include "onnx/model.h"

namespace kilter {

/// Finds out in which dimensions the shapes differ for which a session would compile plans. If most of the network does
/// not depend on these dimensions, a program runs it: the part that does not depend on them is compiled once, and a new
/// shape costs only the rest.
class VaryingShapes {
 public:
  using Shapes = onnx::Model::Shapes;
  /// Creates the runner for a network in which these values vary.
  using MakeRunner = std::function<std::unique_ptr<ProgramRunner>(std::vector<bool> varying)>;

  VaryingShapes(std::string name, std::shared_ptr<const OpenGraph> graph, MakeRunner make)
      : name_(std::move(name)), graph_(std::move(graph)), make_(std::move(make)) {}

  /// Returns the runner for these shapes, for which the session has no plan; null if they need a plan. Shapes that
  /// occur often need one, because it is faster. `types`: by input of the graph.
  ProgramRunner* runner_for(const Shapes& shapes, const std::vector<TensorType>& types);
  /// The runner that was used last; null if there is none.
  const ProgramRunner* last_runner() const { return groups_.empty() ? nullptr : groups_.front().runner.get(); }
  /// Plans of all runners.
  size_t plans() const;
  int64_t held_bytes() const;

 private:
  using Dim = std::pair<std::string, size_t>;  ///< input and axis
  /// Shapes that differ from the shapes `base` in the dimensions `dims` only.
  struct Group {
    Shapes base;
    std::set<Dim> dims;
    std::unique_ptr<ProgramRunner> runner;
    std::map<Shapes, int> runs = {};
    bool has(const Shapes& shapes) const;
  };
  static std::optional<std::set<Dim>> difference(const Shapes& a, const Shapes& b);
  bool repeats(const Shapes& shapes);

  std::string name_;
  std::shared_ptr<const OpenGraph> graph_;
  MakeRunner make_;
  std::optional<Shapes> last_;          ///< the previous shapes that no runner ran
  std::vector<TensorType> last_types_;  ///< by input of the graph
  std::set<Dim> dims_;                  ///< in which the last shapes differ from the ones before
  int in_a_row_ = 0;                    ///< how many times in a row these dimensions differed
  std::set<std::set<Dim>> useless_;     ///< dimensions on which most of the network depends
  std::list<Group> groups_;             ///< most recently used first
};

}  // namespace kilter
