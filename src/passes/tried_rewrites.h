// The outcomes of rewrites, for `--dump-ir`.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>

namespace kilter {

/// The outcomes of the rewrites that a pass tried on each node.
class TriedRewrites {
 public:
  /// Records that a rewrite was applied to a node, or why it was not. No reason is recorded if `why_not` is empty, or
  /// if the rewrite has been applied to a node of this name.
  void add(const std::string& node, const std::string& rewrite, bool applied, std::string_view why_not);
  /// Returns a line for each node and rewrite, ordered by node, and discards the outcomes.
  std::string take_text();

 private:
  std::map<std::pair<std::string, std::string>, std::string> outcomes_;  ///< by node and rewrite
};

}  // namespace kilter
