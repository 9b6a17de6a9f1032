#include "ops/support/cases.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/narrow.h"
#include "base/random.h"
#include "graph/text.h"
#include "ops/support/builder.h"
#include "ops/support/iterate.h"

namespace kilter {
namespace {

void fill_random(const Tensor& tensor, uint64_t seed) {
  const Random random(seed);
  const auto count = static_cast<uint64_t>(tensor.elems());
  if (tensor.dtype() == DType::string) {
    for (uint64_t i = 0; i < count; ++i) tensor.strings()[i] = fmt::format("s{}", random.integer(i, 0, 99));
    return;
  }
  if (is_narrow(tensor.dtype())) {
    for (uint64_t i = 0; i < count; ++i) tensor.data<uint8_t>()[i] = narrow_code(tensor.dtype(), random.normal(i));
    return;
  }
  visit_dtype(tensor.dtype(), [&]<class T>(T) {
    for (uint64_t i = 0; i < count; ++i) {
      if constexpr (std::is_same_v<T, bool>) {
        tensor.data<T>()[i] = random.integer(i, 0, 1) != 0;
      } else if constexpr (std::is_integral_v<T>) {
        tensor.data<T>()[i] = static_cast<T>(random.integer(i, 0, 99));
      } else {
        tensor.data<T>()[i] = static_cast<T>(random.normal(i));
      }
    }
  });
}

class CaseParser {
 public:
  CaseParser(const OpDef& op, CaseText text)
      : op_(op), text_(text), reader_(text, fmt::format("case \"{}\" of {}", text, op.name)) {}

  ParsedCase run() {
    while (!reader_.at_end() && reader_.peek() != '|') parsed_.operands.push_back(operand());
    parsed_.opset = op_.until != std::numeric_limits<int32_t>::max() ? op_.until
                    : op_.domain.empty()                             ? kNewestOpset
                                                                     : op_.since;
    parsed_.outputs = static_cast<size_t>(std::max(op_.min_outputs, 1));
    if (reader_.accept("|")) {
      while (!reader_.at_end() && reader_.peek() != '|') attribute();
    }
    if (reader_.accept("|") && !reader_.at_end() && reader_.peek() != '|') {
      parsed_.opset = static_cast<int32_t>(reader_.integer("an opset"));
    }
    if (reader_.accept("|")) parsed_.outputs = static_cast<size_t>(reader_.integer("a number of outputs"));
    if (!reader_.at_end()) reader_.error("the end of the case");
    return std::move(parsed_);
  }

 private:
  CaseOperand operand() {
    if (reader_.accept("?")) return {};
    const DType type = reader_.dtype();
    CaseOperand out;
    out.tensor = Tensor(type, reader_.shape());
    out.kind = CaseOperand::Kind::random;
    if (reader_.accept("=")) {
      out.kind = CaseOperand::Kind::constant;
    } else if (reader_.accept(":")) {
      out.kind = CaseOperand::Kind::given;
    } else {
      fill_random(out.tensor, hash_combine(hash_text(text_), parsed_.operands.size()));
      return out;
    }
    values(out.tensor);
    return out;
  }

  /// Reads v1,v2,... for every element, or one value for all.
  void values(const Tensor& tensor) {
    if (tensor.elems() == 0) return;
    reader_.element(tensor, 0);
    if (tensor.elems() > 1 && reader_.peek() != ',') {
      for (int64_t i = 1; i < tensor.elems(); ++i) copy_element(tensor, 0, tensor, i);
      return;
    }
    for (int64_t i = 1; i < tensor.elems(); ++i) {
      reader_.expect(",");
      reader_.element(tensor, i);
    }
  }

  template <class F>
  auto list(F&& item) {
    std::vector<decltype(item())> out;
    reader_.expect("[");
    while (!reader_.accept("]")) {
      if (!out.empty()) reader_.expect(",");
      out.push_back(item());
    }
    return out;
  }

  void attribute() {
    reader_.accept(",");
    std::string key = reader_.word("an attribute's name");
    const auto spec =
        std::find_if(op_.attrs.begin(), op_.attrs.end(), [&](const AttrSpec& s) { return s.name == key; });
    if (spec == op_.attrs.end()) reader_.error_at_token(fmt::format("{} has no attribute '{}'", op_.name, key));
    reader_.expect("=");
    parsed_.attrs[key] = attribute_value(spec->type);
  }

