// Intel's tile registers (AMX) on processors that lack them, for tests of code that uses them.
#pragma once

#include <cstdint>

namespace kilter::testing {

/// Makes this process execute AMX instructions. Does nothing if the processor has them and the system permits them.
/// Otherwise it installs a handler for SIGILL that emulates LDTILECFG, STTILECFG, TILERELEASE, TILEZERO, TILELOADD,
/// TILELOADDT1, TILESTORED and the products of AMX-BF16 and AMX-INT8, as the processor's manual defines them. Every
/// thread has its own tile registers. Any other illegal instruction, or one whose operands do not fit the
/// configuration, ends the process as it would without the emulator. Only on x86-64.
void provide_amx();

/// The number of instructions that the emulator has executed in this process; 0 if the processor has AMX.
int64_t emulated_instructions();

}  // namespace kilter::testing
