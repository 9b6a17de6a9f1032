// Random forests, with every condition and aggregate, and with missing values.
#include <gtest/gtest.h>

#include "ops/support/ml.h"
#include "sweep.h"

namespace kilter {
namespace {

template <class T>
Tensor list(const std::vector<T>& values) {
  return Tensor::of<T>({std::ssize(values)}, values);
}

/// The lists of a TreeEnsemble.
class Forest {
 public:
  Forest(Draw& draw, int64_t features, int64_t targets) : draw_(draw), features_(features), targets_(targets) {
    mode_ = draw.chance(50) ? draw.between(0, 5) : -1;
    missing_ = draw.chance(40);
    whole_ = draw.chance(30);
  }

  void add_tree(int64_t depth) {
    roots_.push_back(std::ssize(ids_));
    add_node(depth);
  }

  Attrs attrs() const {
    return {{"leaf_targetids", leaf_targets_},
            {"leaf_weights", list(leaf_weights_)},
            {"n_targets", targets_},
            {"nodes_falseleafs", leafs_[0]},
            {"nodes_falsenodeids", sides_[0]},
            {"nodes_featureids", ids_},
            {"nodes_missing_value_tracks_true", tracks_},
            {"nodes_modes", list(modes_)},
            {"nodes_splits", list(splits_)},
            {"nodes_trueleafs", leafs_[1]},
            {"nodes_truenodeids", sides_[1]},
            {"tree_roots", roots_}};
  }

 private:
  int64_t add_node(int64_t depth) {
    const size_t at = ids_.size();
    ids_.push_back(draw_.between(0, features_ - 1));
    modes_.push_back(static_cast<uint8_t>(mode_ >= 0 ? mode_ : draw_.between(0, 5)));
    splits_.push_back(static_cast<float>(draw_.between(-8, 8)) / 4);
    tracks_.push_back(missing_ ? draw_.between(0, 1) : 0);
    for (size_t side = 0; side < 2; ++side) sides_[side].push_back(0), leafs_[side].push_back(0);
    for (size_t side = 0; side < 2; ++side) {
      const bool leaf = depth <= 1 || (!whole_ && draw_.chance(20));
      leafs_[side][at] = leaf ? 1 : 0;
      const int64_t child = leaf ? add_leaf() : add_node(depth - 1);
      sides_[side][at] = child;
    }
    return static_cast<int64_t>(at);
  }

  int64_t add_leaf() {
    leaf_targets_.push_back(draw_.between(0, targets_ - 1));
    leaf_weights_.push_back(static_cast<float>(draw_.between(-100, 100)) / 32);
    return std::ssize(leaf_targets_) - 1;
  }

  Draw& draw_;
  int64_t features_, targets_, mode_ = 0;
  bool missing_ = false, whole_ = false;
  std::vector<int64_t> ids_, tracks_, roots_, leaf_targets_;
  std::vector<int64_t> sides_[2], leafs_[2];  ///< false, true
  std::vector<uint8_t> modes_;
  std::vector<float> splits_, leaf_weights_;
};

void make_trees(SweepNet& net) {
  Draw& draw = net.draw;
  const int64_t rows = draw.pick({1, 2, 7, 8, 9, 16, 33, 65, 100}), features = draw.pick({1, 2, 5, 16, 31, 130});
  const int64_t targets = draw.pick({1, 1, 2, 3, 17});
  Forest forest(draw, features, targets);
  for (int64_t trees = draw.pick({1, 3, 8, 13, 40}); trees > 0; --trees) forest.add_tree(draw.between(1, 6));
  Attrs attrs = forest.attrs();
  attrs["aggregate_function"] = targets == 1 ? draw.between(0, 3) : draw.between(0, 1);
  ValueId x = net.input({rows, features});
  if (draw.chance(40)) x = net.b.add("Round", {x});
  if (draw.chance(30)) x = net.b.add("Sqrt", {x});  // NaN for negative elements
  GraphBuilder::Options options;
  options.domain = kMlDomain;
  options.opset = 5;
  net.output(net.b.add("TreeEnsemble", {x}, std::move(attrs), options).front());
}

class TreeSweep : public testing::TestWithParam<NetKind> {};

TEST_P(TreeSweep, AgreesWithTheReference) { sweep(GetParam()); }

INSTANTIATE_TEST_SUITE_P(Trees, TreeSweep, testing::Values(NetKind{"Trees", make_trees, 40, {"tree_rows"}, true}),
                         [](const auto& kind) { return std::string(kind.param.name); });

}  // namespace
}  // namespace kilter
