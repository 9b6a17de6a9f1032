#include "schedule/problem/problem.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>
#include <span>

#include "base/random.h"
#include "base/text.h"
#include "graph/values.h"
#include "ops/support/builder.h"

namespace kilter {
namespace {

/// A part of the line; its address gives its column.
using Word = std::string_view;

struct Call {
  Word name;
  std::vector<Word> parts;  ///< between the parentheses
  Word head;                ///< for conv2d: everything up to the first "+"
};

/// Weights of unit gain, factors of about 0.003 if f64, and zeros for other types. Values repeat, since drawing
/// hundreds of millions takes seconds.
Tensor weights(DType type, const Shape& shape, uint64_t seed) {
  constexpr int64_t kDrawn = 1 << 18;
  Tensor t(type, shape);
  if (type == DType::f64) {
    const Random random(seed);
    const std::span<double> all = t.span<double>();
    for (size_t i = 0; i < all.size(); ++i) all[i] = 0.002 + 0.002 * random.uniform(i);
    return t;
  }
  if (type != DType::f32) {
    std::memset(t.raw(), 0, static_cast<size_t>(t.bytes()));
    return t;
  }
  int64_t fan_in = 1;
  if (shape.size() == 2) fan_in = shape[0];
  if (shape.size() > 2) fan_in = elems(shape) / shape[0];
  const std::span<float> all = t.span<float>();
  const auto drawn = static_cast<size_t>(std::min(t.elems(), kDrawn));
  Random(seed).fill_normal(all.first(drawn), 1 / std::sqrt(static_cast<float>(std::max<int64_t>(fan_in, 1))));
  for (size_t i = drawn; i < all.size(); ++i) all[i] = all[i - drawn];
  return t;
}

class ProblemParser {
 public:
  explicit ProblemParser(std::string_view line) : line_(line), builder_(graph_) { builder_.fold_limit = -1; }

  Problem run() {
    constexpr Word kFeeds = " => ";
    take_result();
    const size_t feeds = Word(line_).find(kFeeds);
    const bool fed = feeds != Word::npos;
    std::string name;
    try {
      if (fed) part(split_calls(0, feeds), kNone, "feeder");
      const ValueId x = fed ? made_.back() : kNone;
      made_.clear();
      name = graph_.node(part(split_calls(fed ? feeds + kFeeds.size() : 0, line_.size()), x, "conv")).name;
    } catch (const ShapeNeedsValue& needs) {
      fail(ErrorKind::bad_input, "problem '{}': the shape of {} depends on values that the line does not have", line_,
           needs.node);
    } catch (const Error& e) {
      if (e.kind() != ErrorKind::bad_model) throw;
      fail(ErrorKind::bad_input, "problem '{}': {}", line_, e.message());
    }
    graph_.name = line_;
    // If a reduction follows a convolution, its input is also stored.
    if (made_.size() > 1 && graph_.node(graph_.value(made_.back()).producer).op->family == Family::reduce)
      graph_.add_output(made_[made_.size() - 2], "x");
    graph_.add_output(made_.back(), "y");
    if (stores_) {
      for (const Graph::Output& output : graph_.outputs()) stored_.emplace(output.name, *stores_);
    }
    return {std::move(graph_), std::move(name), std::move(stored_), fed};
  }

 private:
  /// Removes " >bf16", " >f16" or " >u8+3" from the end of the line.
  void take_result() {
    const size_t at = line_.rfind(" >");
    if (at == std::string::npos) return;
    const Word type = Word(line_).substr(at + 2);
    stores_ = storage(type);
    if (!stores_) error(type, "bf16, f16, or u8 with a zero point such as u8+3");
    line_.resize(at);
  }

  /// How values are stored: in bf16 or f16, but only one of them in a line, or in u8.
  std::optional<Layout> storage(Word text) {
    Layout layout;
    if (!parse_stored(text, layout)) return std::nullopt;
    if (layout.stored == DType::u8) return layout;
    if (!float_) float_ = layout.stored;
    return float_ == layout.stored ? std::optional(layout) : std::nullopt;
  }

