// Sets up a runner for a program from a file that may be damaged.
#pragma once

#include <algorithm>
#include <memory>
#include <utility>

#include "exec/thread_pool.h"
#include "vm/file_runner.h"

namespace kilter {

/// Throws Error if the program is refused. Programs that need much memory are accepted without a runner.
inline void set_up_program(vm::ProgramFile program) {
  constexpr int64_t kMostBytes = 1 << 20;
  for (const auto& segment : program.segments) {
    for (const Plan& plan : segment.plans) {
      if (std::max(plan.arena_bytes, plan.scratch_bytes) > kMostBytes) return;
    }
  }
  vm::FileRunner(std::make_shared<vm::FileProgram>(std::move(program)), std::make_shared<ThreadPool>(1));
}

}  // namespace kilter
