// The error of memory that cannot be had, with one text everywhere.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

namespace kilter {

/// Bytes that this process could have now: what the machine has left (MemAvailable of /proc/meminfo) and what the limit
/// of its addresses (RLIMIT_AS) leaves, whichever is less; nothing known: the largest number.
int64_t free_memory();

/// "1.2 GB", "412 MB", "96 bytes".
std::string memory_text(int64_t bytes);

/// Throws out_of_memory: "cannot allocate 1.2 GB for WHAT: out of memory (412 MB available)". `limit`: what this
/// process may use at most, where the caller knows it.
[[noreturn]] void fail_out_of_memory(int64_t bytes, std::string_view what,
                                     int64_t limit = std::numeric_limits<int64_t>::max());

}  // namespace kilter
