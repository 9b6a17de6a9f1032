// Every case of every operator, compiled for every instruction set of this machine and run between guarded buffers,
// against the reference kernels.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "compile/compile.h"
#include "exec/executor.h"
#include "exec/thread_pool.h"
#include "ops/cases.h"
#include "ops/evaluate.h"
#include "ops/op.h"

namespace kilter {
namespace {

/// Cases that are compiled wrongly today. Each must still be wrong, so that a repaired one leaves the list.
struct KnownFault {
  std::string_view op;
  CaseText text;
  std::string_view target;  ///< the least level of x86-64; "" for all
  std::string_view reason;
};
constexpr std::array<KnownFault, 0> kKnownFaults = {};

/// Cases that cannot be compiled: strings, and what the compiler answers `unsupported` for.
constexpr int kMaxSkipped = 2;

bool at_least(const Target& target, std::string_view level) {
  return target.limits.vector_bytes >= parse_target(level).limits.vector_bytes;
}

const KnownFault* known_fault(const OpDef& op, CaseText text, const Target& target) {
  const auto it = std::find_if(kKnownFaults.begin(), kKnownFaults.end(), [&](const KnownFault& f) {
    return f.op == op.name && f.text == text && (f.target.empty() || at_least(target, f.target));
  });
  return it == kKnownFaults.end() ? nullptr : &*it;
}

/// The levels of x86-64 that this machine runs, and the machine itself.
std::vector<Target> targets_here() {
  std::vector<Target> targets;
  for (std::string_view name : {"x86-64-v2", "x86-64-v3", "x86-64-v4", "native"}) {
    Target target = parse_target(name);
    const bool seen =
        std::any_of(targets.begin(), targets.end(), [&](const Target& t) { return t.name == target.name; });
    if (runs_here(target) && !seen) targets.push_back(std::move(target));
  }
  return targets;
}

/// Bytes of a tensor between two fences. `shift` moves them off the 64-byte boundary.
class Guarded {
 public:
  Guarded(int64_t bytes, size_t shift) : bytes_(static_cast<size_t>(bytes)), shift_(shift) {
    memory_.reset(new (std::align_val_t{64}) std::byte[size()]);
    std::fill_n(memory_.get(), size(), kFence);
    std::fill_n(data(), bytes_, kPoison);
  }
  std::byte* data() const { return memory_.get() + kFenceBytes + shift_; }
  /// "" while both fences are whole, else where the first changed byte is, counted from the tensor's start.
  std::string damage() const {
    for (size_t i = 0; i < size(); ++i) {
      const bool inside = i >= kFenceBytes + shift_ && i < kFenceBytes + shift_ + bytes_;
      if (inside || memory_[i] == kFence) continue;
      return fmt::format("byte {} of a tensor of {} bytes was written",
                         static_cast<int64_t>(i) - static_cast<int64_t>(kFenceBytes + shift_), bytes_);
    }
    return "";
  }

 private:
  struct Free {
    void operator()(std::byte* p) const { ::operator delete[](p, std::align_val_t{64}); }
  };
  static constexpr size_t kFenceBytes = 256;
  static constexpr std::byte kFence{0x5A};
  static constexpr std::byte kPoison{0xC3};
  size_t size() const { return bytes_ + shift_ + 2 * kFenceBytes; }