  Attr attribute_value(std::string_view type) {
    const auto whole = [&] { return reader_.integer("a whole number"); };
    const auto real = [&] { return static_cast<float>(reader_.number("a number")); };
    const auto word = [&] { return reader_.name("a text"); };
    if (type == "int") return whole();
    if (type == "float") return real();
    if (type == "string") return reader_.peek() == '"' ? reader_.quoted_text() : reader_.bare_text("a text");
    if (type == "ints") return list(whole);
    if (type == "floats") return list(real);
    if (type == "strings") return list(word);
    if (type != "tensor")
      reader_.error_at_token(fmt::format("attributes of type {} cannot be written in a case", type));
    const DType element = reader_.dtype();
    Tensor tensor(element, reader_.shape());
    if (reader_.accept("=")) {
      values(tensor);
    } else {
      reader_.elements(tensor);
    }
    return tensor;
  }

  const OpDef& op_;
  CaseText text_;
  TextReader reader_;
  ParsedCase parsed_;
};

}  // namespace

ParsedCase parse_case(const OpDef& op, CaseText text) { return CaseParser(op, text).run(); }

OpCase make_case(const OpDef& op, CaseText text, bool expand) {
  return make_case(op, parse_case(op, text), text, expand);
}

OpCase make_case(const OpDef& op, const ParsedCase& parsed, CaseText text, bool expand) {
  OpCase out;
  out.op = &op;
  out.name = fmt::format("{}@{}: {}", op.name, parsed.opset, text);
  out.tolerance = op.tolerance;
  out.graph.name = out.name;
  GraphBuilder builder(out.graph);
  std::vector<ValueId> operands;
  for (size_t i = 0; i < parsed.operands.size(); ++i) {
    const CaseOperand& operand = parsed.operands[i];
    if (operand.kind == CaseOperand::Kind::absent) {
      operands.push_back(kNone);
    } else if (operand.kind == CaseOperand::Kind::constant) {
      operands.push_back(builder.constant(operand.tensor, fmt::format("in{}", i)));
    } else {
      operands.push_back(builder.input(fmt::format("in{}", i), operand.tensor.dtype(), operand.tensor.shape()));
      out.inputs.push_back(operand.tensor);
    }
  }
  GraphBuilder::Options options;
  options.domain = op.domain;
  options.name = "case";
  options.opset = parsed.opset;
  options.expand = expand || op.infer == nullptr;
  for (size_t i = 0; i < parsed.outputs; ++i) options.output_names.push_back(fmt::format("out{}", i));
  if (!options.expand) builder.fold_limit = -1;
  try {
    const std::vector<ValueId> results = builder.add(op.name, operands, parsed.attrs, options);
    for (size_t i = 0; i < results.size(); ++i) out.graph.add_output(results[i], fmt::format("out{}", i));
  } catch (const ShapeNeedsValue& needs) {
    fail(ErrorKind::bad_input, "case \"{}\" of {}: the shape of {} needs the value of '{}'; write it as type=values",
         text, op.name, needs.node, out.graph.value(needs.value).name);
  }
  out.graph.remove_dead();
  return out;
}

std::optional<std::string> compare(const Tensor& got, const Tensor& want, const Tolerance& tolerance) {
  const TensorType got_type{got.dtype(), got.shape(), {}};
  const TensorType want_type{want.dtype(), want.shape(), {}};
  if (got_type != want_type) return fmt::format("got {}, want {}", kilter::text(got_type), kilter::text(want_type));
  if (!is_float(want.dtype())) {
    if (got.same(want)) return std::nullopt;
    for (int64_t i = 0; i < want.elems(); ++i) {
      const std::string a = element_text(got, i);
      const std::string b = element_text(want, i);
      if (a != b) return fmt::format("element {} of {}: got {}, want {}", i, kilter::text(want.shape()), a, b);
    }
    return std::nullopt;
  }
  const std::vector<double> g = load_doubles(got);
  const std::vector<double> w = load_doubles(want);
  double largest = 0;
  for (double v : w) {
    if (std::isfinite(v)) largest = std::max(largest, std::abs(v));
  }
  const double atol = tolerance.atol * (tolerance.scaled ? largest : 1.0);
  double worst = 0;
  size_t worst_at = 0;
  for (size_t i = 0; i < w.size(); ++i) {
    if (g[i] == w[i] || (std::isnan(g[i]) && std::isnan(w[i]))) continue;
    const double excess = std::abs(g[i] - w[i]) - (atol + tolerance.rtol * std::abs(w[i]));
    const double score = std::isnan(excess) || !std::isfinite(w[i]) ? std::numeric_limits<double>::infinity() : excess;
    if (score > worst) {
      worst = score;
      worst_at = i;
    }
  }
  if (worst <= 0) return std::nullopt;
  const auto i = static_cast<int64_t>(worst_at);
  return fmt::format("element {} of {}: got {}, want {}; the allowed error is {:.3g} + {:.3g} * |want|", i,
                     kilter::text(want.shape()), element_text(got, i), element_text(want, i), atol, tolerance.rtol);
}

}  // namespace kilter
