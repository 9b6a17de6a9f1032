// Graphs that Python programs build.
#pragma once

#include <nanobind/nanobind.h>

namespace kilter::python {

namespace nb = nanobind;

/// Adds the class GraphBuilder to the module.
void add_graphs(nb::module_& module);

}  // namespace kilter::python
