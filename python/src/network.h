// Networks for Python: a session, and models in memory.
#pragma once

#include <nanobind/nanobind.h>

#include "compile/memory_model.h"

namespace kilter::python {

namespace nb = nanobind;

/// Adds the classes Network and MemoryModel to the module.
void add_networks(nb::module_& module);

}  // namespace kilter::python
