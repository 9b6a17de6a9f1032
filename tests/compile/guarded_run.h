// Runs compiled graphs between fences and compares them with the reference kernels; shared by the tests of this folder.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "compile/compile.h"
#include "exec/executor.h"
#include "ops/support/cases.h"

namespace kilter {

/// The x86-64 levels that this machine runs, and the machine itself. If none of these targets has execution units half
/// as wide as its registers, another target with such limits is added.
const std::vector<Target>& targets_here();

/// The case with all random operands except the first turned into constants, like weights.
ParsedCase with_weights(ParsedCase c);

/// Compiles for a target, with defaults for everything else.
Compiled compile_for(const Graph& graph, const Target& target);

/// One line per step: name, operators, schedule. For messages.
std::string steps_text(const Plan& plan);

/// Returns "" if output `index` is right, otherwise what is wrong.
using Judge = std::function<std::string(size_t index, const Tensor& got)>;

/// Runs a plan on two threads, with every tensor between fences and `shift` bytes off the 64-byte boundary. Returns ""
/// if every output is right, the inputs are unchanged and nothing else is written; otherwise what is wrong.
std::string run_guarded(const std::shared_ptr<const Program>& program, const std::vector<Tensor>& inputs,
                        const Judge& judge, size_t shift);
/// Like run_guarded() with a Judge, for outputs that must equal `want` within the tolerance.
std::string run_guarded(const std::shared_ptr<const Program>& program, const std::vector<Tensor>& inputs,
                        const std::vector<Tensor>& want, const Tolerance& tolerance, size_t shift);

/// Runs once and checks every blocked value as soon as it is written. Returns "" if every value's halo and the unused
/// lanes of its last block are 0, otherwise which element is not.
std::string check_padding(const Compiled& compiled, const std::shared_ptr<const Program>& program,
                          const std::vector<Tensor>& inputs);

/// The outputs of one run on `threads` threads.
std::vector<Tensor> run_on(const std::shared_ptr<const Program>& program, const std::vector<Tensor>& inputs,
                           int threads);

}  // namespace kilter
