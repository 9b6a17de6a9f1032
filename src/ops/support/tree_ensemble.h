// Forests of decision trees: reading them from the attributes of the operators of ai.onnx.ml, and evaluating them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ops/support/ml.h"

namespace kilter {

/// The condition of a node on its feature x: x <= value, x < value, ..., or whether x is in a set.
enum class TreeMode : uint8_t { leq, lt, gte, gt, eq, neq, member };

/// A node of a tree, or a leaf.
struct TreeNode {
  bool leaf = false;
  TreeMode mode = TreeMode::leq;
  bool missing_true = false;  ///< whether the condition is true for NaN
  int64_t feature = 0;
  double value = 0;
  int64_t first = 0, end = 0;         ///< leaf: its range in TreeEnsemble::weights; TreeMode::member: in members
  int32_t if_true = 0, if_false = 0;  ///< nodes
};

/// A summand of one target.
struct TreeWeight {
  int64_t target = 0;
  double value = 0;
};

enum class TreeAggregate : uint8_t { average, sum, min, max };

struct TreeEnsemble {
  std::vector<TreeNode> nodes;
  std::vector<double> members;  ///< of sets
  std::vector<TreeWeight> weights;
  std::vector<int32_t> roots;
  std::vector<double> base_values;  ///< empty, or one for each target
  int64_t targets = 1;
  TreeAggregate aggregate = TreeAggregate::sum;
  PostTransform how = PostTransform::none;
};

/// Reads a TreeEnsembleRegressor or TreeEnsembleClassifier. `what` is the prefix of the attributes about leaves,
/// "target" or "class". Does not set `targets`, `aggregate` and `how`. Throws node_error if lists differ in length,
/// nodes do not exist, or the children of nodes form cycles.
TreeEnsemble read_listed_trees(const Node& node, const std::string& what);
/// Reads a TreeEnsemble. Throws node_error as read_listed_trees().
TreeEnsemble read_linked_trees(const Node& node);
/// Throws node_error unless all features are below `columns`, all targets below `targets`, and base_values has one
/// number for each target or none.
void check_ranges(const Node& node, const TreeEnsemble& trees, int64_t columns);

/// The value of a target after all trees. A target to which no leaf contributed is not present and has value 0.
struct TreeScore {
  double value = 0;
  bool present = false;
};
/// Combines the leaves that a row of features reaches; base values and the transform are not applied. The average of
/// no leaf is not present.
void evaluate_row(const TreeEnsemble& trees, std::span<const double> row, std::span<TreeScore> scores);

/// Writes a row of the features of x (the input of a tree operator) to `to`, as f64. Integers are rounded to f32 as in
/// the compiled kernel.
void load_row(const Tensor& x, int64_t row, std::span<double> to);

}  // namespace kilter
