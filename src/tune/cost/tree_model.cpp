#include "tune/cost/tree_model.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/files.h"
#include "base/hash.h"
#include "base/text.h"

namespace kilter::tune {
namespace {

/// Whether the note's key is one word that may begin a line, and its text is one line.
bool is_note(const std::pair<std::string, std::string>& note) {
  const auto printable = [](char c) { return static_cast<uint8_t>(c) >= ' '; };
  return !note.first.empty() && note.first.find(' ') == std::string::npos &&
         std::all_of(note.first.begin(), note.first.end(), printable) &&
         std::all_of(note.second.begin(), note.second.end(), printable);
}

/// Checks the preorder: each split is followed by its left subtree, which ends where its right subtree begins.
void check_tree(const Tree& tree, size_t features, size_t number, const std::string& where) {
  std::vector<int32_t> open;  // right children still to come
  for (size_t i = 0; i < tree.size(); ++i) {
    const TreeNode& node = tree[i];
    const bool last = i + 1 == tree.size();
    const bool leaf = node.feature == -1;
    bool fits = std::isfinite(node.value) && node.feature >= -1 && node.feature < static_cast<int32_t>(features);
    if (leaf) {
      fits = fits && open.empty() == last && (last || open.back() == static_cast<int32_t>(i + 1));
      if (!open.empty()) open.pop_back();
    } else {
      fits = fits && node.right > static_cast<int32_t>(i) + 1 && node.right < static_cast<int32_t>(tree.size());
      open.push_back(node.right);
    }
    if (!fits) fail(ErrorKind::bad_input, "{}: tree {}, node {}: does not fit the tree around it", where, number, i);
  }
  if (tree.empty()) fail(ErrorKind::bad_input, "{}: tree {} has no node", where, number);
}

float leaf_of(const Tree& tree, const float* row, const size_t* columns) {
  size_t at = 0;
  while (tree[at].feature >= 0) {
    const TreeNode& node = tree[at];
    const float value = row[columns[node.feature]];
    const bool left = std::isnan(value) ? node.missing_left : value < node.value;
    at = left ? at + 1 : static_cast<size_t>(node.right);
  }
  return tree[at].value;
}

void append_tree(std::string& out, const Tree& tree) {
  for (size_t i = 0; i < tree.size(); ++i) {
    if (i > 0) out += ' ';
    const TreeNode& node = tree[i];
    if (node.feature >= 0) {
      out += std::to_string(node.feature);
      out += node.missing_left ? 'l' : 'r';
    } else {
      out += '=';
    }
    out += format_float(node.value);
  }
  out += '\n';
}

}  // namespace

std::string_view name(Objective objective) { return objective == Objective::cost ? "cost" : "rank"; }

TreeModel::TreeModel(Parts parts, const std::string& where) : parts_(std::move(parts)) {
  check_matrix({parts_.features, {}}, where);
  if (!std::isfinite(parts_.base)) {
    fail(ErrorKind::bad_input, "{}: base {}; expected a finite number", where, format_float(parts_.base));
  }
  for (const auto& note : parts_.notes) {
    if (!is_note(note))
      fail(ErrorKind::bad_input, "{}: note '{}': expected a key of one word and one line of text", where, note.first);
  }
  for (size_t i = 0; i < parts_.trees.size(); ++i) check_tree(parts_.trees[i], parts_.features.size(), i, where);
}

std::vector<double> TreeModel::predict(const Matrix& rows) const {
  const std::vector<size_t> columns = find_features(parts_.features, rows.features, "the cost model");
  std::vector<float> sums(rows.rows(), parts_.base);
  for (const Tree& tree : parts_.trees) {
    for (size_t i = 0; i < sums.size(); ++i) sums[i] += leaf_of(tree, rows.row(i).data(), columns.data());
  }
  return {sums.begin(), sums.end()};
}

std::vector<int64_t> TreeModel::splits() const {
  std::vector<int64_t> count(parts_.features.size());
  for (const Tree& tree : parts_.trees) {
    for (const TreeNode& node : tree) {
      if (node.feature >= 0) ++count[static_cast<size_t>(node.feature)];
    }
  }
  return count;
}

std::string TreeModel::text() const {
  std::string out = fmt::format("kilter-trees 1\nobjective {}\n", name(parts_.objective));
  for (const auto& [word, text] : parts_.notes) out += fmt::format("note {} {}\n", word, text);
  out += fmt::format("features {} {}\nbase {}\ntrees {}\n", parts_.features.size(), join(parts_.features, " "),
                     format_float(parts_.base), parts_.trees.size());
  for (const Tree& tree : parts_.trees) append_tree(out, tree);
  return out + fmt::format("end {:016x}\n", hash_text(out));
}

TreeModel TreeModel::load(const std::filesystem::path& path) { return parse(read_file(path), path.string()); }

void TreeModel::save(const std::filesystem::path& path) const { write_file_atomically(path, text()); }

void check_start(const TreeModel* start, Objective objective) {
  if (start == nullptr || start->objective() == objective) return;
  fail(ErrorKind::bad_input,
       "cost model: the model to start from has objective {}, but the one to train has objective {}; start from one of "
       "the same objective",
       name(start->objective()), name(objective));
}

TreeModel join_models(const TreeModel& first, const TreeModel& more) {
  check_start(&first, more.objective());
  const std::vector<size_t> columns = find_features(first.features(), more.features(), "the model to start from");
  TreeModel::Parts parts = more.parts();
  parts.base = first.parts().base + more.parts().base;
  std::vector<Tree> trees = first.parts().trees;
  for (Tree& tree : trees) {
    for (TreeNode& node : tree) {
      if (node.feature >= 0) node.feature = static_cast<int32_t>(columns[static_cast<size_t>(node.feature)]);
    }
  }
  trees.insert(trees.end(), parts.trees.begin(), parts.trees.end());
  parts.trees = std::move(trees);
  return TreeModel(std::move(parts));
}

}  // namespace kilter::tune
