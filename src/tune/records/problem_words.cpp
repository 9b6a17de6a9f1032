#include "tune/records/problem_words.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>

#include "base/error.h"
#include "base/text.h"

namespace kilter::tune {
namespace {

constexpr std::string_view kConv = "conv2d ";

constexpr std::string_view kFeeds = " => ";

/// Returns the position of the first " +" outside parentheses, after the feeder if there is one; the length if there is
/// no " +".
size_t end_of_anchor(std::string_view problem) {
  int depth = 0;
  const size_t feeds = problem.find(kFeeds);
  for (size_t i = feeds == std::string_view::npos ? 0 : feeds; i < problem.size(); ++i) {
    depth += problem[i] == '(' ? 1 : problem[i] == ')' ? -1 : 0;
    if (depth == 0 && problem.substr(i).starts_with(" +")) return i;
  }
  return problem.size();
}

struct KeyWord {
  std::string_view key, numbers;
};
KeyWord key_word(std::string_view word) {
  const size_t at = std::min(word.find_first_of("-0123456789"), word.size());
  return {word.substr(0, at), word.substr(at)};
}

std::optional<std::vector<int64_t>> numbers(std::string_view text) {
  std::vector<int64_t> all;
  for (const std::string_view part : split(text, ',')) {
    const std::optional<int64_t> value = try_parse_int(part);
    if (!value) return std::nullopt;
    all.push_back(*value);
  }
  return all;
}

ProblemShape conv_shape(std::string_view anchor) {
  constexpr std::array<std::string_view, 5> kExtents = {"n", "c", "h", "w", "k"};
  ProblemShape shape;
  std::string_view channels;
  for (const std::string_view word : split_words(anchor)) {
    const KeyWord kw = key_word(word);
    if (!shape.form.empty()) shape.form += ' ';
    const bool extent = std::find(kExtents.begin(), kExtents.end(), kw.key) != kExtents.end();
    const std::optional<int64_t> value = extent ? try_parse_int(kw.numbers) : std::nullopt;
    if (kw.key == "c") channels = kw.numbers;
    if (value) {
      shape.form += std::string(kw.key) + "#";
      shape.extents.push_back(*value);
    } else if (kw.key == "g" && kw.numbers == channels) {
      shape.form += "g=c";
    } else {
      shape.form += word;
    }
  }
  return shape;
}

/// Numbers in brackets are extents. Those of a list of values ("i64[2]=0,1") and of attributes belong to the form.
ProblemShape operand_shape(std::string_view anchor) {
  ProblemShape shape;
  size_t at = 0;
  while (at < anchor.size()) {
    const size_t open = std::min(anchor.find('[', at), anchor.size());
    shape.form += anchor.substr(at, open - at);
    const size_t close = std::min(anchor.find(']', open), anchor.size());
    if (open == anchor.size()) break;
    const auto extents = numbers(anchor.substr(open + 1, close - open - 1));
    if (extents) {
      shape.extents.insert(shape.extents.end(), extents->begin(), extents->end());
      shape.form += "[" + std::string(extents->size(), '#');
    } else {
      shape.form += anchor.substr(open, close - open);
    }
    at = close;
  }
  return shape;
}

}  // namespace

std::string_view kind_of(std::string_view problem) { return problem.substr(0, problem.find_first_of(" (")); }

bool has_kind(std::string_view problem, std::span<const std::string> ops) {
  return ops.empty() || std::ranges::find(ops, kind_of(problem)) != ops.end();
}

void require_kinds(std::span<const std::string> ops, std::span<const std::string> problems) {
  std::set<std::string> kinds;
  for (const std::string& problem : problems) kinds.emplace(kind_of(problem));
  for (const std::string& op : ops) {
    if (kinds.contains(op)) continue;
    if (kinds.empty()) fail(ErrorKind::usage, "--ops {}: this network has no tasks; leave --ops out", op);
    fail(ErrorKind::usage, "--ops {}: no task of this network is of this kind; legal values are {}", op,
         join(std::vector<std::string>(kinds.begin(), kinds.end()), ", "));
  }
}

std::string_view anchor_of(std::string_view problem) { return problem.substr(0, end_of_anchor(problem)); }

std::string_view epilogue_of(std::string_view problem) { return trim(problem.substr(end_of_anchor(problem))); }

ProblemShape shape_of(std::string_view problem) {
  const std::string_view anchor = anchor_of(problem);
  return anchor.starts_with(kConv) ? conv_shape(anchor) : operand_shape(anchor);
}

std::optional<double> shape_distance(const ProblemShape& a, const ProblemShape& b) {
  if (a.form != b.form || a.extents.size() != b.extents.size()) return std::nullopt;
  double sum = 0;
  for (size_t i = 0; i < a.extents.size(); ++i) {
    if (a.extents[i] == b.extents[i]) continue;
    if (a.extents[i] <= 0 || b.extents[i] <= 0) return std::nullopt;
    sum += std::abs(std::log2(static_cast<double>(a.extents[i]) / static_cast<double>(b.extents[i])));
  }
  return sum;
}

std::optional<ConvWords> conv_words(std::string_view problem) {
  const std::string_view anchor = anchor_of(problem);
  if (!anchor.starts_with(kConv) || anchor.find(kFeeds) != std::string_view::npos) return std::nullopt;
  std::map<std::string_view, std::vector<int64_t>> fields;
  for (const std::string_view word : split_words(anchor)) {
    const KeyWord kw = key_word(word);
    if (auto values = numbers(kw.numbers)) fields[kw.key] = std::move(*values);
  }
  ConvWords conv;
  const std::array<std::pair<const char*, int64_t*>, 7> kSingle = {
      {{"n", &conv.n}, {"c", &conv.c}, {"h", &conv.h}, {"w", &conv.w}, {"k", &conv.k}, {"r", &conv.r}, {"s", &conv.s}}};
  for (const auto& [key, value] : kSingle) {
    if (!fields.contains(key) || fields[key].size() != 1 || fields[key][0] < 1) return std::nullopt;
    *value = fields[key][0];
  }
  if (fields.contains("g")) conv.groups = std::max<int64_t>(fields["g"][0], 1);
  const auto list = [&](const char* key, std::vector<int64_t>& values) {
    if (!fields.contains(key)) return true;
    if (fields[key].size() == 1) fields[key].resize(values.size(), fields[key][0]);
    const bool fits = fields[key].size() == values.size();
    if (fits) values = fields[key];
    return fits;
  };
  if (!list("stride", conv.stride) || !list("pad", conv.pad) || !list("dil", conv.dilation)) return std::nullopt;
  if (conv.stride[0] < 1 || conv.stride[1] < 1) return std::nullopt;
  return conv;
}

}  // namespace kilter::tune
