// Every case of every operator, compiled for every instruction set of this machine and by every other back end, run
// with guarded buffers and compared with the reference kernels.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "../base/error_of.h"
#include "base/error.h"
#include "codegen/backend.h"
#include "compiled_case.h"
#include "guarded_run.h"
#include "ops/op.h"
#include "ops/support/cases.h"
#include "ops/support/evaluate.h"

namespace kilter {
namespace {

/// Cases that a back end currently compiles wrongly. The test fails if one of them is right, so that it is removed from
/// the list.
struct KnownFault {
  std::string_view op;
  CaseText text;
  std::string_view backend;
  std::string_view reason;
};
constexpr std::array<KnownFault, 0> kKnownFaults = {};

/// Cases without strings that the compiler reports as `unsupported`. Cases with strings are never compiled.
constexpr int kMaxSkipped = 0;

const KnownFault* known_fault(const OpDef& op, CaseText text, const Target& target) {
  const auto it = std::find_if(kKnownFaults.begin(), kKnownFaults.end(), [&](const KnownFault& f) {
    return f.op == op.name && f.text == text && f.backend == target.backend;
  });
  return it == kKnownFaults.end() ? nullptr : &*it;
}

/// This machine's instruction sets, and the interpreter; or the target that the environment variable
/// KILTER_SUITE_TARGET names.
const std::vector<Target>& suite_targets() {
  static const std::vector<Target> kTargets = [] {
    if (const char* only = std::getenv("KILTER_SUITE_TARGET")) return std::vector{parse_target(only)};
    std::vector<Target> targets = targets_here();
    targets.push_back(parse_target("null"));
    return targets;
  }();
  return kTargets;
}

enum class Outcome { right, wrong, skipped };
struct Verdict {
  Outcome outcome = Outcome::right;
  std::string why;
};

Verdict judge(const OpDef& op, const ParsedCase& parsed, CaseText text, const Target& target, bool run) {
  std::string steps;
  try {
    auto [c, compiled] = compile_case(op, parsed, text, target);
    if (!run) return {};
    steps = steps_text(compiled.plan);
    const std::vector<Tensor> want = evaluate(c.graph, c.inputs);
    const auto program = std::make_shared<const Program>(std::move(compiled.plan));
    for (size_t shift : {size_t{0}, size_t{8}}) {
      if (std::string why = run_guarded(program, c.inputs, want, c.tolerance, shift); !why.empty()) {
        return {Outcome::wrong, fmt::format("{} ({} bytes off alignment){}", why, shift, steps)};
      }
    }
    return {};
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::unsupported) return {Outcome::skipped, error.message()};
    return {Outcome::wrong, "error: " + error.message() + steps};
  }
}

class CompiledOp : public testing::TestWithParam<const OpDef*> {};

TEST_P(CompiledOp, MatchesReference) {
  const OpDef& op = *GetParam();
  for (const Target& target : suite_targets()) {
    for (CaseText text : op.cases) {
      const Verdict v = judge(op, parse_case(op, text), text, target, true);
      const std::string where = fmt::format("{}: {}\n  on {}", op.name, text, target.name);
      if (const KnownFault* fault = known_fault(op, text, target)) {
        EXPECT_NE(v.outcome, Outcome::right)
            << where << "\n  is right now; remove it from kKnownFaults (" << fault->reason << ")";
      } else {
        EXPECT_TRUE(v.outcome != Outcome::wrong) << where << ": " << v.why;
      }
    }
  }
}

/// Templates treat weights differently from operands that are known only at run time.
TEST_P(CompiledOp, MatchesReferenceWithConstantWeights) {
  const OpDef& op = *GetParam();
  if (op.family == Family::map || op.family == Family::reference) return;
  for (const Target& target : suite_targets()) {
    for (CaseText text : op.cases) {
      const Verdict v = judge(op, with_weights(parse_case(op, text)), text, target, true);
      EXPECT_TRUE(v.outcome != Outcome::wrong) << op.name << ": " << text << "\n  on " << target.name << ": " << v.why;
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

INSTANTIATE_TEST_SUITE_P(Ops, CompiledOp, testing::ValuesIn(all_ops().begin(), all_ops().end()), test_name);

TEST(CompiledOps, FewCasesAreSkipped) {
  const Target target = parse_target("x86-64-v2");
  int skipped = 0;
  std::string which;
  for (const OpDef* op : all_ops()) {
    for (CaseText text : op->cases) {
      const Verdict v = judge(*op, parse_case(*op, text), text, target, false);
      if (v.outcome != Outcome::skipped || has_strings(make_case(*op, text).graph)) continue;
      ++skipped;
      which += fmt::format("\n  {}: {} ({})", op->name, text, v.why);
    }
  }
  EXPECT_LE(skipped, kMaxSkipped) << which;
}

/// One case of operators of different kinds. The suite runs all cases on OpenCL if KILTER_SUITE_TARGET says so; the
/// device's compiler takes a quarter of a second for each kernel.
TEST(CompiledOps, SomeRunOnOpenCl) {
  const Target target = parse_target("opencl");
  for (const std::string_view name :
       {"Conv", "ConvTranspose", "MaxPool", "MatMul", "Softmax", "LayerNormalization", "Gather", "ReduceMean", "Resize",
        "LSTM", "QLinearMatMul", "TopK", "Erf", "Transpose"}) {
    const auto op =
        std::ranges::find_if(all_ops(), [&](const OpDef* o) { return o->name == name && !o->cases.empty(); });
    ASSERT_NE(op, all_ops().end()) << name;
    const Verdict v = judge(**op, parse_case(**op, (*op)->cases.front()), (*op)->cases.front(), target, true);
    EXPECT_EQ(v.outcome, Outcome::right) << name << ": " << v.why;
  }
}

TEST(CompiledOps, EveryBackEndHasATargetName) {
  std::vector<std::string_view> names;
  for (const Backend* backend : all_backends()) {
    names.push_back(backend->name);
    const Target target =
        parse_target(backend->name == "opencl" ? "opencl" : fmt::format("{} -mcpu=x86-64-v3", backend->name));
    EXPECT_EQ(target.backend, backend->name);
    EXPECT_EQ(&backend_of(target), backend);
  }
  EXPECT_TRUE(std::ranges::equal(names, kBackendNames));
  Target other = native_target();
  other.backend = "cuda";
  EXPECT_EQ(error_of([&] { backend_of(other); }),
            fmt::format("target '{}': unknown back end 'cuda'; legal values are llvm, null, opencl", other.name));
}

TEST(CompiledOps, KnownFaultsNameExistingCases) {
  for (const KnownFault& fault : kKnownFaults) {
    const bool exists = std::any_of(all_ops().begin(), all_ops().end(), [&](const OpDef* op) {
      return op->name == fault.op && std::find(op->cases.begin(), op->cases.end(), fault.text) != op->cases.end();
    });
    EXPECT_TRUE(exists) << fault.op << ": " << fault.text;
  }
}

}  // namespace
}  // namespace kilter
