// The back end for OpenCL devices. A kernel's object is OpenCL C, which the device's driver compiles when a plan is
// loaded.
#pragma once

#include "codegen/backend.h"

namespace kilter::codegen {

extern const Backend kOpenClBackend;

/// Registers the device "opencl" in this process.
void add_opencl_device();

}  // namespace kilter::codegen
