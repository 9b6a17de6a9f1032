// Converts a model in XGBoost's JSON format ("Introduction to Model IO" in its manual) to Kilter's trees.

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_text.h"
#include "base/text.h"
#include "tune/cost/xgboost_model.h"

namespace kilter::tune {
namespace {

using nlohmann::json;

/// "5E-1", or "[5E-1]" since release 3.
float base_score(const json& learner) {
  const auto text = learner.at("learner_model_param").at("base_score").get<std::string>();
  std::string_view number = text;
  if (number.starts_with('[') && number.ends_with(']')) number = number.substr(1, number.size() - 2);
  const auto value = try_parse_float(number);
  if (!value) fail(ErrorKind::bad_input, "base_score '{}' is not a number for one output", text);
  return static_cast<float>(*value);
}

struct Columns {
  std::vector<int32_t> left, right, feature, type, missing_left;
  std::vector<float> value;
};

Columns columns_of(const json& tree) {
  Columns c;
  tree.at("left_children").get_to(c.left);
  tree.at("right_children").get_to(c.right);
  tree.at("split_indices").get_to(c.feature);
  tree.at("split_type").get_to(c.type);
  tree.at("default_left").get_to(c.missing_left);
  tree.at("split_conditions").get_to(c.value);
  const size_t n = c.left.size();
  if (n == 0 || c.right.size() != n || c.feature.size() != n || c.type.size() != n || c.missing_left.size() != n ||
      c.value.size() != n) {
    fail(ErrorKind::bad_input, "a tree's lists are empty or of different length");
  }
  return c;
}

/// In XGBoost's order children come after their parents, so this terminates.
void append(const Columns& c, int32_t at, float sign, Tree& out) {
  const auto i = static_cast<size_t>(at);
  if (c.left[i] < 0) {
    out.push_back({-1, false, sign * c.value[i], -1});
    return;
  }
  const auto inside = [&](int32_t child) { return child > at && child < static_cast<int32_t>(c.left.size()); };
  if (!inside(c.left[i]) || !inside(c.right[i])) fail(ErrorKind::bad_input, "node {} has invalid children", at);
  if (c.type[i] != 0) fail(ErrorKind::bad_input, "node {} splits categories; expected numbers only", at);
  const size_t place = out.size();
  out.push_back({c.feature[i], c.missing_left[i] != 0, c.value[i], -1});
  append(c, c.left[i], sign, out);
  out[place].right = static_cast<int32_t>(out.size());
  append(c, c.right[i], sign, out);
}

TreeModel convert(const json& model, const std::vector<std::string>& features, Objective objective) {
  const json& learner = model.at("learner");
  const json& booster = learner.at("gradient_booster");
  if (const auto kind = booster.at("name").get<std::string>(); kind != "gbtree") {
    fail(ErrorKind::bad_input, "booster '{}'; expected gbtree", kind);
  }
  // A good rank is high in XGBoost and low here. Changing the sign is exact.
  const float sign = objective == Objective::rank ? -1.0F : 1.0F;
  TreeModel::Parts parts{features, objective, sign * base_score(learner), {}, {}};
  for (const json& tree : booster.at("model").at("trees")) {
    const Columns columns = columns_of(tree);
    append(columns, 0, sign, parts.trees.emplace_back());
  }
  return TreeModel(std::move(parts));
}

}  // namespace

TreeModel from_xgboost_json(std::string_view text, const std::vector<std::string>& features, Objective objective,
                            const std::string& where) {
  try {
    return convert(parse_json(text), features, objective);
  } catch (const json::exception& e) {
    fail(ErrorKind::bad_input, "{}: not a model in XGBoost's JSON format: {}", where, e.what());
  } catch (const Error& e) {
    fail(ErrorKind::bad_input, "{}: {}", where, e.message());
  }
}

}  // namespace kilter::tune
