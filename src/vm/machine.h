// Runs programs.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "base/any_value.h"
#include "exec/plan.h"
#include "exec/trace.h"
#include "vm/host_op.h"
#include "vm/program.h"

namespace kilter::vm {

/// Runs segment `segment` of a program on values of its inputs, and returns the values of its outputs.
using RunSegment = std::function<std::vector<AnyValue>(int32_t segment, std::vector<AnyValue> inputs)>;

/// Called by loops before each iteration; may throw to end the run.
using CheckInterrupt = std::function<void()>;

/// Watches a run. The instructions of a region are inside the instruction that runs it.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void begin(const Instr& instr) = 0;
  virtual void end() = 0;        ///< the innermost instruction that has begun ends
  virtual void iteration() = 0;  ///< the innermost instruction, a loop, begins an iteration
  /// The innermost instruction, a segment, enters the machine code of a plan. Returns where to record the run; null:
  /// nowhere.
  virtual RunTrace* enter_code(const Plan& plan) = 0;
  /// It leaves the machine code.
  virtual void leave_code() = 0;
};

class Machine {
 public:
  /// The program must outlive the machine.
  Machine(const Program& program, RunSegment segments, CheckInterrupt interrupt = {}, const HostOptions& host = {})
      : program_(program), segments_(std::move(segments)), interrupt_(std::move(interrupt)), host_(host) {}

  /// Runs the network once. `inputs`: one value for each input of the program's graph. Returns one for each output.
  /// Throws bad_model for values that do not fit together, naming the node.
  std::vector<AnyValue> run(std::vector<AnyValue> inputs) const { return call(0, std::move(inputs)); }

  /// Sets the observer of all later runs; null: none.
  void observe(Observer* observer) { observer_ = observer; }

 private:
  using Registers = std::vector<AnyValue>;
  std::vector<AnyValue> call(int32_t function, std::vector<AnyValue> inputs) const;
  void execute(const Instr& instr, Registers& registers) const;
  void begin_iteration() const;
  std::vector<AnyValue> control(const Instr& instr, Registers& registers) const;
  /// Calls the function of region `region` with its own inputs, followed by what it captures.
  std::vector<AnyValue> call_region(const Instr& instr, size_t region, std::vector<AnyValue> inputs,
                                    const Registers& registers) const;
  std::vector<AnyValue> branch(const Instr& instr, Registers& registers) const;
  std::vector<AnyValue> loop(const Instr& instr, Registers& registers) const;
  std::vector<AnyValue> scan(const Instr& instr, Registers& registers) const;
  /// `most`: limit on the iterations.
  std::vector<AnyValue> scan_once(const Instr& instr, std::vector<AnyValue> inputs, Registers& registers,
                                  std::optional<int64_t> most = {}) const;
  std::vector<AnyValue> map(const Instr& instr, Registers& registers) const;

  const Program& program_;
  RunSegment segments_;
  CheckInterrupt interrupt_;
  Observer* observer_ = nullptr;
  HostOptions host_;
};

}  // namespace kilter::vm
