// Commands and compilations that are watched and stopped from Python.
#pragma once

#include <nanobind/nanobind.h>

#include <string>
#include <vector>

#include "console.h"

namespace kilter::python {

namespace nb = nanobind;

/// Returns a console that runs Python's signal handlers, such as that of Ctrl-C, and calls `progress`, a function of a
/// text or None, while a command works. What they raise ends the command. Must be used without the interpreter's lock.
tool::Console watched_by(nb::object progress);

/// Adds run_command(), main() and their kin to the module.
void add_commands(nb::module_& module);

}  // namespace kilter::python
