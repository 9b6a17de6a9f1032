// The extension module kilter._kilter. The package's Python files wrap it; programs use those.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include "base/error.h"
#include "graph.h"
#include "network.h"
#include "ops/support/builder.h"
#include "python_console.h"

namespace kilter::python {
namespace {

const char* kind_name(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::usage:
      return "UsageError";
    case ErrorKind::bad_model:
      return "ModelError";
    case ErrorKind::bad_input:
      return "InputError";
    case ErrorKind::unsupported:
      return "UnsupportedError";
    case ErrorKind::io:
      return "FileError";
    case ErrorKind::out_of_memory:
      return "OutOfMemoryError";
    case ErrorKind::internal:
      break;
  }
  return "InternalError";
}

/// Raises the exception of kilter.errors for a kind of error.
void raise(const char* kind, const nb::object& message) {
  const nb::object type = nb::module_::import_("kilter.errors").attr(kind);
  PyErr_SetObject(type.ptr(), message.ptr());
}

/// Returns the message in the terms of the Python package.
nb::object with_arguments(const std::string& message) {
  return nb::module_::import_("kilter._arguments").attr("with_arguments")(message);
}

void translate(const std::exception_ptr& thrown, void* /*unused*/) {
  try {
    std::rethrow_exception(thrown);
  } catch (const VerbatimError& error) {
    raise(kind_name(error.kind()), nb::cast(error.message()));
  } catch (const Error& error) {
    raise(kind_name(error.kind()), with_arguments(error.message()));
  } catch (const ShapeNeedsValue& needs) {
    raise("UnsupportedError", nb::cast(needs.node + ": its shape depends on data"));
  }
}

}  // namespace
}  // namespace kilter::python

NB_MODULE(_kilter, module) {
  // Callbacks take the lock of the main interpreter: PyGILState_Ensure() knows no other.
  if (PyInterpreterState_GetID(PyInterpreterState_Get()) != 0)
    throw nanobind::import_error("kilter works in the main interpreter only, not in sub-interpreters");
  // Objects may outlive the interpreter, such as those of threads that have not ended; the library prints nothing then.
  nanobind::set_leak_warnings(false);
  nanobind::register_exception_translator(kilter::python::translate);
  kilter::python::add_commands(module);
  kilter::python::add_networks(module);
  kilter::python::add_graphs(module);
}
