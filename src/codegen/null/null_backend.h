// The back end without machine code: a kernel's object is its loop IR as text, which the device "null" interprets. It
// holds every other back end to what the loop IR means.
#pragma once

#include "codegen/backend.h"

namespace kilter::codegen {

extern const Backend kNullBackend;

/// Makes programs of this process know the device "null".
void add_null_device();

}  // namespace kilter::codegen
