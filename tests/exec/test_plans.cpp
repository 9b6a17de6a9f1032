#include "test_plans.h"

#include <cstring>

#include "exec/plan_check.h"

// Offsets in KernelArgs: buffers 0, dims 8, scratch 16, scratch_stride 24. Arguments of a call: args in rdi, begin in
// rsi, end in rdx, worker in ecx.
__asm__(R"(
.pushsection .rodata
kilter_test_code:
kilter_test_double:
  mov (%rdi), %rax
  mov (%rax), %r8
  mov 8(%rax), %r9
1:
  cmp %rdx, %rsi
  jge 2f
  movss (%r8,%rsi,4), %xmm0
  addss %xmm0, %xmm0
  movss %xmm0, (%r9,%rsi,4)
  inc %rsi
  jmp 1b
2:
  xor %eax, %eax
  ret
kilter_test_answer7:
  mov $7, %eax
  ret
kilter_test_scratch:
  mov (%rdi), %rax
  mov (%rax), %r9
  movslq %ecx, %rcx
  imul 24(%rdi), %rcx
  add 16(%rdi), %rcx
  mov %rsi, (%rcx)
1:
  cmp %rdx, %rsi
  jge 2f
  mov (%rcx), %rax
  mov %rax, (%r9,%rsi,8)
  inc %rsi
  jmp 1b
2:
  xor %eax, %eax
  ret
kilter_test_add:
  mov (%rdi), %rax
  mov (%rax), %r8
  mov 8(%rax), %r9
  mov 16(%rax), %r10
1:
  cmp %rdx, %rsi
  jge 2f
  movss (%r8,%rsi,4), %xmm0
  addss (%r9,%rsi,4), %xmm0
  movss %xmm0, (%r10,%rsi,4)
  inc %rsi
  jmp 1b
2:
  xor %eax, %eax
  ret
kilter_test_answer1:
  mov $1, %eax
  ret
kilter_test_end:
.popsection
)");

extern "C" {
extern const std::byte kilter_test_code[] __attribute__((visibility("hidden")));
extern const std::byte kilter_test_double[] __attribute__((visibility("hidden")));
extern const std::byte kilter_test_answer7[] __attribute__((visibility("hidden")));
extern const std::byte kilter_test_scratch[] __attribute__((visibility("hidden")));
extern const std::byte kilter_test_add[] __attribute__((visibility("hidden")));
extern const std::byte kilter_test_answer1[] __attribute__((visibility("hidden")));
extern const std::byte kilter_test_end[] __attribute__((visibility("hidden")));
}

