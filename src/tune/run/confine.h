// What code on trial may ask of the system: a seccomp filter for the worker.
#pragma once

namespace kilter::tune {

/// From now on all threads of this process can compute, talk over the descriptors that are open and read files; nothing
/// else. What no kernel of a network has a reason to do (start a program, open a file for writing or a socket, signal
/// another process) raises SIGSYS; any other call that is not needed fails with EPERM. Never undone. False where the
/// system has no such filters, and in builds with a sanitizer, whose run-time needs more; then nothing has changed.
bool confine_process();

}  // namespace kilter::tune
