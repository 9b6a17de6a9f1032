// The worker: a process that runs variants for a tuner, and may be killed by them.
#pragma once

#include <span>

namespace kilter::tune {

/// Serves the tuner that started this process until the tuner is gone. `arguments`: as passed by child.cpp. Returns the
/// program's exit code: 0, or 2 if it was not started by a tuner. Throws errors that prevent it from serving.
int worker_main(std::span<const char* const> arguments);

}  // namespace kilter::tune
