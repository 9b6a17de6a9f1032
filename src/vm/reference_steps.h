// Runs the reference steps of plans (ReferenceCall in exec/plan.h) without the compiler.
#pragma once

namespace kilter {

/// Enables this process to run reference steps. install_reference_runner() calls it; a program without the compiler
/// does so itself.
void install_reference_kernels();

}  // namespace kilter
