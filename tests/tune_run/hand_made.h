// A network of a few kernels written in assembly, and kernels that do things that kernels must not do.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "exec/plan.h"
#include "tune/run/runner.h"
#include "tune/run/value.h"

namespace kilter::tune {

/// The behaviour of a kernel. Its buffers are `from` and `to`; `add` reads `constant`, too.
enum class Deed : int32_t {
  twice,          ///< to[i] = 2 * from[i]
  add,            ///< to[i] = from[i] + constant[i]
  same,           ///< to[i] = from[i]
  illegal,        ///< ud2
  hang,           ///< jumps to itself
  sleep,          ///< waits for a signal that never comes
  null_store,     ///< writes to address 0
  past_end,       ///< like twice, then writes past its output
  past_end_on_1,  ///< like past_end on the second thread, while the first one waits forever
  before_start,   ///< like twice, and writes before its output
  into_input,     ///< writes to its input
  recursion,      ///< calls itself forever
  divide,         ///< divides by zero
  abort,          ///< sends itself SIGABRT
  leave,          ///< exits the process
  allocate,       ///< maps memory until there is none left, then writes to the address returned
  answer7,        ///< returns 7
  slow,           ///< like twice, but some milliseconds later
  killed,         ///< sends itself SIGKILL
  over_times,     ///< like twice, and copies its input over the first times of the log
  over_board,     ///< copies its input over the Board (tune/run/wire.h) except its first word, then ud2
  open_file,      ///< creates a file and opens it for writing
  start_program,  ///< executes /bin/true
  open_socket,    ///< opens a network socket
  fork_off,       ///< creates a child process
  signal_tuner,   ///< asks whether it may signal the tuner
  read_file,      ///< like twice, after opening a file for reading
  ask_in_vain,    ///< like twice, after a harmless system call that it does not need and that fails
  count
};

/// The number of floats in the input, the output and each buffer of the arena.
constexpr int64_t kCount = 1008;
/// The network y = 2 * (2 * (2 * x + c)) in four layers, "layer0" to "layer3". `deeds` gives some of them another
/// behaviour.
Plan hand_made(const std::map<int, Deed>& deeds = {});
/// The values that the layers of such a plan compute, for checking them.
std::vector<StepValue> hand_made_values(const Plan& plan);
Tensor hand_made_input();

/// Options for hand-made networks, with the worker programs from the build folder.
RunnerOptions hand_made_options();
std::filesystem::path built_worker();
std::filesystem::path built_kilter();

/// Describes each fault as "3 crash layer3": step, kind and layer.
std::vector<std::string> brief(const std::vector<Fault>& faults);

}  // namespace kilter::tune
