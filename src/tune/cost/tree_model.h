// Boosted trees that need no other library: evaluation, and a text form, in which models are shipped and stored.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tune/cost/model.h"

namespace kilter::tune {

/// The meaning of a model's numbers.
enum class Objective : uint8_t {
  cost,  ///< logarithm of the time over that of the task's default
  rank,  ///< an order within a task
};
std::string_view name(Objective objective);

/// One node. A tree is its nodes in preorder, so a split's left child follows it directly.
struct TreeNode {
  int32_t feature = -1;  ///< -1: a leaf
  bool missing_left = false;
  float value = 0;     ///< a split's threshold: smaller values go left; or a leaf's output
  int32_t right = -1;  ///< for a split: index of its right child
};
using Tree = std::vector<TreeNode>;

/// A row's prediction is the base plus the leaves that it reaches, added in order as floats; the results are bitwise
/// identical to those of XGBoost. Immutable and thread-safe.
class TreeModel : public CostModel {
 public:
  struct Parts {
    std::vector<std::string> features;
    Objective objective = Objective::cost;
    float base = 0;
    std::vector<Tree> trees;
    /// Facts about how the model was trained (trainer, rows, devices), each with a one-word key and one line of text.
    std::vector<std::pair<std::string, std::string>> notes;
  };
  /// Throws bad_input, naming `where`, if names, indices or numbers of the parts do not fit together.
  explicit TreeModel(Parts parts, const std::string& where = "tree model");

  std::vector<double> predict(const Matrix& rows) const override;

  const std::vector<std::string>& features() const { return parts_.features; }
  Objective objective() const { return parts_.objective; }
  const Parts& parts() const { return parts_; }
  /// Number of splits on each feature, unweighted.
  std::vector<int64_t> splits() const;

  /// Returns the lines "kilter-trees 1", "objective", "note"s, "features" with their names, "base", "trees", one line
  /// for each tree with its nodes in preorder, and "end" with a hash of everything before it. A split is written as its
  /// feature, the side to which unknown values go (l or r) and its threshold: 3l0.25; a leaf as =0.5. The same model
  /// gives the same bytes, and numbers read back exactly.
  std::string text() const;
  /// Throws bad_input that names `where`, the line, and the text expected there.
  static TreeModel parse(std::string_view text, const std::string& where);
  static TreeModel load(const std::filesystem::path& path);
  void save(const std::filesystem::path& path) const;

 private:
  Parts parts_;
};

/// Returns `first` followed by the trees of `more`. Its predictions are the sums of the two models' predictions, up to
/// rounding. The features of `first` must be among those of `more`. The result has the features and notes of `more`.
/// Throws bad_input if the objectives differ.
TreeModel join_models(const TreeModel& first, const TreeModel& more);
/// Throws bad_input if `start` is not null and its objective differs from that of the model to be trained on top of it.
void check_start(const TreeModel* start, Objective objective);

}  // namespace kilter::tune
