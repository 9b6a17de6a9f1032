// Memory that the process has allocated and released again.
#pragma once

namespace kilter {

/// Returns memory that the C library keeps for later allocations to the system, if it is more than 256 MiB. Compiling a
/// network leaves that much behind, in pieces between others. Takes up to 0.2 ms for each MiB that goes back. Only one
/// of eight calls looks, which takes time too.
void return_free_memory();

}  // namespace kilter
