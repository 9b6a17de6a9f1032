// Counts the calls of operator new in a test program, and lets one of them fail.
#pragma once

#include <cstdint>

namespace kilter {

/// Calls so far, in all threads.
int64_t allocation_count();
/// The n-th call from now on, in whichever thread, throws bad_alloc; 0: none does.
void fail_allocation(int64_t n);
/// How many calls are left until that one; 0: it has failed, or none is to.
int64_t allocation_to_fail();

}  // namespace kilter
