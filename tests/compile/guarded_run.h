// Compiled graphs between fences, against what the reference kernels answer: what the tests of this folder share.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "compile/compile.h"
#include "exec/executor.h"
#include "ops/support/cases.h"

namespace kilter {

/// The levels of x86-64 that this machine runs, and the machine itself; at least one, and one whose units are half as
/// wide as its registers (this machine with such limits, where it has others).
const std::vector<Target>& targets_here();

/// A case whose random operands beyond the first are constants, as weights are.
ParsedCase with_weights(ParsedCase c);

/// Compiles for a target and otherwise with the defaults.
Compiled compile_for(const Graph& graph, const Target& target);

/// One line a step: name, operators, schedule. For messages.
std::string steps_text(const Plan& plan);

/// "" when output `index` is right, else what is wrong.
using Judge = std::function<std::string(size_t index, const Tensor& got)>;

/// Runs a plan on two threads, every tensor `shift` bytes off the 64-byte boundary and between fences. "" when every
/// output is right and its inputs are left as they are and nothing else is written; else what is wrong.
std::string run_guarded(const std::shared_ptr<const Program>& program, const std::vector<Tensor>& inputs,
                        const Judge& judge, size_t shift);
/// The same, for outputs that are `want` within the tolerance.
std::string run_guarded(const std::shared_ptr<const Program>& program, const std::vector<Tensor>& inputs,
                        const std::vector<Tensor>& want, const Tolerance& tolerance, size_t shift);

/// Runs once and looks at every blocked value as soon as it is written: "" when the unused lanes of its last block and
/// its halo hold 0, else what does not.
std::string check_padding(const Compiled& compiled, const std::shared_ptr<const Program>& program,
                          const std::vector<Tensor>& inputs);

/// The outputs of one run on `threads` threads.
std::vector<Tensor> run_on(const std::shared_ptr<const Program>& program, const std::vector<Tensor>& inputs,
                           int threads);

}  // namespace kilter