  /// An element type, and how its elements are stored.
  struct Element {
    DType type;
    Layout layout = {};
  };
  std::optional<Element> element(Word text) {
    const size_t colon = std::min(text.find(':'), text.size());
    const std::optional<DType> type = parse_dtype(text.substr(0, colon));
    if (!type || colon == text.size()) return type ? std::optional(Element{*type}) : std::nullopt;
    const std::optional<Layout> layout = storage(text.substr(colon + 1));
    if (!layout || *type != DType::f32) return std::nullopt;
    return Element{*type, *layout};
  }

  /// Reads an anchor and the nodes after it, and returns the anchor. The anchor reads `x` if given. A convolution gets
  /// the name `name`; a prologue of one node may precede it.
  NodeId part(std::span<const Call> calls, ValueId x, const char* name) {
    if (x == kNone && calls.size() > 1 && calls[0].name != "conv2d" && calls[1].name == "conv2d") {
      x = anchor(calls[0], true);
      calls = calls.subspan(1);
    }
    const bool conv2d = calls.front().name == "conv2d";
    if (x != kNone && !conv2d) error(calls.front().head, "conv2d after '=>'");
    made_.push_back(conv2d ? conv(calls, x, name) : anchor(calls.front(), false));
    const bool bias = conv2d && calls.size() > 1 && calls[1].name == "bias";
    for (size_t i = bias ? 2 : 1; i < calls.size(); ++i) made_.push_back(after(calls[i]));
    return graph_.value(made_.front()).producer;
  }

  [[noreturn]] void error(Word at, const std::string& expected) const {
    const auto column = static_cast<size_t>(at.data() - line_.data()) + 1;
    const std::string got = at.empty() ? "the end" : fmt::format("'{}'", at);
    fail(ErrorKind::bad_input, "problem '{}', column {}: expected {}, got {}", line_, column, expected, got);
  }

  /// The trimmed text of [begin, end); an empty one still points to its place in the line.
  Word cut(size_t begin, size_t end) const {
    const Word inside = trim(Word(line_).substr(begin, end - begin));
    return inside.empty() ? Word(line_).substr(end, 0) : inside;
  }

  /// The calls in [begin, end) of the line, separated by "+" outside parentheses.
  std::vector<Call> split_calls(size_t begin, size_t end) const {
    std::vector<Call> calls;
    int depth = 0;
    for (size_t i = begin; i <= end; ++i) {
      const char c = i < end ? line_[i] : '+';
      depth += c == '(' ? 1 : c == ')' ? -1 : 0;
      if (depth < 0 || depth > 1) error(Word(line_).substr(i, 1), "matching parentheses, not nested");
      if (i == end && depth != 0) error(Word(line_).substr(i), "')'");
      if (c != '+' || depth != 0 || is_zero_point(i)) continue;
      calls.push_back(call(cut(begin, i)));
      begin = i + 1;
    }
    return calls;
  }

  /// Whether the "+" at `at` is that of a type such as "u8+3"; blanks precede operators.
  bool is_zero_point(size_t at) const { return Word(line_).substr(0, at).ends_with(":u8"); }

  Call call(Word text) const {
    if (text.empty()) error(text, "an operator");
    const size_t open = text.find('(');
    const size_t blank = text.find(' ');
    if (text.substr(0, blank) == "conv2d") return {text.substr(0, blank), {}, text};
    if (open == Word::npos) {
      if (blank != Word::npos) error(text.substr(blank + 1), "'+' or the end");
      return {text, {}, text};
    }
    if (text.back() != ')') error(text.substr(text.find(')') + 1), "'+' or the end");
    return {text.substr(0, open), split_words(text.substr(open + 1, text.size() - open - 2)), text};
  }

  int64_t number(Word text, std::string_view what) const {
    const std::optional<int64_t> value = try_parse_int(text);
    if (!value) error(text, fmt::format("a whole number as {}", what));
    return *value;
  }
  std::vector<int64_t> numbers(Word text, std::string_view what) const {
    std::vector<int64_t> all;
    for (const Word part : split(text, ',')) all.push_back(number(part, what));
    return all;
  }

  // --- convolutions ---

