// Commands and compilations that are watched and stopped from Python.
#pragma once

#include <nanobind/nanobind.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "console.h"

namespace kilter::python {

namespace nb = nanobind;

/// Returns a console that runs Python's signal handlers, such as that of Ctrl-C, and calls `progress`, a function of a
/// text or None, while a command works. What they raise ends the command. Must be used without the interpreter's lock.
tool::Console watched_by(nb::object progress);

/// An error whose message keeps the options of the command line. The messages of others name Python's arguments.
class VerbatimError : public Error {
 public:
  explicit VerbatimError(const Error& error) : Error(error) {}
};

/// Adds run_command(), main() and related functions to the module.
void add_commands(nb::module_& module);

}  // namespace kilter::python
