// Operators with operands and attributes that do not fit: each gives a result or one clear error, never a crash, an
// internal error or an error that does not name the node.
#include <gtest/gtest.h>

#include <cctype>
#include <limits>
#include <string>

#include "base/random.h"
#include "ops/op.h"
#include "ops/support/builder.h"
#include "ops/support/cases.h"
#include "ops/support/evaluate.h"
#include "ops/support/iterate.h"

namespace kilter {
namespace {

constexpr int64_t kMaxElems = 20000;  ///< limit for all tensors of a node together; larger nodes are not evaluated

/// Changes random parts of a case, the same ones for the same seed.
class Mutator {
 public:
  explicit Mutator(uint64_t seed) : random_(seed) {}

  void change(const OpDef& op, ParsedCase& c) {
    const int64_t what = pick(0, 5);
    if (what <= 2 && !c.operands.empty()) {
      change_operand(c.operands[static_cast<size_t>(pick(0, static_cast<int64_t>(c.operands.size()) - 1))]);
    } else if (what == 3) {
      c.operands.resize(static_cast<size_t>(pick(0, static_cast<int64_t>(c.operands.size()) + 1)));
    } else if (!op.attrs.empty()) {
      const AttrSpec& spec = op.attrs[static_cast<size_t>(pick(0, static_cast<int64_t>(op.attrs.size()) - 1))];
      change_attr(std::string(spec.name), spec.type, c.attrs);
    }
    if (pick(0, 9) == 0) c.opset = op.since;
    if (pick(0, 9) == 0) c.outputs = static_cast<size_t>(pick(1, 3));
  }

 private:
  int64_t pick(int64_t low, int64_t high) { return random_.integer(next_++, low, high); }
  int64_t number() {
    constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
    constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
    constexpr std::array<int64_t, 14> kNumbers = {
        0, 1, -1, 2, 3, -2, 7, 100, -100, 1 << 20, int64_t{1} << 41, kMax, kMin, kMin + 1};
    return kNumbers[static_cast<size_t>(pick(0, kNumbers.size() - 1))];
  }
  float real() {
    constexpr std::array<float, 7> kReals = {
        0, -1, 1e-30F, 1e30F, std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(), 0.5F};
    return kReals[static_cast<size_t>(pick(0, kReals.size() - 1))];
  }

  void change_operand(CaseOperand& operand) {
    if (!operand.tensor.defined()) {
      operand.tensor = Tensor(DType::f32, {2});
      operand.kind = CaseOperand::Kind::given;
      return;
    }
    const int64_t what = pick(0, 5);
    Shape shape = operand.tensor.shape();
    DType type = operand.tensor.dtype();
    if (what == 0) {
      operand = {};
      return;
    }
    if (what == 1) type = static_cast<DType>(pick(0, static_cast<int64_t>(DType::string)));
    if (what == 2) shape.insert(shape.begin(), pick(0, 3));
    if (what == 3 && !shape.empty()) shape.pop_back();
    if (what == 4 && !shape.empty())
      shape[static_cast<size_t>(pick(0, static_cast<int64_t>(shape.size()) - 1))] = pick(0, 9);
    if (what == 5 && type == DType::i64 && operand.tensor.elems() > 0) {
      operand.tensor = operand.tensor.clone();
      operand.tensor.data<int64_t>()[pick(0, operand.tensor.elems() - 1)] = number();
      return;
    }
    Tensor changed(type, shape);
    if (type != DType::string) fill(changed, static_cast<double>(pick(-2, 5)));
    operand.tensor = changed;
  }

  void change_attr(const std::string& key, std::string_view type, Attrs& attrs) {
    if (pick(0, 4) == 0) {
      attrs.erase(key);
    } else if (type == "int") {
      attrs[key] = number();
    } else if (type == "float") {
      attrs[key] = real();
    } else if (type == "string") {
      attrs[key] = std::string(pick(0, 1) == 0 ? "" : "no such thing");
    } else if (type == "ints") {
      std::vector<int64_t> values;
      if (const auto* old = attrs.count(key) != 0 ? std::get_if<std::vector<int64_t>>(&attrs[key]) : nullptr)
        values = *old;
      if (values.empty() || pick(0, 3) == 0) {
        values.resize(static_cast<size_t>(pick(0, 6)), number());
      } else {
        values[static_cast<size_t>(pick(0, static_cast<int64_t>(values.size()) - 1))] = number();
      }
      attrs[key] = values;
    } else if (type == "floats") {
      attrs[key] = std::vector<float>(static_cast<size_t>(pick(0, 4)), real());
    } else if (type == "strings") {
      attrs[key] = std::vector<std::string>(static_cast<size_t>(pick(0, 3)), "odd");
    } else if (type == "tensor") {
      attrs[key] = Tensor(static_cast<DType>(pick(0, static_cast<int64_t>(DType::string))),
                          Shape(static_cast<size_t>(pick(0, 2)), 2));
    }
  }

  Random random_;
  uint64_t next_ = 0;
};

bool is_small(const Graph& graph) {
  int64_t total = 0;
  for (ValueId id = 0; static_cast<size_t>(id) < graph.value_count(); ++id) {
    if (!graph.value(id).dead) total += elems(graph.type(id).shape);
  }
  return total <= kMaxElems;
}

/// Describes the fault in the operator's reaction to the case; empty if there is none.
std::string try_case(const OpDef& op, const ParsedCase& changed, CaseText text, bool expand) {
  try {
    const OpCase c = make_case(op, changed, text, expand);
    verify(c.graph);
    if (is_small(c.graph)) evaluate(c.graph, c.inputs);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::internal) return "internal error: " + error.message();
    const bool named = error.message().find('\'') != std::string::npos || error.message().starts_with("case ");
    if (!named) return "error that does not name the node: " + error.message();
  } catch (const std::exception& error) {
    return std::string("not an Error: ") + error.what();
  }
  return "";
}

std::string describe(const ParsedCase& c) {
  std::string out;
  for (const CaseOperand& operand : c.operands) {
    out += operand.tensor.defined() ? text(TensorType{operand.tensor.dtype(), operand.tensor.shape(), {}}) + " " : "? ";
  }
  for (const auto& [key, attr] : c.attrs) out += key + " ";
  return out + fmt::format("opset {} outputs {}", c.opset, c.outputs);
}

class Robustness : public testing::TestWithParam<const OpDef*> {};

TEST_P(Robustness, WrongOperandsAndAttributesAreErrors) {
  const OpDef& op = *GetParam();
  uint64_t seed = 1;
  for (CaseText text : op.cases) {
    for (int repeat = 0; repeat < 60; ++repeat) {
      ParsedCase changed = parse_case(op, text);
      Mutator mutator(++seed);
      for (int step = 0; step <= repeat % 3; ++step) mutator.change(op, changed);
      ASSERT_EQ(try_case(op, changed, text, false), "") << text << "\nchanged to " << describe(changed);
      if (op.expand == nullptr) continue;
      ASSERT_EQ(try_case(op, changed, text, true), "") << text << "\nexpanded, changed to " << describe(changed);
    }
  }
}

std::string test_name(const testing::TestParamInfo<const OpDef*>& info) {
  const OpDef& op = *info.param;
  std::string out = fmt::format("{}{}{}_{}", op.domain, op.domain.empty() ? "" : "_", op.name, op.since);
  for (char& c : out) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  return out;
}

INSTANTIATE_TEST_SUITE_P(Ops, Robustness, testing::ValuesIn(all_ops().begin(), all_ops().end()), test_name);

}  // namespace
}  // namespace kilter