  struct ConvWords {
    std::map<Word, std::vector<int64_t>> fields;
    std::map<Word, Word> at;  ///< key and numbers, as written in the line
    Element element{DType::f32};
    bool integers = false;  ///< "->i32" after the type
  };

  ConvWords conv_words(Word head) {
    ConvWords out;
    constexpr Word kSums = "->i32";
    std::vector<Word> words = split_words(head);
    Word last = words.back();
    out.integers = last.ends_with(kSums);
    if (out.integers) last.remove_suffix(kSums.size());
    const std::optional<Element> type = words.size() > 1 ? element(last) : std::nullopt;
    if (!type || type->type == DType::string) error(words.back(), "the element type at the end, such as f32");
    if (out.integers && type->type != DType::f32) error(words.back(), "f32 before '->i32'");
    out.element = *type;
    words.pop_back();
    for (size_t i = 1; i < words.size(); ++i) {
      const size_t digits = std::min(words[i].find_first_of("-0123456789"), words[i].size());
      const Word key = words[i].substr(0, digits);
      constexpr std::array<Word, 11> kKeys = {"n", "c", "h", "w", "k", "r", "s", "g", "stride", "pad", "dil"};
      if (std::find(kKeys.begin(), kKeys.end(), key) == kKeys.end())
        error(words[i], fmt::format("one of {} with its number", fmt::join(kKeys, ", ")));
      if (!out.fields.emplace(key, numbers(words[i].substr(digits), fmt::format("'{}'", key))).second)
        error(words[i], fmt::format("'{}' once", key));
      out.at.emplace(key, words[i]);
    }
    return out;
  }

  /// Reads a convolution of `x_given`, or of a new input if that is kNone.
  ValueId conv(std::span<const Call> calls, ValueId x_given, const char* name) {
    const Word head = calls.front().head;
    const ConvWords words = conv_words(head);
    const auto need = [&](Word key) {
      const auto it = words.fields.find(key);
      if (it == words.fields.end()) error(head, fmt::format("'{}' among the extents n, c, h, w, k, r, s", key));
      if (it->second.size() != 1 || it->second[0] < 1)
        error(words.at.at(key), fmt::format("one positive number as '{}'", key));
      return it->second[0];
    };
    const int64_t groups = words.fields.contains("g") ? need("g") : 1;
    const Shape x{need("n"), need("c"), need("h"), need("w")};
    if (x[1] % groups != 0) error(head, fmt::format("'c' as a multiple of 'g' ({})", groups));
    const Shape w{need("k"), x[1] / groups, need("r"), need("s")};
    Attrs attrs{{"kernel_shape", std::vector<int64_t>{w[2], w[3]}}};
    if (groups != 1) attrs["group"] = groups;
    const auto list = [&](Word key, const char* attr, size_t count) {
      const auto it = words.fields.find(key);
      if (it == words.fields.end()) return;
      std::vector<int64_t> values = it->second;
      if (values.size() == 1) values.resize(count, values[0]);
      if (values.size() != count) error(head, fmt::format("1 or {} numbers as '{}'", count, key));
      attrs[attr] = values;
    };
    list("stride", "strides", 2), list("pad", "pads", 4), list("dil", "dilations", 2);
    if (x_given != kNone && graph_.type(x_given).shape != x)
      error(head, fmt::format("n, c, h and w equal to the output of the part before ({})",
                              fmt::join(graph_.type(x_given).shape, ", ")));
    const DType type = words.element.type;
    std::vector<ValueId> inputs{x_given == kNone ? input({type, x, words.element.layout}) : x_given};
    if (words.integers) {
      inputs.push_back(integers(w));
      return builder_.add_kilter("IntegerConv", inputs, attrs, name);
    }
    inputs.push_back(constant(type, w));
    if (calls.size() > 1 && calls[1].name == "bias") inputs.push_back(constant(type, {w[0]}));
    return builder_.add("Conv", inputs, attrs, name);
  }

  // --- other operators ---

