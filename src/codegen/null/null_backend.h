// The back end without machine code. A kernel's object is its loop IR as text, which the device "null" interprets. All
// other back ends are tested against it for the meaning of the loop IR.
#pragma once

#include "codegen/backend.h"

namespace kilter::codegen {

extern const Backend kNullBackend;

/// Registers the device "null" in this process.
void add_null_device();

}  // namespace kilter::codegen
