// Operators on strings: results from their definitions, UTF-8, and errors.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "../base/error_of.h"
#include "ops/support/builder.h"
#include "ops/support/evaluate.h"
#include "ops/support/utf8.h"

namespace kilter {
namespace {

using Texts = std::vector<std::string>;
using Ints = std::vector<int64_t>;

Tensor texts(const Shape& shape, const Texts& values) {
  Tensor tensor(DType::string, shape);
  tensor.strings() = values;
  return tensor;
}
Tensor texts(const Texts& values) { return texts({static_cast<int64_t>(values.size())}, values); }

/// Returns all outputs for constant inputs.
std::vector<Tensor> outputs_of(std::string_view op, const std::vector<Tensor>& inputs, Attrs attrs = {},
                               size_t count = 1) {
  Graph graph;
  GraphBuilder builder(graph);
  std::vector<ValueId> ids;
  for (const Tensor& input : inputs) ids.push_back(builder.constant(input));
  GraphBuilder::Options options;
  options.name = "n";
  for (size_t i = 0; i < count; ++i) options.output_names.push_back("out" + std::to_string(i));
  for (const ValueId id : builder.add(op, ids, std::move(attrs), options)) graph.add_output(id, graph.value(id).name);
  return evaluate(graph, {});
}
Tensor value_of(std::string_view op, const std::vector<Tensor>& inputs, Attrs attrs = {}) {
  return outputs_of(op, inputs, std::move(attrs))[0];
}
void expect_texts(const Tensor& got, const Shape& shape, const Texts& want) {
  EXPECT_EQ(got.shape(), shape);
  EXPECT_EQ(got.strings(), want);
}

TEST(Strings, SplitsAtDelimitersOrWhiteSpace) {
  const auto split = [](const Texts& x, Attrs attrs) {
    return outputs_of("StringSplit", {texts(x)}, std::move(attrs), 2);
  };
  std::vector<Tensor> y = split({"a,b,,c", "", ","}, {{"delimiter", std::string(",")}});
  expect_texts(y[0], {3, 4}, {"a", "b", "", "c", "", "", "", "", "", "", "", ""});
  EXPECT_EQ(y[1].ints(), (Ints{4, 1, 2}));
  y = split({" a \t b\xe3\x80\x80"
             "c\n",
             " ", "d"},
            {});
  expect_texts(y[0], {3, 3}, {"a", "b", "c", "", "", "", "d", "", ""});
  EXPECT_EQ(y[1].ints(), (Ints{3, 0, 1}));
  y = split({"1::2::3", "4"}, {{"delimiter", std::string("::")}, {"maxsplit", int64_t{1}}});
  expect_texts(y[0], {2, 2}, {"1", "2::3", "4", ""});
  y = split({" a  b  c "}, {{"maxsplit", int64_t{1}}});
  expect_texts(y[0], {1, 2}, {"a", "b  c "});
  expect_texts(split({"a b"}, {{"maxsplit", int64_t{0}}})[0], {1, 1}, {"a b"});
  expect_texts(split({}, {})[0], {0, 0}, {});
}

TEST(Strings, NormalizerDropsStopWordsAndChangesCase) {
  const auto normal = [](const Tensor& x, const std::string& action, int64_t exact, const Texts& stops,
                         const std::string& locale = "en_US") {
    return value_of(
        "StringNormalizer", {x},
        {{"case_change_action", action}, {"is_case_sensitive", exact}, {"stopwords", stops}, {"locale", locale}});
  };
  const Tensor x = texts({"Monday", "Tuesday", "MONDAY"});
  expect_texts(normal(x, "LOWER", 0, {"monday"}), {1}, {"tuesday"});
  expect_texts(normal(x, "UPPER", 1, {"Monday"}), {2}, {"TUESDAY", "MONDAY"});
  expect_texts(normal(texts({1, 2}, {"a", "b"}), "NONE", 1, {"a", "b"}), {1, 1}, {""});
  expect_texts(normal(texts({"Ärger", "ΣΊΣΥΦΟΣ", "Ж", "ß"}), "LOWER", 0, {}), {4}, {"ärger", "σίσυφοσ", "ж", "ß"});
  expect_texts(normal(texts({"ärger", "ÿ", "ǆ", "\xff"}), "UPPER", 0, {}), {4}, {"ÄRGER", "Ÿ", "Ǆ", "\xff"});
  expect_texts(normal(texts({"Iı", "iİ"}), "LOWER", 0, {}, "tr_TR.UTF-8"), {2}, {"ıı", "ii"});
  expect_texts(normal(texts({"iı"}), "UPPER", 0, {}, "tr"), {1}, {"İI"});
  EXPECT_EQ(error_of([&] { normal(x, "TITLE", 0, {}); }, ErrorKind::bad_model),
            "StringNormalizer 'n': attribute case_change_action is 'TITLE'; legal values are NONE, LOWER and UPPER");
  EXPECT_EQ(error_of([&] { normal(texts({2, 1}, {"a", "b"}), "NONE", 0, {}); }, ErrorKind::bad_model),
            "StringNormalizer 'n': input 0 has shape 2x1, expected [C] or [1, C]");
}

TEST(Strings, CaseMappingsFollowUnicode) {
  int pairs = 0;
  for (char32_t code = 1; code < 0x20000; ++code) {
    if (code >= 0xd800 && code < 0xe000) continue;
    std::string text;
    append_character(text, code);
    ASSERT_TRUE(character_at(text, 0).code == code) << static_cast<uint32_t>(code);
    const std::string small = lower_case(text);
    if (small != text && upper_case(small) == text) ++pairs;
    EXPECT_EQ(lower_case(small), small) << static_cast<uint32_t>(code);
    EXPECT_EQ(upper_case(upper_case(text)), upper_case(text)) << static_cast<uint32_t>(code);
  }
  EXPECT_EQ(pairs, 1423);
}

TEST(Strings, InvalidUtf8IsUnchanged) {
  for (const std::string& text : Texts{"\x80", "\xc3", "\xe2\x82", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xc0\xaf"}) {
    EXPECT_FALSE(character_at(text, 0).valid);
    EXPECT_EQ(upper_case("a" + text + "b"), "A" + text + "B");
  }
}

TEST(Strings, ConcatBroadcasts) {
  expect_texts(value_of("StringConcat", {texts({2, 1}, {"a", "b"}), texts({"x", "y"})}), {2, 2},
               {"ax", "ay", "bx", "by"});
  EXPECT_EQ(error_of([] { value_of("StringConcat", {texts({"a"}), Tensor::scalar(1.0F)}); }, ErrorKind::bad_model),
            "StringConcat 'n': input 1 has element type f32, expected str");
}

TEST(Strings, RegularExpressionsMatchWholeTexts) {
  const auto match = [](const std::string& pattern) {
    return value_of("RegexFullMatch", {texts({"abc", "abcd", "", "ab\nc"})}, {{"pattern", pattern}}).ints();
  };
  EXPECT_EQ(match("abc"), (Ints{1, 0, 0, 0}));
  EXPECT_EQ(match("a.*"), (Ints{1, 1, 0, 0}));
  EXPECT_EQ(match("(?s)a.*"), (Ints{1, 1, 0, 1}));
  EXPECT_EQ(match(""), (Ints{0, 0, 1, 0}));
  EXPECT_EQ(error_of([&] { match("(a"); }, ErrorKind::bad_model),
            "RegexFullMatch 'n': attribute pattern '(a' is not a regular expression of RE2: missing ): (a");
}

Attrs vectorizer(const std::string& mode, int64_t shortest, int64_t longest, int64_t skips) {
  return {{"mode", mode},
          {"min_gram_length", shortest},
          {"max_gram_length", longest},
          {"max_skip_count", skips},
          {"ngram_counts", Ints{0, 2}},
          {"ngram_indexes", Ints{2, 0, 1}},
          {"pool_strings", Texts{"a", "b", "a", "b"}}};  // a, b, and a b
}

TEST(Strings, NgramsAreCountedWithSkipsAndWeights) {
  const Tensor x = texts({"a", "c", "b", "a", "b"});
  const auto count = [&](Attrs attrs) {
    const Tensor y = value_of("TfIdfVectorizer", {x}, std::move(attrs));
    return std::vector<float>(y.data<float>(), y.data<float>() + y.elems());
  };
  // Output: the counts of b, of a b, and of a.
  EXPECT_EQ(count(vectorizer("TF", 1, 2, 0)), (std::vector<float>{2, 1, 2}));
  EXPECT_EQ(count(vectorizer("TF", 2, 2, 1)), (std::vector<float>{0, 2, 0}));
  EXPECT_EQ(count(vectorizer("TF", 2, 2, 1000000)), (std::vector<float>{0, 3, 0}));
  Attrs weighted = vectorizer("TFIDF", 1, 2, 0);
  weighted["weights"] = std::vector<float>{0.5F, 2, 3};
  EXPECT_EQ(count(weighted), (std::vector<float>{4, 3, 1}));
  weighted["mode"] = std::string("IDF");
  EXPECT_EQ(count(weighted), (std::vector<float>{2, 3, 0.5F}));
  const Tensor rows = value_of("TfIdfVectorizer", {texts({2, 2}, {"a", "b", "b", "b"})}, vectorizer("TF", 1, 2, 0));
  EXPECT_EQ(rows.shape(), (Shape{2, 3}));
  EXPECT_EQ(rows.ints(), (Ints{1, 1, 1, 2, 0, 0}));
}

TEST(Strings, WrongNgramPoolsAreErrors) {
  const auto error = [](Attrs attrs, const Tensor& x = texts({"a"})) {
    return error_of([&] { value_of("TfIdfVectorizer", {x}, std::move(attrs)); }, ErrorKind::bad_model);
  };
  Attrs attrs = vectorizer("TF", 1, 2, 0);
  EXPECT_EQ(error(attrs, Tensor::of<int64_t>({1}, {1})),
            "TfIdfVectorizer 'n': input 0 has element type i64, expected str to match the pool");
  attrs["pool_int64s"] = Ints{1};
  EXPECT_EQ(error(attrs),
            "TfIdfVectorizer 'n': pool_strings has 4 elements and pool_int64s has 1; exactly one must have some");
  EXPECT_EQ(error(vectorizer("TF", 2, 1, 0)),
            "TfIdfVectorizer 'n': min_gram_length is 2 and max_gram_length 1; expected 1 <= min <= max");
  EXPECT_EQ(error(vectorizer("DF", 1, 1, 0)),
            "TfIdfVectorizer 'n': attribute mode is 'DF'; legal values are TF, IDF and TFIDF");
  EXPECT_EQ(error(vectorizer("TF", 1, 1, -1)),
            "TfIdfVectorizer 'n': attribute max_skip_count is -1; expected 0 or more");
  attrs = vectorizer("TF", 1, 2, 0);
  attrs["ngram_counts"] = Ints{0, 3};
  EXPECT_EQ(error(attrs),
            "TfIdfVectorizer 'n': ngram_counts puts the n-grams of length 2 at [3, 4) of a pool of 4; it must give "
            "ascending starts, with a multiple of 2 elements between them");
  attrs = vectorizer("TF", 1, 2, 0);
  attrs["ngram_indexes"] = Ints{0, 1, -2};
  EXPECT_EQ(error(attrs), "TfIdfVectorizer 'n': ngram_indexes has -2; every index must be 0 or more");
}

TEST(Strings, MovementOperatorsAcceptStrings) {
  const Tensor x = texts({2, 3}, {"a", "b", "c", "d", "e", "f"});
  const auto list = [](const Ints& values) {
    return Tensor::of<int64_t>({static_cast<int64_t>(values.size())}, values);
  };
  expect_texts(value_of("Reshape", {x, list({3, 2})}), {3, 2}, x.strings());
  expect_texts(value_of("Flatten", {x}, {{"axis", int64_t{0}}}), {1, 6}, x.strings());
  expect_texts(value_of("Transpose", {x}), {3, 2}, {"a", "d", "b", "e", "c", "f"});
  expect_texts(value_of("Gather", {x, list({2, 0})}, {{"axis", int64_t{1}}}), {2, 2}, {"c", "a", "f", "d"});
  expect_texts(value_of("GatherElements", {x, Tensor::of<int64_t>({1, 2}, {1, 0})}), {1, 2}, {"d", "b"});
  expect_texts(value_of("GatherND", {x, Tensor::of<int64_t>({1, 2}, {1, 2})}), {1}, {"f"});
  expect_texts(value_of("ScatterND", {x, Tensor::of<int64_t>({1, 1}, {1}), texts({1, 3}, {"x", "y", "z"})}), {2, 3},
               {"a", "b", "c", "x", "y", "z"});
  expect_texts(value_of("ScatterElements", {x, Tensor::of<int64_t>({1, 1}, {1}), texts({1, 1}, {"x"})}), {2, 3},
               {"a", "b", "c", "x", "e", "f"});
  expect_texts(value_of("Concat", {x, texts({2, 1}, {"x", "y"})}, {{"axis", int64_t{1}}}), {2, 4},
               {"a", "b", "c", "x", "d", "e", "f", "y"});
  expect_texts(value_of("Slice", {x, list({2}), list({0}), list({1}), list({-2})}), {2, 1}, {"c", "f"});
  expect_texts(value_of("Expand", {texts({1, 2}, {"a", "b"}), list({2, 2})}), {2, 2}, {"a", "b", "a", "b"});
  expect_texts(value_of("Tile", {texts({"a", "b"}), list({2})}), {4}, {"a", "b", "a", "b"});
  expect_texts(value_of("Pad", {texts({"a"}), list({1, 0}), texts({}, {"p"})}), {2}, {"p", "a"});
  expect_texts(value_of("Compress", {x, Tensor::of<bool>({2}, {false, true})}, {{"axis", int64_t{0}}}), {1, 3},
               {"d", "e", "f"});
  expect_texts(value_of("Squeeze", {texts({1, 1}, {"a"})}), {}, {"a"});
  expect_texts(value_of("Unsqueeze", {texts({"a"}), list({0})}), {1, 1}, {"a"});
  expect_texts(value_of("Identity", {x}), {2, 3}, x.strings());
  expect_texts(value_of("ReverseSequence", {texts({2, 1}, {"a", "b"}), list({2})}), {2, 1}, {"b", "a"});
  expect_texts(value_of("DepthToSpace", {texts({1, 4, 1, 1}, {"a", "b", "c", "d"})}, {{"blocksize", int64_t{2}}}),
               {1, 1, 2, 2}, {"a", "b", "c", "d"});
  EXPECT_EQ(value_of("Shape", {x}).ints(), (Ints{2, 3}));
}

TEST(Strings, ComparesChoosesAndConverts) {
  const Tensor x = texts({"b", "a", "b"});
  EXPECT_EQ(value_of("Equal", {x, texts({"b"})}).ints(), (Ints{1, 0, 1}));
  expect_texts(value_of("Where", {Tensor::of<bool>({3}, {true, false, false}), x, texts({"z"})}), {3}, {"b", "z", "z"});
  expect_texts(value_of("OneHot", {Tensor::of<int64_t>({1}, {1}), Tensor::scalar<int64_t>(2), texts({"off", "on"})}),
               {1, 2}, {"off", "on"});
  const std::vector<Tensor> unique = outputs_of("Unique", {x}, {}, 4);
  expect_texts(unique[0], {2}, {"a", "b"});
  EXPECT_EQ(unique[2].ints(), (Ints{1, 0, 1}));
  EXPECT_EQ(value_of("Cast", {texts({"1", " -7"})}, {{"to", int64_t{7}}}).ints(), (Ints{1, -7}));
  expect_texts(value_of("CastLike", {Tensor::of<int64_t>({2}, {1, -7}), texts({""})}), {2}, {"1", "-7"});
}

}  // namespace
}  // namespace kilter
