// The error for memory that cannot be allocated, with the same text everywhere.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

namespace kilter {

/// Returns how many bytes this process could allocate now: the lesser of the machine's available memory (MemAvailable
/// of /proc/meminfo) and the unused part of the limit on the address space (RLIMIT_AS). Returns the largest number if
/// neither is known.
int64_t free_memory();

/// Returns "1.2 GB", "412 MB", "96 bytes".
std::string memory_text(int64_t bytes);

/// Throws out_of_memory: "cannot allocate 1.2 GB for WHAT: out of memory (412 MB available)". `limit` is the most that
/// this process may use, if the caller knows it.
[[noreturn]] void fail_out_of_memory(int64_t bytes, std::string_view what,
                                     int64_t limit = std::numeric_limits<int64_t>::max());

}  // namespace kilter
