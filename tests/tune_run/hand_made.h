// Networks of a few kernels written in assembly, some of which do what no kernel may do.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "exec/plan.h"
#include "tune/run/runner.h"
#include "tune/run/value.h"

namespace kilter::tune {

/// What a kernel does. args: from, to; `add` has a constant between them.
enum class Deed : int32_t {
  twice,          ///< to[i] = 2 * from[i]
  add,            ///< to[i] = from[i] + constant[i]
  same,           ///< to[i] = from[i]
  illegal,        ///< ud2
  hang,           ///< jumps to itself
  sleep,          ///< waits for a signal that never comes
  null_store,     ///< writes to address 0
  past_end,       ///< twice, and writes behind its output
  past_end_on_1,  ///< the same on the second thread, while the first one waits for ever
  before_start,   ///< twice, and writes before its output
  into_input,     ///< writes to what it reads
  recursion,      ///< calls itself for ever
  divide,         ///< divides by zero
  abort,          ///< sends itself SIGABRT
  leave,          ///< ends the process
  allocate,       ///< maps memory until there is none, then writes to the address that it got
  answer7,        ///< answers 7
  slow,           ///< twice, after some milliseconds
  killed,         ///< sends itself SIGKILL
  over_times,     ///< twice, and writes what it reads over the first times of the log
  over_board,     ///< writes what it reads over all of the board but its first word, then ud2
  open_file,      ///< opens a file for writing, which it makes
  start_program,  ///< becomes /bin/true
  open_socket,    ///< of the network
  fork_off,       ///< makes a child
  signal_tuner,   ///< asks whether it may signal the tuner
  read_file,      ///< twice, after opening a file for reading
  ask_in_vain,    ///< twice, after a harmless call that it has no need for
  count
};

/// Step `i` is called "layer<i>"; input, arena and output hold `kCount` floats.
constexpr int64_t kCount = 1008;
/// y = 2 * (2 * (2 * x + c)): four layers, of which `deeds` changes some.
Plan hand_made(const std::map<int, Deed>& deeds = {});
/// The values of its layers.
std::vector<StepValue> hand_made_values(const Plan& plan);
Tensor hand_made_input();

/// For hand-made networks; the worker programs are those of the build.
RunnerOptions hand_made_options();
std::filesystem::path built_worker();
std::filesystem::path built_kilter();

/// "3 crash layer3" for each fault.
std::vector<std::string> brief(const std::vector<Fault>& faults);

}  // namespace kilter::tune
