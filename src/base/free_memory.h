// Memory that the process has allocated and released again.
#pragma once

namespace kilter {

/// Gives the memory that the C library keeps for later allocations back to the system if it is more than 256 MiB.
/// Compiling a network leaves that much behind, in pieces between blocks in use. Takes up to 0.2 ms for each MiB given
/// back. Only every eighth call does anything, because the check itself takes time.
void return_free_memory();

}  // namespace kilter
