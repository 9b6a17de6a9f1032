// Counts the calls of operator new in a test program, and lets one of them fail.
#pragma once

#include <cstdint>

namespace kilter {

/// Returns the number of calls so far, in all threads.
int64_t allocation_count();
/// Makes the n-th call from now on, in any thread, throw bad_alloc; 0: none does.
void fail_allocation(int64_t n);
/// Returns how many calls are left until that one; 0: it has failed, or none was requested.
int64_t allocation_to_fail();

}  // namespace kilter
