// The back end without machine code. A kernel's object is its loop IR as text, which the device "null" interprets. This
// back end defines the meaning of the loop IR: all other back ends are tested against it.
#pragma once

#include "codegen/backend.h"

namespace kilter::codegen {

extern const Backend kNullBackend;

/// Registers the device "null" in this process.
void add_null_device();

}  // namespace kilter::codegen
