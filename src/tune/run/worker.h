// The worker: a process that runs variants for a tuner, and may die of them.
#pragma once

#include <span>

namespace kilter::tune {

/// Serves the tuner that started this process until that is gone. `arguments`: as child.cpp gives them. Answers the
/// exit code of the program: 0, or 2 when it was not started by a tuner. Throws what keeps it from serving.
int worker_main(std::span<const char* const> arguments);

}  // namespace kilter::tune
