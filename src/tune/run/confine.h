// Restricts the system calls of code on trial, with a seccomp filter for the worker.
#pragma once

namespace kilter::tune {

/// Restricts all threads of this process to computing, communicating over the open descriptors and reading files. Calls
/// that no kernel of a network has a reason to make (starting a program, opening a file for writing or a socket,
/// signalling another process) raise SIGSYS; any other call that is not needed fails with EPERM. This cannot be undone.
/// Returns false and changes nothing if the system does not support such filters, and in sanitizer builds, whose
/// runtime library needs more calls.
bool confine_process();

}  // namespace kilter::tune
