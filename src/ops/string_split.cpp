#include <algorithm>
#include <limits>

#include "ops/support/operands.h"
#include "ops/support/strings.h"
#include "ops/support/utf8.h"

namespace kilter {
namespace {

/// The place where a text is cut, and where the rest begins after it.
struct Cut {
  size_t end;   ///< of the part before the separator
  size_t next;  ///< first byte after the separator
};

/// Returns the end of the run of white space (or of other characters, if `white` is false) that begins at byte `at`.
size_t end_of_run(std::string_view text, size_t at, bool white) {
  while (at < text.size()) {
    const Character c = character_at(text, at);
    if ((c.valid && is_white_space(c.code)) != white) break;
    at += c.bytes;
  }
  return at;
}

/// Returns the first cut in text; end is npos if there is none. An empty delimiter stands for runs of white space.
Cut first_cut(std::string_view text, std::string_view delimiter) {
  if (delimiter.empty()) {
    const size_t end = end_of_run(text, 0, false);
    return {end == text.size() ? std::string_view::npos : end, end_of_run(text, end, true)};
  }
  const size_t end = text.find(delimiter);
  return {end, end == std::string_view::npos ? end : end + delimiter.size()};
}

/// Returns the parts of text, after at most `most` cuts from the left. White space at both ends separates nothing.
std::vector<std::string_view> parts_of(std::string_view text, std::string_view delimiter, int64_t most) {
  std::vector<std::string_view> parts;
  if (delimiter.empty()) text.remove_prefix(end_of_run(text, 0, true));
  while (!delimiter.empty() || !text.empty()) {
    const Cut cut = first_cut(text, delimiter);
    if (cut.end == std::string_view::npos || static_cast<int64_t>(parts.size()) == most) {
      parts.push_back(text);
      break;
    }
    parts.push_back(text.substr(0, cut.end));
    text.remove_prefix(cut.next);
  }
  return parts;
}

std::vector<std::vector<std::string_view>> all_parts(const Node& node, const Tensor& x) {
  const std::string delimiter = node.string_attr("delimiter", "");
  const int64_t asked = node.int_attr("maxsplit", -1);
  const int64_t most = asked < 0 ? std::numeric_limits<int64_t>::max() : asked;
  std::vector<std::vector<std::string_view>> parts;
  for (const std::string& text : x.strings()) parts.push_back(parts_of(text, delimiter, most));
  return parts;
}

void infer(InferContext& ctx) {
  check_strings(ctx, 0);
  size_t most = 0;
  for (const auto& parts : all_parts(ctx.node, ctx.needed(0))) most = std::max(most, parts.size());
  Shape shape = ctx.shape(0);
  shape.push_back(static_cast<int64_t>(most));
  set_same_dtype(ctx, std::move(shape));
  if (ctx.outputs.size() > 1) ctx.set(1, DType::i64, ctx.shape(0));
}

void reference(ReferenceContext& ctx) {
  const auto all = all_parts(ctx.node, ctx.in(0));
  const auto most = static_cast<size_t>(ctx.wants(0) ? ctx.out().shape().back() : 0);
  for (size_t i = 0; i < all.size(); ++i) {
    if (ctx.wants(0)) std::copy(all[i].begin(), all[i].end(), ctx.out().strings().begin() + i * most);
    if (ctx.wants(1)) ctx.out(1).data<int64_t>()[i] = static_cast<int64_t>(all[i].size());
  }
}

}  // namespace

KILTER_OP(StringSplit){
    .name = "StringSplit",
    .since = 20,
    .max_outputs = 2,
    .attrs = {{"delimiter", "string", ""}, {"maxsplit", "int", ""}},
    .summary =
        "y [..., parts] = each text of x, cut at every delimiter or, without one, at runs of white space, at most "
        "maxsplit times and filled up with empty texts; output 1: the number of parts. The shape depends on the data.",
    .infer = infer,
    .reference = reference,
    .shape_operands = {0},
    .tolerance = {.rtol = 0, .atol = 0},
    .cases = {"str[2]=\"a,b,,c\",\"\" | delimiter=\",\" | | 2", "str[2,1]=\" hello  world \",\"\" | | | 2",
              "str[2]=\"1::2::3\",\"4\" | delimiter=\"::\" maxsplit=1 | | 2", "str[0]= | | | 2", "str[]=\"  \""},
};

}  // namespace kilter
