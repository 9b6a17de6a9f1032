// Restricts the system calls that code on trial may make, by a seccomp filter for the worker.
#pragma once

namespace kilter::tune {

/// Restricts all threads of this process to computing, talking over the open descriptors and reading files. Calls that
/// no kernel of a network has a reason to make (starting a program, opening a file for writing or a socket, signalling
/// another process) raise SIGSYS; any other call that is not needed fails with EPERM. This cannot be undone. Returns
/// false and changes nothing if the system has no such filters, and in sanitizer builds, whose runtime library
/// needs more calls.
bool confine_process();

}  // namespace kilter::tune
