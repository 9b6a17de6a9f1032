// Boosted trees that need no other library: evaluation, and a text form that is shipped and kept in files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tune/cost/model.h"

namespace kilter::tune {

/// What the numbers of a model mean.
enum class Objective : uint8_t {
  cost,  ///< logarithm of the time over that of the task's default
  rank,  ///< an order within a task
};
std::string_view name(Objective objective);

/// One node; a tree is its nodes in preorder, so a split's left child is the next one.
struct TreeNode {
  int32_t feature = -1;  ///< -1: a leaf
  bool missing_left = false;
  float value = 0;     ///< a split: less goes left; a leaf: its answer
  int32_t right = -1;  ///< a split: its right child's place
};
using Tree = std::vector<TreeNode>;

/// A row's prediction is base + the leaves that it falls into, added in order as floats: what XGBoost does, bit for
/// bit. Immutable, safe from any thread.
class TreeModel : public CostModel {
 public:
  struct Parts {
    std::vector<std::string> features;
    Objective objective = Objective::cost;
    float base = 0;
    std::vector<Tree> trees;
    /// What is known of its making (trainer, rows, devices), by a word each; any line of text.
    std::vector<std::pair<std::string, std::string>> notes;
  };
  /// Throws bad_input, naming `where`, when names, places or numbers of the parts do not fit together.
  explicit TreeModel(Parts parts, const std::string& where = "tree model");

  std::vector<double> predict(const Matrix& rows) const override;

  const std::vector<std::string>& features() const { return parts_.features; }
  Objective objective() const { return parts_.objective; }
  const Parts& parts() const { return parts_; }
  /// Splits of each feature, weighted by nothing: how often a model asks for it.
  std::vector<int64_t> splits() const;

  /// Lines: "kilter-trees 1", "objective", "note"s, "features" with their names, "base", "trees", a line of preorder
  /// for each tree (a split: feature, l or r for where unknown values go, threshold, as 3l0.25; a leaf: =0.5), "end"
  /// with a hash of what stands before. The same model gives the same bytes; numbers read back as they were.
  std::string text() const;
  /// Throws bad_input with `where`, the line, and what was expected there.
  static TreeModel parse(std::string_view text, const std::string& where);
  static TreeModel load(const std::filesystem::path& path);
  void save(const std::filesystem::path& path) const;

 private:
  Parts parts_;
};

/// `first`, and the trees of `more` after it: predictions add up to the float. The features of `first` must be among
/// those of `more`, which are the answer's; notes are those of `more`. Throws bad_input when objectives differ.
TreeModel join_models(const TreeModel& first, const TreeModel& more);
/// Throws bad_input when `start` is there and of another objective than what is to be trained on top of it.
void check_start(const TreeModel* start, Objective objective);

}  // namespace kilter::tune
