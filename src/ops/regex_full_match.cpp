#include <re2/re2.h>

#include "ops/support/strings.h"

namespace kilter {
namespace {

/// The compiled pattern. Throws bad_model with the reason if attribute `pattern` is not RE2 syntax.
class Pattern {
 public:
  explicit Pattern(const Node& node) : re2_(node.string_attr("pattern", ""), quiet()) {
    if (re2_.ok()) return;
    node_error(node, fmt::format("attribute pattern '{}' is not a regular expression of RE2: {}", re2_.pattern(),
                                 re2_.error()));
  }
  bool matches(const std::string& text) const { return RE2::FullMatch(text, re2_); }

 private:
  static RE2::Options quiet() {
    RE2::Options options;
    options.set_log_errors(false);
    return options;
  }
  RE2 re2_;
};

void infer(InferContext& ctx) {
  check_strings(ctx, 0);
  const Pattern checked(ctx.node);
  ctx.set(0, DType::boolean, ctx.shape(0));
}

void reference(ReferenceContext& ctx) {
  const Pattern pattern(ctx.node);
  bool* out = ctx.out().data<bool>();
  for (const std::string& text : ctx.in(0).strings()) *out++ = pattern.matches(text);
}

}  // namespace

KILTER_OP(RegexFullMatch){
    .name = "RegexFullMatch",
    .since = 20,
    .attrs = {{"pattern", "string", ""}},
    .summary = "y = whether the whole text matches the regular expression `pattern`, in the syntax of RE2.",
    .infer = infer,
    .reference = reference,
    .tolerance = {.rtol = 0, .atol = 0},
    .cases = {"str[3]:\"www.google.com\",\"www.facebook.com\",\"www.bbc.co.uk\" | pattern=www[.][\\w.-]+[.]com",
              "str[2,2]:\"a\",\"\",\"b\",\"ab\" | pattern=[ab]?", "str[0]", "str[]"},
};

}  // namespace kilter
