#include <algorithm>
#include <set>

#include "ops/support/operands.h"
#include "ops/support/strings.h"
#include "ops/support/utf8.h"

namespace kilter {
namespace {

/// Returns the texts that stay, in their new case; one empty text if none does.
std::vector<std::string> normalised(const Node& node, const Tensor& x) {
  const std::string action = node.string_attr("case_change_action", "NONE");
  const Alphabet alphabet = alphabet_of(node.string_attr("locale", "en_US"));
  const bool exact = node.int_attr("is_case_sensitive", 0) != 0;
  if (action != "NONE" && action != "LOWER" && action != "UPPER") {
    node_error(node,
               fmt::format("attribute case_change_action is '{}'; legal values are NONE, LOWER and UPPER", action));
  }
  const auto key = [&](const std::string& text) { return exact ? text : lower_case(text, alphabet); };
  std::set<std::string> stops;
  for (const std::string& word : strings_attr(node, "stopwords")) stops.insert(key(word));
  std::vector<std::string> kept;
  for (const std::string& text : x.strings()) {
    if (stops.contains(key(text))) continue;
    kept.push_back(action == "LOWER"   ? lower_case(text, alphabet)
                   : action == "UPPER" ? upper_case(text, alphabet)
                                       : text);
  }
  if (kept.empty()) kept.emplace_back();
  return kept;
}

void infer(InferContext& ctx) {
  check_strings(ctx, 0);
  Shape shape = ctx.shape(0);
  if (shape.empty() || shape.size() > 2 || (shape.size() == 2 && shape[0] != 1)) {
    ctx.error(fmt::format("input 0 has shape {}, expected [C] or [1, C]", text(shape)));
  }
  shape.back() = static_cast<int64_t>(normalised(ctx.node, ctx.needed(0)).size());
  set_same_dtype(ctx, std::move(shape));
}

void reference(ReferenceContext& ctx) { ctx.out().strings() = normalised(ctx.node, ctx.in(0)); }

}  // namespace

KILTER_OP(StringNormalizer){
    .name = "StringNormalizer",
    .since = 10,
    .attrs = {{"case_change_action", "string", "NONE"},
              {"is_case_sensitive", "int", "0"},
              {"locale", "string", "en_US"},
              {"stopwords", "strings", ""}},
    .summary =
        "y = the texts of x [C] or [1, C] without those in stopwords, in lower or upper case if requested; one empty "
        "text if none is left. The shape depends on the data.",
    .infer = infer,
    .reference = reference,
    .shape_operands = {0},
    .tolerance = {.rtol = 0, .atol = 0},
    .cases = {"str[4]=\"Monday\",\"tuesday\",\"MONDAY\",\"x\" | case_change_action=UPPER stopwords=[monday]",
              "str[1,3]=\"Monday\",\"tuesday\",\"monday\" | case_change_action=LOWER is_case_sensitive=1 "
              "stopwords=[monday]",
              "str[2]=\"a\",\"a\" | stopwords=[A]", "str[0]="},
};

}  // namespace kilter
