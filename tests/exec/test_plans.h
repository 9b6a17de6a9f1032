// Plans with a few kernels written in assembly, so that the executor is tested without a compiler.
#pragma once

#include <span>
#include <vector>

#include "exec/executor.h"
#include "exec/plan.h"

namespace kilter {

/// The kernels of test_code(), as indices of its entries.
enum TestKernel : int32_t {
  kDouble,    ///< f32: buffers[1][i] = 2 * buffers[0][i]
  kAnswer7,   ///< does nothing and returns 7
  kScratch,   ///< i64: writes `begin` to its worker's scratch, then buffers[0][i] = the value in that scratch
  kAddConst,  ///< f32: buffers[2][i] = buffers[0][i] + buffers[1][i]
  kAnswer1,   ///< does nothing and returns 1, kIndexOutOfRange
};

/// Returns a plan with test_code()'s machine code and `constants_bytes` of constants: the floats 0, 1, 2, ...
Plan test_plan(int64_t constants_bytes = 0);

/// Returns a plan for y = 2 * (2 * x) + c over `count` floats through the arena: kernel, copy, kernel, kernel.
Plan arithmetic_plan(int64_t count);

/// Returns a plan with one kernel that always reports an index out of range. Its input "ids", i32[2,3], consists of
/// indices into axis 1 of size 5.
Plan lookup_plan();

/// Returns a plan with every kind of step except kernels: a halo in the arena, copies, and a reference step of operator
/// "Touch".
Plan steps_plan();

/// Returns a plan with one reference step of operator TopK: the 2 largest of "x", f32[6], with their indices. It reads
/// k from an input "k" if `k_is_input`; otherwise k is an attribute.
Plan top_k_plan(bool k_is_input);

/// Makes a kernel that reads all inputs and fills every output with the sum of their bytes.
ReferenceKernel touch_maker(const ReferenceCall& call);

Step kernel_step(TestKernel kernel, std::vector<BufferRef> args, int64_t extent);
BufferRef arena(int64_t offset, int64_t bytes);
BufferRef constant(int64_t offset, int64_t bytes);
BufferRef input(int32_t index, int64_t bytes);
BufferRef output(int32_t index, int64_t bytes);

}  // namespace kilter