  size_t bytes_;
  size_t shift_;
  std::unique_ptr<std::byte[], Free> memory_;
};

bool has_strings(const Graph& graph) {
  for (size_t v = 0; v < graph.value_count(); ++v) {
    if (graph.type(static_cast<ValueId>(v)).dtype == DType::string) return true;
  }
  return false;
}

std::string schedules(const Plan& plan) {
  std::string out;
  for (const Step& step : plan.steps) {
    out +=
        fmt::format("\n  step {} ({}): {}", step.name, step.ops, step.schedule.empty() ? "no kernel" : step.schedule);
  }
  return out.empty() ? "\n  no steps" : out;
}

/// "" when the plan answers `want` and leaves everything else alone.
std::string run_guarded(const std::shared_ptr<const Program>& program, const OpCase& c, const std::vector<Tensor>& want,
                        size_t shift) {
  const Plan& plan = program->plan();
  if (plan.inputs.size() != c.inputs.size() || plan.outputs.size() != want.size()) {
    return fmt::format("plan has {} inputs and {} outputs, expected {} and {}", plan.inputs.size(), plan.outputs.size(),
                       c.inputs.size(), want.size());
  }
  static const auto pool = std::make_shared<ThreadPool>(2);
  std::vector<Guarded> in;
  std::vector<Guarded> out;
  std::vector<const std::byte*> from;
  std::vector<std::byte*> to;
  for (const Tensor& t : c.inputs) {
    std::copy_n(t.raw(), t.bytes(), in.emplace_back(t.bytes(), shift).data());
    from.push_back(in.back().data());
  }
  for (const Tensor& t : want) to.push_back(out.emplace_back(t.bytes(), shift).data());
  Instance(program, pool).run(from, to);
  for (size_t i = 0; i < in.size(); ++i) {
    if (const std::string d = in[i].damage(); !d.empty()) return fmt::format("around input {}: {}", i, d);
    if (!std::equal(c.inputs[i].raw(), c.inputs[i].raw() + c.inputs[i].bytes(), from[i])) {
      return fmt::format("input {} was written", i);
    }
  }
  for (size_t i = 0; i < out.size(); ++i) {
    if (const std::string d = out[i].damage(); !d.empty()) return fmt::format("around output {}: {}", i, d);
    if (plan.outputs[i].type != want[i].dtype() || plan.outputs[i].shape != want[i].shape()) {
      return fmt::format("output {} is {}[{}], expected {}[{}]", i, name(plan.outputs[i].type),
                         text(plan.outputs[i].shape), name(want[i].dtype()), text(want[i].shape()));
    }
    Tensor got(want[i].dtype(), want[i].shape());
    std::copy_n(to[i], got.bytes(), got.raw());
    if (const auto d = compare(got, want[i], c.tolerance)) return fmt::format("output {}: {}", i, *d);
  }
  return "";
}

enum class Outcome { right, wrong, skipped };
struct Verdict {
  Outcome outcome = Outcome::right;
  std::string why;
};

Verdict judge(const OpDef& op, CaseText text, const Target& target, bool run) {
  std::string steps;
  try {
    const OpCase c = make_case(op, text);
    if (has_strings(c.graph)) return {Outcome::skipped, "strings"};
    CompileOptions options;
    options.target = target;
    Compiled compiled = compile_graph(c.graph, options);
    if (!run) return {};
    steps = schedules(compiled.plan);
    const std::vector<Tensor> want = evaluate(c.graph, c.inputs);
    const auto program = std::make_shared<const Program>(std::move(compiled.plan));
    for (size_t shift : {size_t{0}, size_t{8}}) {
      if (std::string why = run_guarded(program, c, want, shift); !why.empty()) {
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

TEST_P(CompiledOp, AnswersAsTheReference) {
  const OpDef& op = *GetParam();
  for (const Target& target : targets_here()) {
    for (CaseText text : op.cases) {
      const Verdict v = judge(op, text, target, true);
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
      const Verdict v = judge(*op, text, target, false);
      if (v.outcome != Outcome::skipped) continue;
      ++skipped;
      which += fmt::format("\n  {}: {} ({})", op->name, text, v.why);
    }
  }
  EXPECT_LE(skipped, kMaxSkipped) << which;
}

TEST(CompiledOps, KnownFaultsNameCasesThatExist) {
  for (const KnownFault& fault : kKnownFaults) {
    const bool exists = std::any_of(all_ops().begin(), all_ops().end(), [&](const OpDef* op) {
      return op->name == fault.op && std::find(op->cases.begin(), op->cases.end(), fault.text) != op->cases.end();
    });
    EXPECT_TRUE(exists) << fault.op << ": " << fault.text;
  }
}

}  // namespace
}  // namespace kilter
