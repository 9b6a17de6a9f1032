#include "hand_made.h"

#include <fmt/format.h>

#include <array>

// Calls pass rdi = KernelArgs (its first field points to the buffers), rsi = begin, rdx = end, ecx = worker.
__asm__(R"(
.macro for_all body:vararg
1:
  cmp %rdx, %rsi
  jge 2f
  movss (%r8,%rsi,4), %xmm0
  \body
  movss %xmm0, (%r9,%rsi,4)
  inc %rsi
  jmp 1b
2:
.endm
.macro from_to
  mov (%rdi), %rax
  mov (%rax), %r8
  mov 8(%rax), %r9
.endm
.macro done
  xor %eax, %eax
  ret
.endm
.pushsection .rodata
deeds_begin:
deed_twice:
  from_to
  for_all addss %xmm0, %xmm0
  done
deed_add:
  mov (%rdi), %rax
  mov (%rax), %r8
  mov 8(%rax), %r10
  mov 16(%rax), %r9
  for_all addss (%r10,%rsi,4), %xmm0
  done
deed_same:
  from_to
  for_all nop
  done
deed_illegal:
  ud2
deed_hang:
  jmp deed_hang
deed_sleep:
  mov $34, %eax
  syscall
  jmp deed_sleep
deed_null_store:
  xor %eax, %eax
  movl $1, (%rax)
  done
deed_past_end:
  from_to
  for_all addss %xmm0, %xmm0
  movl $1, (%r9,%rsi,4)
  done
deed_past_end_on_1:
  test %ecx, %ecx
  jz deed_hang
  jmp deed_past_end
deed_before_start:
  from_to
  for_all addss %xmm0, %xmm0
  movl $1, -4(%r9)
  done
deed_into_input:
  from_to
  movl $1, (%r8)
  for_all addss %xmm0, %xmm0
  done
deed_recursion:
  sub $1016, %rsp
  movq $1, (%rsp)
  call deed_recursion
  add $1016, %rsp
  ret
deed_divide:
  xor %ecx, %ecx
  mov $1, %eax
  cltd
  idiv %ecx
  done
deed_abort:
  mov $39, %eax
  syscall
  mov %eax, %edi
  mov $6, %esi
  mov $62, %eax
  syscall
3:
  jmp 3b
deed_leave:
  mov $231, %eax
  mov $3, %edi
  syscall
deed_allocate:
  mov $9, %eax
  xor %edi, %edi
  mov $0x1000000, %esi
  mov $3, %edx
  mov $0x8022, %r10d
  mov $-1, %r8
  xor %r9d, %r9d
  syscall
  test %rax, %rax
  jns deed_allocate
  movl $1, (%rax)
  done
deed_answer7:
  mov $7, %eax
  ret
deed_slow:
  from_to
  for_all addss %xmm0, %xmm0
  mov $20000000, %ecx
4:
  dec %ecx
  jnz 4b
  done
deed_killed:
  mov $39, %eax
  syscall
  mov %eax, %edi
  mov $9, %esi
  mov $62, %eax
  syscall
5:
  jmp 5b
deed_over_times:
  mov $4096, %r10d
  mov $4032, %ecx
  call write_log
  from_to
  for_all addss %xmm0, %xmm0
  done
deed_over_board:
  mov $8, %r10d
  mov $80, %ecx
  call write_log
  ud2
deed_open_file:
  lea made_file(%rip), %rdi
  mov $0x41, %esi
  mov $0600, %edx
  mov $2, %eax
  syscall
  done
deed_start_program:
  lea program_file(%rip), %rdi
  xor %esi, %esi
  xor %edx, %edx
  mov $59, %eax
  syscall
  done
deed_open_socket:
  mov $2, %edi
  mov $1, %esi
  xor %edx, %edx
  mov $41, %eax
  syscall
  done
deed_fork_off:
  mov $57, %eax
  syscall
  done
deed_signal_tuner:
  mov $110, %eax
  syscall
  mov %eax, %edi
  xor %esi, %esi
  mov $62, %eax
  syscall
  done
deed_read_file:
  push %rdi
  push %rsi
  push %rdx
  lea read_file(%rip), %rdi
  xor %esi, %esi
  mov $2, %eax
  syscall
  mov %eax, %edi
  mov $3, %eax
  syscall
  pop %rdx
  pop %rsi
  pop %rdi
  test %eax, %eax
  jz deed_twice
  ud2
deed_ask_in_vain:
  push %rdi
  push %rsi
  push %rdx
  xor %edi, %edi
  mov $0x5401, %esi
  xor %edx, %edx
  mov $16, %eax
  syscall
  pop %rdx
  pop %rsi
  pop %rdi
  jmp deed_twice
made_file:
  .asciz "/tmp/kilter-test-made-by-a-candidate"
program_file:
  .asciz "/bin/true"
read_file:
  .asciz "/proc/self/stat"
write_log:
  push %rdi
  push %rsi
  push %rdx
  mov (%rdi), %rax
  mov (%rax), %rsi
  mov %ecx, %edx
  mov $5, %edi
  mov $18, %eax
  syscall
  pop %rdx
  pop %rsi
  pop %rdi
  ret
deeds_end:
.popsection
)");

