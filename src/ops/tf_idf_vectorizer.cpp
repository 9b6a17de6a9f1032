#include <algorithm>
#include <map>
#include <variant>

#include "ops/support/elementwise.h"
#include "ops/support/operands.h"
#include "ops/support/strings.h"

namespace kilter {
namespace {

using Token = std::variant<int64_t, std::string>;

/// The n-grams of the attributes: texts or integers, with the position of each one in the list of all n-grams.
struct Pool {
  std::map<std::vector<Token>, size_t> position;
  std::vector<int64_t> column;  ///< by position: the element of the output
  std::vector<float> weight;    ///< by position; empty: all 1
  int64_t columns = 0;
  bool of_texts = false;
  int64_t shortest = 0;
  int64_t longest = 0;  ///< at most the length of the longest n-gram in the pool
};

std::vector<Token> tokens_of(const Node& node, Pool& pool) {
  const std::vector<std::string> texts = strings_attr(node, "pool_strings");
  const std::vector<int64_t> numbers = node.ints_attr("pool_int64s");
  if (texts.empty() == numbers.empty()) {
    node_error(node, fmt::format("pool_strings has {} elements and pool_int64s has {}; exactly one must have some",
                                 texts.size(), numbers.size()));
  }
  pool.of_texts = !texts.empty();
  return pool.of_texts ? std::vector<Token>(texts.begin(), texts.end())
                       : std::vector<Token>(numbers.begin(), numbers.end());
}

/// Reads the n-grams: ngram_counts has the start in the pool of those of length 1, 2, ...
void read_ngrams(const Node& node, const std::vector<Token>& tokens, Pool& pool) {
  const std::vector<int64_t> starts = node.ints_attr("ngram_counts");
  size_t next = 0;
  for (size_t i = 0; i < starts.size(); ++i) {
    const int64_t end = i + 1 < starts.size() ? starts[i + 1] : static_cast<int64_t>(tokens.size());
    const auto length = static_cast<int64_t>(i + 1);
    if (starts[i] < 0 || end < starts[i] || end > static_cast<int64_t>(tokens.size()) ||
        (end - starts[i]) % length != 0) {
      node_error(node, fmt::format("ngram_counts puts the n-grams of length {} at [{}, {}) of a pool of {}; it must "
                                   "give ascending starts, with a multiple of {} elements between them",
                                   length, starts[i], end, tokens.size(), length));
    }
    for (int64_t at = starts[i]; at < end; at += length) {
      pool.position[{tokens.begin() + at, tokens.begin() + at + length}] = next++;
    }
  }
  check_count(node, "ngram_indexes, one for each n-gram of the pool", next, pool.column.size());
  pool.longest = std::min(pool.longest, static_cast<int64_t>(starts.size()));
}

Pool pool_of(const Node& node) {
  Pool pool;
  const std::vector<Token> tokens = tokens_of(node, pool);
  pool.column = node.ints_attr("ngram_indexes");
  pool.shortest = node.int_attr("min_gram_length", 1);
  pool.longest = node.int_attr("max_gram_length", 1);
  if (pool.shortest < 1 || pool.longest < pool.shortest) {
    node_error(node, fmt::format("min_gram_length is {} and max_gram_length {}; expected 1 <= min <= max",
                                 pool.shortest, pool.longest));
  }
  read_ngrams(node, tokens, pool);
  for (int64_t column : pool.column) {
    if (column < 0) node_error(node, fmt::format("ngram_indexes has {}; every index must be 0 or more", column));
    pool.columns = std::max(pool.columns, checked_add(node, column, 1));
  }
  const std::string mode = node.string_attr("mode", "");
  if (mode != "TF" && mode != "IDF" && mode != "TFIDF") {
    node_error(node, fmt::format("attribute mode is '{}'; legal values are TF, IDF and TFIDF", mode));
  }
  if (mode != "TF") pool.weight = node.floats_attr("weights");
  if (!pool.weight.empty()) check_count(node, "weights", pool.column.size(), pool.weight.size());
  if (node.int_attr("max_skip_count", 0) < 0) {
    node_error(node,
               fmt::format("attribute max_skip_count is {}; expected 0 or more", node.int_attr("max_skip_count", 0)));
  }
  return pool;
}

void infer(InferContext& ctx) {
  const Pool pool = pool_of(ctx.node);
  const DType type = ctx.dtype(0);
  if (pool.of_texts ? type != DType::string : type != DType::i32 && type != DType::i64) {
    ctx.error(fmt::format("input 0 has element type {}, expected {} to match the pool", name(type),
                          pool.of_texts ? "str" : "i32 or i64"));
  }
  if (ctx.rank(0) < 1 || ctx.rank(0) > 2) {
    ctx.error(fmt::format("input 0 has shape {}, expected [C] or [N, C]", text(ctx.shape(0))));
  }
  Shape shape = ctx.shape(0);
  shape.back() = pool.columns;
  check_shape(ctx.node, shape);
  ctx.set(0, DType::f32, std::move(shape));
}

std::vector<Token> elements_of(const Tensor& x) {
  if (x.dtype() == DType::string) return {x.strings().begin(), x.strings().end()};
  const std::vector<int64_t> values = x.ints();
  return {values.begin(), values.end()};
}

/// Calls found(position) for each n-gram of the pool in the row, as often as it occurs: with tokens that are 1, 2, ...,
/// skips + 1 places apart.
template <class F>
void find_ngrams(const Pool& pool, std::span<const Token> row, int64_t skips, F&& found) {
  const auto count = static_cast<int64_t>(row.size());
  for (int64_t length = pool.shortest; length <= pool.longest; ++length) {
    const int64_t most = length == 1 ? 1 : std::min(skips, count) + 1;
    for (int64_t distance = 1; distance <= most; ++distance) {
      const int64_t extent = (length - 1) * distance;
      std::vector<Token> gram(static_cast<size_t>(length));
      for (int64_t start = 0; start + extent < count; ++start) {
        for (int64_t i = 0; i < length; ++i) {
          gram[static_cast<size_t>(i)] = row[static_cast<size_t>(start + i * distance)];
        }
        if (const auto at = pool.position.find(gram); at != pool.position.end()) found(at->second);
      }
    }
  }
}

void reference(ReferenceContext& ctx) {
  const Pool pool = pool_of(ctx.node);
  const std::vector<Token> tokens = elements_of(ctx.in(0));
  const auto width = static_cast<size_t>(ctx.in(0).shape().back());
  const size_t rows = ctx.in(0).rank() == 1 ? 1 : static_cast<size_t>(ctx.in(0).shape()[0]);
  const bool once = ctx.node.string_attr("mode", "") == "IDF";
  auto* out = ctx.out().data<float>();
  for (size_t row = 0; row < rows; ++row, out += pool.columns) {
    std::vector<int64_t> seen(pool.column.size(), 0);
    find_ngrams(pool, std::span(tokens).subspan(row * width, width), ctx.node.int_attr("max_skip_count", 0),
                [&](size_t position) { ++seen[position]; });
    for (size_t i = 0; i < seen.size(); ++i) {
      const auto times = static_cast<float>(once ? std::min<int64_t>(seen[i], 1) : seen[i]);
      out[pool.column[i]] += times * (pool.weight.empty() ? 1.0F : pool.weight[i]);
    }
  }
}

}  // namespace

KILTER_OP(TfIdfVectorizer){
    .name = "TfIdfVectorizer",
    .since = 9,
    .attrs = {{"max_gram_length", "int", "required"},
              {"max_skip_count", "int", "required"},
              {"min_gram_length", "int", "required"},
              {"mode", "string", "required"},
              {"ngram_counts", "ints", "required"},
              {"ngram_indexes", "ints", "required"},
              {"pool_int64s", "ints", ""},
              {"pool_strings", "strings", ""},
              {"weights", "floats", ""}},
    .summary =
        "y [..., columns]: how often each n-gram of the pool occurs in x [C] or [N, C], also with up to max_skip_count "
        "tokens left out between its tokens, in the columns ngram_indexes; scaled by weights (TFIDF), or the weight "
        "alone if it occurs (IDF).",
    .infer = infer,
    .reference = reference,
    .cases = {"i32[12]:1,1,3,3,3,7,8,6,7,5,6,8 | max_gram_length=2 max_skip_count=5 min_gram_length=1 mode=TF "
              "ngram_counts=[0,4] ngram_indexes=[0,1,2,3,4,5,6] pool_int64s=[2,3,5,4,5,6,7,8,6,7]",
              "str[2,3]:\"a\",\"b\",\"a\",\"b\",\"b\",\"c\" | max_gram_length=2 max_skip_count=0 min_gram_length=2 "
              "mode=TFIDF ngram_counts=[0,2] ngram_indexes=[3,0,1,2] pool_strings=[a,b,a,b,b,c] "
              "weights=[1.0,2.0,3.0,0.5]",
              "i64[0] | max_gram_length=1 max_skip_count=0 min_gram_length=1 mode=IDF ngram_counts=[0] "
              "ngram_indexes=[1] pool_int64s=[7]"},
};

}  // namespace kilter