namespace kilter {

BufferRef arena(int64_t offset, int64_t bytes) { return {Space::arena, offset, 0, bytes}; }
BufferRef constant(int64_t offset, int64_t bytes) { return {Space::constant, offset, 0, bytes}; }
BufferRef input(int32_t index, int64_t bytes) { return {Space::input, 0, index, bytes}; }
BufferRef output(int32_t index, int64_t bytes) { return {Space::output, 0, index, bytes}; }

Plan test_plan(int64_t constants_bytes) {
  Plan plan;
  plan.model = "test";
  plan.target = "x86-64-v2";
  plan.cpu = "x86-64-v2";
  plan.codegen = "by hand";
  const Tensor constants(DType::f32, {constants_bytes / 4});
  for (int64_t i = 0; i < constants.elems(); ++i) constants.data<float>()[i] = static_cast<float>(i);
  plan.owner = std::make_shared<Tensor>(constants);
  plan.constants = constants.raw();
  plan.constants_bytes = constants.bytes();
  plan.code = kilter_test_code;
  plan.code_bytes = kilter_test_end - kilter_test_code;
  for (const std::byte* entry :
       {kilter_test_double, kilter_test_answer7, kilter_test_scratch, kilter_test_add, kilter_test_answer1}) {
    plan.entries.push_back(entry - kilter_test_code);
  }
  return plan;
}

Step kernel_step(TestKernel kernel, std::vector<BufferRef> args, int64_t extent) {
  Step step;
  step.kind = StepKind::kernel;
  step.name = "kernel" + std::to_string(kernel);
  step.ops = "Test";
  step.kernel = kernel;
  step.args = std::move(args);
  step.extent = extent;
  return step;
}

Plan arithmetic_plan(int64_t count) {
  const int64_t bytes = count * 4;
  const int64_t second = (bytes + 63) / 64 * 64;
  Plan plan = test_plan(bytes);
  plan.inputs = {{"x", DType::f32, {1, count}}};
  plan.outputs = {{"y", DType::f32, {count}}};
  plan.arena_bytes = second + bytes;
  Step copy;
  copy.kind = StepKind::copy;
  copy.name = "copy";
  copy.args = {arena(0, bytes), arena(second, bytes)};
  copy.copy_bytes = bytes;
  plan.steps = {kernel_step(kDouble, {input(0, bytes), arena(0, bytes)}, count), copy,
                kernel_step(kDouble, {arena(second, bytes), arena(0, bytes)}, count),
                kernel_step(kAddConst, {arena(0, bytes), constant(0, bytes), output(0, bytes)}, count)};
  return plan;
}

Plan lookup_plan() {
  Plan plan = test_plan();
  plan.inputs = {{"ids", DType::i32, {2, 3}}};
  Step step = kernel_step(kAnswer1, {input(0, 24)}, 6);
  step.name = "embed", step.ops = "Gather";
  step.indices = {0, DType::i32, {2, 3}, {1, {5}}};
  plan.steps = {step};
  return plan;
}

Plan steps_plan() {
  Plan plan = test_plan(256);
  plan.inputs = {{"x", DType::f32, {16}}, {"n", DType::i64, {}}};
  plan.outputs = {{"y", DType::u8, {2, 6, 8}}, {"t", DType::f16, {4}}};
  plan.arena_bytes = 512;
  plan.scratch_bytes = 100;
  plan.required_features = {};
  Step fill;
  fill.kind = StepKind::copy;
  fill.name = "fill";
  fill.args = {constant(0, 96), arena(64, 96)};
  fill.copy_bytes = 96;
  Step halo;
  halo.kind = StepKind::halo;
  halo.name = "halo";
  halo.args = {arena(64, 96)};
  halo.halo = {.planes = 2,
               .plane_bytes = 48,
               .rows = 6,
               .row_bytes = 8,
               .top = 1,
               .bottom = 2,
               .left_bytes = 1,
               .right_bytes = 3};
  Step out;
  out.kind = StepKind::copy;
  out.name = "out";
  out.args = {arena(64, 96), output(0, 96)};
  out.copy_bytes = 96;
  Step touch;
  touch.kind = StepKind::reference;
  touch.name = "touch";
  touch.args = {input(0, 64), input(1, 8), output(1, 8)};
  touch.reference.op = "Touch";
  touch.reference.opset = 13;
  touch.reference.attrs = "{\"axis\":1}";
  touch.reference.inputs = {{true, DType::f32, {16}}, {}, {true, DType::i64, {}}};
  touch.reference.outputs = {{true, DType::f16, {4}}};
  plan.steps = {fill, halo, out, touch};
  return plan;
}

Plan top_k_plan(bool k_is_input) {
  Plan plan = test_plan();
  plan.inputs = {{"x", DType::f32, {6}}};
  plan.outputs = {{"values", DType::f32, {2}}, {"indices", DType::i64, {2}}};
  Step step;
  step.kind = StepKind::reference;
  step.name = "best";
  step.args = {input(0, 24), output(0, 8), output(1, 16)};
  step.reference.op = "TopK";
  step.reference.name = "best";
  step.reference.opset = k_is_input ? 11 : 9;
  step.reference.attrs = k_is_input ? R"({"axis":["int",-1]})" : R"({"axis":["int",0],"k":["int",2]})";
  step.reference.inputs = {{true, DType::f32, {6}}};
  step.reference.outputs = {{true, DType::f32, {2}}, {true, DType::i64, {2}}};
  if (k_is_input) {
    plan.inputs.push_back({"k", DType::i64, {1}});
    step.reference.inputs.push_back({true, DType::i64, {1}});
    step.args.insert(step.args.begin() + 1, input(1, 8));
  }
  plan.steps = {step};
  return plan;
}

namespace {

void touch(const ReferenceCall& call, std::span<std::byte* const> buffers) {
  size_t at = 0;
  uint8_t sum = 0;
  for (const auto& operand : call.inputs) {
    if (!operand.present) continue;
    const auto bytes = tensor_bytes(operand.type, operand.shape);
    for (int64_t i = 0; i < *bytes; ++i) sum = static_cast<uint8_t>(sum + std::to_integer<uint8_t>(buffers[at][i]));
    ++at;
  }
  for (const auto& operand : call.outputs) {
    if (!operand.present) continue;
    const auto bytes = tensor_bytes(operand.type, operand.shape);
    if (*bytes > 0) std::memset(buffers[at], sum, static_cast<size_t>(*bytes));
    ++at;
  }
}

}  // namespace

ReferenceKernel touch_maker(const ReferenceCall& call) {
  return [&call](std::span<std::byte* const> buffers) { touch(call, buffers); };
}

}  // namespace kilter
