#include "guarded_run.h"

#include <algorithm>
#include <cstring>

#include "exec/thread_pool.h"
#include "guarded.h"

namespace kilter {
namespace {

/// Describes the first element of a blocked f32 image that is padding (halo or unused lane) but not 0; "" if there is
/// none.
std::string padding_of(const PlacedValue& value, const std::byte* buffer) {
  const DType stored = stored_type(value.type);
  const auto element = [&](int64_t at) {
    Tensor one(stored, {1});
    const auto size = static_cast<size_t>(size_bytes(stored));
    std::memcpy(one.raw(), buffer + static_cast<size_t>(at) * size, size);
    return one.as_double(0) - value.type.layout.zero;
  };
  const Shape& shape = value.type.shape;
  const Shape& strides = value.strides;
  const auto& halo = value.type.layout.halo;
  const int64_t block = value.type.layout.block;
  const bool image = shape.size() == 4;
  const int64_t rows = image ? shape[2] : 1, columns = image ? shape[3] : 1;
  for (int64_t n = 0; n < shape[0]; ++n) {
    for (int64_t c = 0; c < (shape[1] + block - 1) / block * block; ++c) {
      for (int64_t h = -halo[0]; h < rows + halo[1]; ++h) {
        for (int64_t w = -halo[2]; w < columns + halo[3]; ++w) {
          if (c < shape[1] && h >= 0 && h < rows && w >= 0 && w < columns) continue;
          const int64_t pixel = image ? h * strides[2] + w * strides[3] : 0;
          const double got = element(value.offset + n * strides[0] + c / block * strides[1] + pixel + c % block);
          if (got == 0) continue;
          return fmt::format("'{}' {}: [{}, {}, {}, {}] is {}, expected 0", value.name, text(value.type), n, c, h, w,
                             got);
        }
      }
    }
  }
  return "";
}

}  // namespace

std::string check_padding(const Compiled& compiled, const std::shared_ptr<const Program>& program,
                          const std::vector<Tensor>& inputs) {
  std::vector<const std::byte*> from;
  std::vector<std::byte*> to;
  std::vector<Tensor> outputs;
  for (const Tensor& t : inputs) from.push_back(t.raw());
  for (const PlanTensor& t : program->plan().outputs) to.push_back(outputs.emplace_back(t.type, t.shape).raw());
  Instance instance(program, std::make_shared<ThreadPool>(1));
  std::string wrong;
  StepObserver observer;
  observer.after = [&](size_t step) {
    for (const PlacedValue& v : compiled.values) {
      const bool padded = v.type.layout.block > 1 && v.type.dtype == DType::f32 && v.buffer.space == Space::arena;
      if (v.step != step || !padded || !wrong.empty()) continue;
      wrong = padding_of(v, instance.address(v.buffer));
    }
  };
  instance.run(from, to, &observer);
  return wrong;
}

const std::vector<Target>& targets_here() {
  static const std::vector<Target> kTargets = [] {
    std::vector<Target> targets;
    for (std::string_view name : {"x86-64-v2", "x86-64-v3", "x86-64-v4", "native"}) {
      Target target = parse_target(name);
      const bool seen =
          std::any_of(targets.begin(), targets.end(), [&](const Target& t) { return t.name == target.name; });
      if (runs_here(target) && !seen) targets.push_back(std::move(target));
    }
    if (std::ranges::none_of(targets, [](const Target& t) { return t.limits.halves(); })) {
      Target widest = targets.back();
      widest.name += "-halves";
      widest.limits.fmas_per_cycle = 1;
      targets.push_back(std::move(widest));
    }
    return targets;
  }();
  return kTargets;
}

ParsedCase with_weights(ParsedCase c) {
  for (size_t i = 1; i < c.operands.size(); ++i) {
    if (c.operands[i].kind == CaseOperand::Kind::random) c.operands[i].kind = CaseOperand::Kind::constant;
  }
  return c;
}

Compiled compile_for(const Graph& graph, const Target& target) {
  CompileOptions options;
  options.target = target;
  return compile_graph(graph, options);
}

std::string steps_text(const Plan& plan) {
  std::string out;
  for (const Step& step : plan.steps) {
    out +=
        fmt::format("\n  step {} ({}): {}", step.name, step.ops, step.schedule.empty() ? "no kernel" : step.schedule);
  }
  return out.empty() ? "\n  no steps" : out;
}

std::string run_guarded(const std::shared_ptr<const Program>& program, const std::vector<Tensor>& inputs,
                        const Judge& judge, size_t shift) {
  const Plan& plan = program->plan();
  if (plan.inputs.size() != inputs.size())
    return fmt::format("plan has {} inputs, expected {}", plan.inputs.size(), inputs.size());
  static const auto pool = std::make_shared<ThreadPool>(2);
  std::vector<GuardedMemory> in;
  std::vector<GuardedMemory> out;
  std::vector<Tensor> got;
  std::vector<const std::byte*> from;
  std::vector<std::byte*> to;
  for (const Tensor& t : inputs) {
    std::copy_n(t.raw(), t.bytes(), in.emplace_back(t.bytes(), shift).data());
    from.push_back(in.back().data());
  }
  for (const PlanTensor& t : plan.outputs)
    to.push_back(out.emplace_back(got.emplace_back(t.type, t.shape).bytes(), shift).data());
  Instance(program, pool).run(from, to);
  for (size_t i = 0; i < in.size(); ++i) {
    if (const std::string d = in[i].damage(); !d.empty()) return fmt::format("around input {}: {}", i, d);
    if (!std::equal(inputs[i].raw(), inputs[i].raw() + inputs[i].bytes(), from[i])) {
      return fmt::format("input {} was written", i);
    }
  }
  for (size_t i = 0; i < out.size(); ++i) {
    std::copy_n(out[i].data(), got[i].bytes(), got[i].raw());
    std::string wrong = out[i].damage();
    if (wrong.empty()) wrong = judge(i, got[i]);
    if (!wrong.empty()) return fmt::format("output {}: {}", i, wrong);
  }
  return "";
}

std::string run_guarded(const std::shared_ptr<const Program>& program, const std::vector<Tensor>& inputs,
                        const std::vector<Tensor>& want, const Tolerance& tolerance, size_t shift) {
  const size_t count = program->plan().outputs.size();
  if (count != want.size()) return fmt::format("plan has {} outputs, expected {}", count, want.size());
  const auto judge = [&](size_t i, const Tensor& got) { return compare(got, want[i], tolerance).value_or(""); };
  return run_guarded(program, inputs, judge, shift);
}

std::vector<Tensor> run_on(const std::shared_ptr<const Program>& program, const std::vector<Tensor>& inputs,
                           int threads) {
  std::vector<const std::byte*> from;
  std::vector<std::byte*> to;
  std::vector<Tensor> outputs;
  for (const Tensor& t : inputs) from.push_back(t.raw());
  for (const PlanTensor& t : program->plan().outputs) to.push_back(outputs.emplace_back(t.type, t.shape).raw());
  Instance(program, std::make_shared<ThreadPool>(threads)).run(from, to);
  return outputs;
}

}  // namespace kilter
