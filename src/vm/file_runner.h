// Runs the program of a compiled file, without the compiler.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "exec/executor.h"
#include "exec/memory.h"
#include "exec/output_memory.h"
#include "vm/machine.h"
#include "vm/own_memory.h"
#include "vm/program_file.h"

namespace kilter::vm {

/// A file whose plans are ready to run on this machine. Runners share it.
class FileProgram {
 public:
  /// Maps the code of all plans. Throws unsupported when this machine cannot run it, naming the features that it lacks.
  explicit FileProgram(ProgramFile file);

  /// The file; its plans are empty.
  const ProgramFile& file() const { return file_; }
  /// The plans of a segment.
  const std::vector<std::shared_ptr<const ::kilter::Program>>& plans(size_t segment) const { return plans_[segment]; }
  size_t plan_count() const;
  /// The code generator of its plans; empty if it has none.
  std::string codegen() const;
  /// Returns one line for each segment: "0 (Conv 'conv' and 3 more nodes): f32[1,4], 2 steps; other shapes by reference
  /// kernels".
  std::string text() const;
  /// Bytes of machine code and constants.
  int64_t held_bytes() const;

 private:
  ProgramFile file_;
  std::vector<std::vector<std::shared_ptr<const ::kilter::Program>>> plans_;  ///< by segment
};

/// Callbacks of a runner, and the source of its memory; each may be empty.
struct RunnerHooks {
  std::function<void(const ::kilter::Program& plan, size_t step)> before, after;  ///< around each step of a plan
  std::optional<Allocator> allocator;  ///< of working memory and of the outputs of plans
};

/// Used by one thread at a time.
class FileRunner {
 public:
  /// A segment runs reference kernels for shapes that the file has no plan for, unless they would do more operations
  /// than this in one run: about half a second.
  static constexpr int64_t kMostOperations = int64_t{1} << 27;

  /// Allocates the working memory of all plans, which they use in turn.
  FileRunner(std::shared_ptr<const FileProgram> program, std::shared_ptr<ThreadPool> pool,
             CheckInterrupt interrupt = {}, RunnerHooks hooks = {});

  /// Runs the network once. `inputs`: one value for each of ProgramFile::inputs. Returns one for each output, with
  /// memory of its own. Throws bad_input for an input that does not fit its port, bad_model for values that do not fit
  /// together, and unsupported for shapes in a segment that the file has neither code nor reference kernels for.
  std::vector<AnyValue> run(std::vector<AnyValue> inputs);
  const FileProgram& program() const { return *program_; }
  /// Sets the observer of the instructions of all later runs; null: none.
  void observe(Observer* observer) { machine_.observe(observer); }
  /// Bytes of working memory.
  int64_t held_bytes() const { return arena_bytes_ + scratch_stride_ * pool_->threads(); }

 private:
  /// A plan of a segment that has run.
  struct Form {
    Block staging;  ///< from the allocator; without one, the instance has its own
    std::unique_ptr<Instance> instance;
    std::vector<OutputMemory> memory;
  };
  std::vector<AnyValue> run_segment(size_t segment, std::vector<AnyValue> inputs);
  std::vector<AnyValue> run_plan(size_t segment, size_t plan, const std::vector<AnyValue>& inputs);
  std::vector<AnyValue> interpret_segment(size_t segment, std::vector<AnyValue> inputs);
  void check_inputs(const std::vector<AnyValue>& inputs) const;
  const Allocator* allocator() const { return hooks_.allocator ? &*hooks_.allocator : nullptr; }

  RunnerHooks hooks_;
  std::shared_ptr<const FileProgram> program_;
  std::shared_ptr<ThreadPool> pool_;
  int64_t arena_bytes_ = 0, scratch_stride_ = 0;
  Block arena_, scratch_;
  std::vector<std::vector<Form>> forms_;  ///< by segment: for each of its plans
  UsedMemory fixed_;
  Machine machine_;
};

}  // namespace kilter::vm
