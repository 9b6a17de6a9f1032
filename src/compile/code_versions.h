// Versions of the kernels that are compiled for a target.
#pragma once

#include "codegen/backend.h"
#include "schedule/kernel_versions.h"

namespace kilter {

/// Returns the versions of the kernels that the target's back end generates from the current templates.
inline KernelVersions code_versions(const Target& target) { return KernelVersions(backend_of(target).version()); }

}  // namespace kilter
