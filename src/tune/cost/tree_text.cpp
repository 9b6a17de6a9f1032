// Reads the text form of boosted trees.

#include <charconv>
#include <cmath>

#include "base/error.h"
#include "base/files.h"
#include "base/hash.h"
#include "base/text.h"
#include "tune/cost/tree_model.h"

namespace kilter::tune {
namespace {

/// More levels than any trainer creates; prevents a damaged file from using up all memory.
constexpr size_t kDeepest = 64;

class TreeReader {
 public:
  TreeReader(std::string_view text, const std::string& where) : text_(text), where_(where) {}

  TreeModel read() {
    read_version();
    TreeModel::Parts parts;
    read_objective(parts);
    std::string_view line = next("'features'");
    for (; line.starts_with("note "); line = next("'features'")) read_note(line.substr(5), parts);
    read_features(line, parts);
    parts.base = number(field(next("'base'"), "base"), "a finite number");
    const int64_t trees = count(field(next("'trees'"), "trees"));
    for (int64_t i = 0; i < trees; ++i) parts.trees.push_back(read_tree(next("a tree"), parts.features.size()));
    read_end();
    return TreeModel(std::move(parts), where_);
  }

 private:
  template <class... Args>
  [[noreturn]] void bad(fmt::format_string<Args...> format, Args&&... args) const {
    fail(ErrorKind::bad_input, "{}: line {}: {}", where_, line_, fmt::format(format, std::forward<Args>(args)...));
  }

  std::string_view next(std::string_view expected) {
    ++line_;
    const size_t end = text_.find('\n', at_);
    if (end == std::string_view::npos) bad("expected {}, but the file ends; it is cut off", expected);
    const std::string_view line = text_.substr(at_, end - at_);
    at_ = end + 1;
    return line;
  }

  std::string_view field(std::string_view line, std::string_view word) const {
    if (!line.starts_with(word) || line.size() <= word.size() || line[word.size()] != ' ') {
      bad("expected '{} ...', got '{}'", word, line.substr(0, 60));
    }
    return line.substr(word.size() + 1);
  }

  void read_version() {
    const std::string_view version = field(next("'kilter-trees 1'"), "kilter-trees");
    if (version != "1") bad("version {}; this program reads version 1; use a newer program, or train again", version);
  }

  void read_objective(TreeModel::Parts& parts) {
    const std::string_view objective = field(next("'objective'"), "objective");
    if (objective != "cost" && objective != "rank") bad("objective '{}'; legal values are cost, rank", objective);
    parts.objective = objective == "cost" ? Objective::cost : Objective::rank;
  }

  void read_note(std::string_view line, TreeModel::Parts& parts) const {
    const size_t space = line.find(' ');
    if (space == std::string_view::npos) bad("expected 'note WORD TEXT', got 'note {}'", line.substr(0, 60));
    parts.notes.emplace_back(line.substr(0, space), line.substr(space + 1));
  }

  void read_features(std::string_view line, TreeModel::Parts& parts) const {
    const std::vector<std::string_view> words = split(field(line, "features"), ' ');
    const int64_t expected = count(words.front());
    for (size_t i = 1; i < words.size(); ++i) parts.features.emplace_back(words[i]);
    if (expected == 0) bad("no features; a cost model needs one or more");
    if (expected != static_cast<int64_t>(parts.features.size())) {
      bad("expected {} names of features, got {}", expected, parts.features.size());
    }
  }

  int64_t count(std::string_view text) const {
    const auto value = try_parse_int(text);
    if (!value || *value < 0 || *value > 1000000)
      bad("expected a number from 0 to 1000000, got '{}'", text.substr(0, 60));
    return *value;
  }

  float number(std::string_view text, std::string_view expected) const {
    // Parses directly to float: going through double would change a few numbers.
    float value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size() || !std::isfinite(value)) {
      bad("expected {}, got '{}'", expected, text.substr(0, 60));
    }
    return value;
  }

  TreeNode read_node(std::string_view word, size_t features) const {
    constexpr std::string_view kExpected = "a split such as 3l0.25 or a leaf such as =0.5";
    TreeNode node;
    if (word.starts_with('=')) {
      node.value = number(word.substr(1), kExpected);
      return node;
    }
    const size_t side = word.find_first_of("lr");
    const auto feature = try_parse_int(word.substr(0, side));
    if (side == std::string_view::npos || !feature) bad("expected {}, got '{}'", kExpected, word.substr(0, 60));
    if (*feature < 0 || *feature >= static_cast<int64_t>(features)) {
      bad("feature {}; legal values are 0..{}", *feature, features - 1);
    }
    node.feature = static_cast<int32_t>(*feature);
    node.missing_left = word[side] == 'l';
    node.value = number(word.substr(side + 1), kExpected);
    return node;
  }

  Tree read_tree(std::string_view line, size_t features) const {
    Tree tree;
    std::vector<size_t> open;  // splits whose right child is still to come
    bool complete = false;
    for (const std::string_view word : split(line, ' ')) {
      if (complete) bad("a tree is complete before '{}'", word.substr(0, 60));
      tree.push_back(read_node(word, features));
      if (tree.back().feature >= 0) {
        open.push_back(tree.size() - 1);
        if (open.size() > kDeepest) bad("a tree of more than {} levels", kDeepest);
      } else if (open.empty()) {
        complete = true;
      } else {
        tree[open.back()].right = static_cast<int32_t>(tree.size());
        open.pop_back();
      }
    }
    if (!complete) bad("a tree ends before its last leaf");
    return tree;
  }

  void read_end() {
    const size_t covered = at_;
    const std::string_view hash = field(next("'end'"), "end");
    const std::string expected = fmt::format("{:016x}", hash_text(text_.substr(0, covered)));
    if (hash != expected) bad("the hash of the lines above is {}, but the file says {}; it is damaged", expected, hash);
    if (at_ != text_.size()) bad("the file continues after its end");
  }

  std::string_view text_;
  const std::string& where_;
  size_t at_ = 0;
  int line_ = 0;
};

}  // namespace

TreeModel TreeModel::parse(std::string_view text, const std::string& where) { return TreeReader(text, where).read(); }

}  // namespace kilter::tune
