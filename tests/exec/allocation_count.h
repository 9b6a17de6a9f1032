// Counts the calls of operator new in a test program.
#pragma once

#include <cstdint>

namespace kilter {

/// Calls so far, in all threads.
int64_t allocation_count();

}  // namespace kilter