// The kernels in the order of Deed. (clang-format does not terminate on this list.)
// clang-format off
#define DEEDS(X) \
  X(twice) X(add) X(same) X(illegal) X(hang) X(sleep) X(null_store) X(past_end) X(past_end_on_1) X(before_start) \
  X(into_input) X(recursion) X(divide) X(abort) X(leave) X(allocate) X(answer7) X(slow) X(killed) X(over_times) \
  X(over_board) X(open_file) X(start_program) X(open_socket) X(fork_off) X(signal_tuner) X(read_file) X(ask_in_vain)
// clang-format on

extern "C" {
extern const std::byte deeds_begin[] __attribute__((visibility("hidden")));
extern const std::byte deeds_end[] __attribute__((visibility("hidden")));
#define DECLARE(name) extern const std::byte deed_##name[] __attribute__((visibility("hidden")));
DEEDS(DECLARE)
#undef DECLARE
}

namespace kilter::tune {
namespace {

constexpr int64_t kBytes = kCount * 4;

Step layer(int index, Deed deed, std::vector<BufferRef> args) {
  Step step;
  step.name = fmt::format("layer{}", index);
  step.ops = "Test";
  step.kernel = static_cast<int32_t>(deed);
  step.args = std::move(args);
  step.extent = kCount;
  return step;
}

}  // namespace

Plan hand_made(const std::map<int, Deed>& deeds) {
  Plan plan;
  plan.model = "hand-made";
  plan.target = plan.cpu = "x86-64-v2";
  plan.codegen = "by hand";
  plan.code = deeds_begin;
  plan.code_bytes = deeds_end - deeds_begin;
#define ENTRY(name) plan.entries.push_back(deed_##name - deeds_begin);
  DEEDS(ENTRY)
#undef ENTRY
  const Tensor constants(DType::f32, {kCount});
  for (int64_t i = 0; i < kCount; ++i) constants.data<float>()[i] = static_cast<float>(i % 7);
  plan.owner = std::make_shared<Tensor>(constants);
  plan.constants = constants.raw();
  plan.constants_bytes = kBytes;
  plan.inputs = {{"x", DType::f32, {kCount}}};
  plan.outputs = {{"y", DType::f32, {kCount}}};
  plan.arena_bytes = 3 * kBytes;
  const auto arena = [](int64_t at) { return BufferRef{Space::arena, at * kBytes, 0, kBytes}; };
  const BufferRef input{Space::input, 0, 0, kBytes}, output{Space::output, 0, 0, kBytes};
  const BufferRef constant{Space::constant, 0, 0, kBytes};
  const auto deed = [&](int index, Deed usual) {
    const auto it = deeds.find(index);
    return it == deeds.end() ? usual : it->second;
  };
  plan.steps = {
      layer(0, deed(0, Deed::twice), {input, arena(0)}), layer(1, deed(1, Deed::add), {arena(0), constant, arena(1)}),
      layer(2, deed(2, Deed::twice), {arena(1), arena(2)}), layer(3, deed(3, Deed::twice), {arena(2), output})};
  if (deed(1, Deed::add) != Deed::add) plan.steps[1].args = {arena(0), arena(1)};
  return plan;
}

std::vector<StepValue> hand_made_values(const Plan& plan) {
  std::vector<StepValue> values;
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    const Step& step = plan.steps[s];
    ValueLayout layout;
    layout.shape = {kCount};
    layout.strides = {1};
    values.push_back({"value of " + step.name, s, step.args.back(), layout});
  }
  return values;
}

Tensor hand_made_input() {
  Tensor x(DType::f32, {kCount});
  for (int64_t i = 0; i < kCount; ++i) x.data<float>()[i] = static_cast<float>(i + 1);
  return x;
}

std::filesystem::path built_worker() { return KILTER_WORKER; }
std::filesystem::path built_kilter() { return KILTER_PROGRAM; }

RunnerOptions hand_made_options() {
  RunnerOptions options;
  options.inputs = {hand_made_input()};
  options.worker = built_worker();
  options.timeout_ms = 300;
  options.memory_bytes = int64_t{256} << 20;
  return options;
}

std::vector<std::string> brief(const std::vector<Fault>& faults) {
  std::vector<std::string> out;
  for (const Fault& f : faults) out.push_back(fmt::format("{} {} {}", f.step, name(f.kind), f.layer));
  return out;
}

}  // namespace kilter::tune