  const OpDef& definition(Word name) const {
    const OpDef* newest = nullptr;
    for (const OpDef* op : all_ops()) {
      if (lower(op->name) == name && (newest == nullptr || op->since > newest->since)) newest = op;
    }
    if (newest == nullptr) error(name, "conv2d or an operator in lower case (`kilter ops` lists them)");
    return *newest;
  }

  ValueId input(const TensorType& type) {
    const std::string name = fmt::format("x{}", graph_.inputs().size());
    if (type.layout.stored) stored_.emplace(name, type.layout);
    return builder_.input(name, type.dtype, type.shape);
  }
  /// Weights that are integers from -127 to 127.
  ValueId integers(const Shape& shape) {
    const Tensor t = weights(DType::f32, shape, ++seed_);
    float most = 0;
    for (const float v : t.span<float>()) most = std::max(most, std::abs(v));
    for (float& v : t.span<float>()) v = std::round(127 * v / std::max(most, 1e-30F));
    return builder_.constant(t);
  }
  ValueId constant(DType type, const Shape& shape) { return builder_.constant(weights(type, shape, ++seed_)); }

  /// A type, and values if given, such as "f32[1,64]" or "i64[2]=0,1".
  struct Typed {
    TensorType type;
    std::optional<Tensor> values;
  };
  std::optional<Typed> typed(Word text) {
    const size_t open = text.find('[');
    if (open == Word::npos || text.find('=') < open) return std::nullopt;
    const std::optional<Element> type = element(text.substr(0, open));
    if (!type || type->type == DType::string) error(text, "a numeric element type before '['");
    const size_t close = text.find(']');
    if (close == Word::npos) error(text, "']' after the extents");
    Typed out{{type->type, {}, {}}, {}};
    out.type.layout = type->layout;
    if (close > open + 1) out.type.shape = numbers(text.substr(open + 1, close - open - 1), "an extent");
    if (std::any_of(out.type.shape.begin(), out.type.shape.end(), [](int64_t e) { return e < 0; }))
      error(text, "non-negative extents");
    if (close + 1 == text.size()) return out;
    if (text[close + 1] == '=' && type->type == DType::f64 && elems(out.type.shape) == 1) {
      const std::optional<double> value = try_parse_float(text.substr(close + 2));
      if (!value) error(text.substr(close + 2), "a number");
      out.values = Tensor::of<double>(out.type.shape, {*value});
      return out;
    }
    if (text[close + 1] != '=' || type->type != DType::i64)
      error(text.substr(close + 1), "nothing but i64 values, or one f64 value, ('=...') after ']'");
    const std::vector<int64_t> values = numbers(text.substr(close + 2), "a value");
    if (static_cast<int64_t>(values.size()) != elems(out.type.shape))
      error(text, fmt::format("{} values", elems(out.type.shape)));
    out.values = Tensor::of<int64_t>(out.type.shape, std::span<const int64_t>(values));
    return out;
  }

  Attr attribute(const OpDef& op, Word key, Word value) const {
    const auto spec = std::find_if(op.attrs.begin(), op.attrs.end(), [&](const AttrSpec& s) { return s.name == key; });
    if (spec == op.attrs.end()) error(key, fmt::format("an attribute of {}", op.name));
    if (spec->type == "int") return number(value, key);
    if (spec->type == "ints") return numbers(value, key);
    if (spec->type == "string") return std::string(value);
    if (spec->type == "float") {
      const std::optional<double> real = try_parse_float(value);
      if (!real) error(value, fmt::format("a number as {}", key));
      return static_cast<float>(*real);
    }
    error(key, fmt::format("no attribute of type {}: a line cannot contain it", spec->type));
  }

  struct Operands {
    std::vector<ValueId> values;
    Attrs attrs;
  };

  /// `make_value` creates a value for a type and an operand index if the line gives no values.
  template <class MakeValue>
  Operands operands(const OpDef& op, const Call& call, MakeValue make_value) {
    Operands out;
    for (const Word part : call.parts) {
      const size_t equals = part.find('=');
      if (part == "?") {
        out.values.push_back(kNone);
      } else if (part.starts_with("%")) {
        out.values.push_back(earlier(part));
      } else if (std::optional<Typed> t = typed(part)) {
        out.values.push_back(t->values ? builder_.constant(*t->values) : make_value(t->type, out.values.size()));
      } else if (equals != Word::npos) {
        out.attrs[std::string(part.substr(0, equals))] = attribute(op, part.substr(0, equals), part.substr(equals + 1));
      } else {
        const std::optional<double> value = try_parse_float(part);
        if (!value) error(part, "an operand (a type, a number, ? or %) or attribute=value");
        out.values.push_back(builder_.constant(Tensor::scalar(static_cast<float>(*value))));
      }
    }
    return out;
  }

  ValueId earlier(Word part) const {
    if (made_.empty()) error(part, "no '%' in the first operator");
    if (part.size() == 1) return made_.back();
    const int64_t index = number(part.substr(1), "the number of an earlier node");
    if (index < 0 || index >= static_cast<int64_t>(made_.size()))
      error(part, fmt::format("%0 to %{}", made_.size() - 1));
    return made_[static_cast<size_t>(index)];
  }

  ValueId add(const OpDef& op, std::vector<ValueId> values, const Attrs& attrs) {
    GraphBuilder::Options options;
    options.name = std::string(op.name);
    options.domain = op.domain;
    options.opset = !op.domain.empty() ? op.since : std::min(op.until, kNewestOpset);
    options.expand = op.infer == nullptr;
    options.output_count = 1;
    return builder_.add(op.name, std::move(values), attrs, options).front();
  }

  /// Whether an operand of this type is not constant: the line contains the values of one-element constants, except for
  /// factors.
  static bool computed(const TensorType& type) {
    return type.layout.stored || (elems(type.shape) == 1 && type.dtype != DType::f64);
  }

  /// `live`: no operand is constant, unless the line gives its values.
  ValueId anchor(const Call& call, bool live) {
    const OpDef& op = definition(call.name);
    const auto make_value = [&](const TensorType& type, size_t index) {
      const bool activation = live || index == 0 || op.family == Family::attention ||
                              (is_product(op.family) && index == 1 && type.shape.size() > 2);
      if (activation || computed(type)) return input(type);
      const bool whole = op.domain == "kilter" && is_product(op.family) && type.dtype == DType::f32;
      return whole ? integers(type.shape) : constant(type.dtype, type.shape);
    };
    const Operands o = operands(op, call, make_value);
    if (o.values.empty()) error(call.name, fmt::format("operands of {} in parentheses", op.name));
    return add(op, o.values, o.attrs);
  }

  ValueId after(const Call& call) {
    const OpDef& op = definition(call.name);
    Operands o = operands(
        op, call, [&](const TensorType& t, size_t) { return computed(t) ? input(t) : constant(t.dtype, t.shape); });
    const TensorType like = graph_.type(made_.back());
    const auto arity = static_cast<size_t>(op.max_inputs < 0 ? 2 : std::max(op.min_inputs, 1));
    const bool whole = o.values.size() >= arity && std::ranges::any_of(call.parts, [](Word part) {
                         return part.starts_with("%");  // otherwise, the first operand is the previous value
                       });
    if (!whole) o.values.insert(o.values.begin(), made_.back());
    while (o.values.size() < arity) o.values.push_back(input({like.dtype, like.shape, stores_.value_or(Layout{})}));
    return add(op, o.values, o.attrs);
  }

  std::string line_;
  Graph graph_;
  GraphBuilder builder_;
  std::vector<ValueId> made_;  ///< by node: the anchor's value and those of the nodes after it
  uint64_t seed_ = 0;
  std::optional<Layout> stores_;          ///< how the task stores its results, if in a different type
  std::map<std::string, Layout> stored_;  ///< Problem::stored
  std::optional<DType> float_;            ///< bf16 or f16, once the line has named it
};

}  // namespace

Problem parse_problem(std::string_view line) {
  const std::string_view text = trim(line);
  if (text.empty())
    fail(ErrorKind::bad_input,
         "problem: expected a line such as 'conv2d n1 c64 h56 w56 k64 r3 s3 pad1 f32 +relu', got nothing");
  return ProblemParser(text).run();
}

}  // namespace kilter
