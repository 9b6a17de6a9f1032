// The plan: a flat list of steps over one arena. The compiler passes it to the executor, and a compiled file contains
// it. Everything here is plain data.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/cpu_info.h"
#include "base/index_fault.h"
#include "base/tensor.h"
#include "packing/recipe.h"

namespace kilter {

/// The arguments of a kernel. `buffers` are the base addresses of its non-scratch buffers, in order. The scratch of a
/// worker is at scratch + worker * stride.
struct KernelArgs {
  std::byte* const* buffers;
  const int64_t* dims;  ///< for shape-generic kernels; currently null
  std::byte* scratch;
  int64_t scratch_stride;  ///< bytes
};
/// The result of a kernel in which an index of Step::indices was out of range. The kernel used another index instead.
constexpr int32_t kIndexOutOfRange = 1;
/// Runs the parallel iterations [begin, end) of a kernel; 0 is success.
using KernelEntry = int32_t (*)(const KernelArgs*, int64_t begin, int64_t end, int32_t worker);

enum class Space : uint8_t { none, arena, constant, input, output };

/// A buffer of a step: a byte offset in the arena or in the constants, or the index of a network input or output.
struct BufferRef {
  Space space = Space::none;
  int64_t offset = 0;  ///< bytes (arena, constant)
  int32_t index = 0;   ///< input, output
  int64_t bytes = 0;   ///< size of the buffer; check_plan() checks it against the space's size
};

enum class StepKind : uint8_t {
  kernel,     ///< machine code over a parallel range
  reference,  ///< an operator's reference kernel (no schedule yet); needs the compiler library at run time
  halo,       ///< zeroes the halo of a buffer
  copy,       ///< plain copy of `copy_bytes` from args[0] to args[1]
};

/// The purpose of a step that runs a kernel or a reference kernel; for other steps the kind is enough, and their role
/// is `layer`. Reports and models distinguish steps by their role; the executor uses StepKind.
enum class StepRole : uint8_t {
  layer,           ///< computes nodes of the network
  contraction,     ///< computes sums of products: the rate of multiply-adds may bound it
  movement,        ///< moves elements to other places, perhaps followed by element-wise nodes
  relayout,        ///< copies a value into another layout
  fused_relayout,  ///< copies a value into another layout, followed by element-wise nodes
  pack,            ///< packs an operand of a layer whose other steps follow
};

/// The halo of one buffer, described as `planes` planes of `rows` x `row_bytes`. Everything outside the interior
/// becomes `value`.
struct HaloFill {
  int64_t planes = 0, plane_bytes = 0, rows = 0, row_bytes = 0;
  int64_t top = 0, bottom = 0;  ///< rows
  int64_t left_bytes = 0, right_bytes = 0;
  int64_t value = 0;  ///< of each byte of the halo, 0 to 255
};

/// An operator that runs through its reference kernel, with everything needed to find and call the kernel.
struct ReferenceCall {
  std::string op, domain;
  std::string name;  ///< name of the node, for errors
  int32_t opset = 0;
  std::string attrs;  ///< JSON object of the node's attributes
  struct Operand {
    bool present = false;
    DType type = DType::f32;
    Shape shape;
  };
  std::vector<Operand> inputs, outputs;  ///< args of the step: present inputs, then present outputs, all dense
};

/// The dense operand of a kernel that contains indices, or the lengths of sequences. The executor reads it again to
/// report which of them was out of range.
struct IndexOperand {
  int32_t arg = -1;  ///< index in the step's args; -1: the kernel reads neither
  DType type = DType::i64;
  Shape shape;
  IndexRange range;
};

struct Step {
  StepKind kind = StepKind::kernel;
  StepRole role = StepRole::layer;
  int32_t device = 0;    ///< index into Plan::devices; reference steps run on the host
  std::string name;      ///< the layer: the name of the anchor's node
  std::string ops;       ///< operators fused, "Conv+Add+Relu"
  std::string problem;   ///< the task in one line
  std::string schedule;  ///< template and knobs in one line; "reference" if the reference kernel runs
  std::string shapes;    ///< shapes of the operands, "f32[1,64,56,56] f32[64,64,3,3] -> f32[1,64,56,56]"
  std::string layouts;   ///< layouts of the operands, "c16 plain -> c16"
  std::string record;    ///< origin of the schedule, in words, if it is not the default: schedule_source.h
  uint64_t key = 0;      ///< kernel key
  int32_t kernel = -1;   ///< index into Plan::entries
  std::vector<BufferRef> args;
  IndexOperand indices;
  int64_t extent = 1;             ///< parallel iterations
  int32_t max_threads = 0;        ///< limit that its work or the user sets; 0: as many as the pool has
  DType multiplies = DType::f32;  ///< type of the products that a contraction sums
  int64_t flops = 0, bytes = 0;   ///< per run: operations executed; operands read and written once
  int64_t effective_flops = 0;    ///< by the operators' definitions: for Winograd more than `flops`, for merged groups
                                  ///< less
  HaloFill halo;
  int64_t copy_bytes = 0;
  ReferenceCall reference;
};

struct PlanTensor {
  std::string name;
  DType type = DType::f32;
  Shape shape;
};

/// A buffer of the arena and the steps during which it is live.
struct ArenaSpan {
  std::string name;  ///< name of the value, or of the step that uses it as temporary memory
  int64_t offset = 0, bytes = 0;
  int64_t first_step = 0, last_step = 0;  ///< both inclusive
};

/// A packed constant whose recipe is known.
struct RecipeOfConstant {
  int64_t offset = 0;  ///< in the plan's constants
  int64_t bytes = 0;
  DType type = DType::f32;  ///< of its elements
  Recipe recipe;
  Tensor source;
};

struct Plan {
  std::string model;      ///< name of the network
  std::string target;     ///< name of the target
  std::string cpu;        ///< LLVM's name of the target
  Arch arch = kThisArch;  ///< of `code`
  /// The devices that run the steps, by DeviceRow::name (exec/device.h). They address the same memory. The first
  /// allocates it, and copies inputs and outputs.
  std::vector<std::string> devices = {"cpu"};
  std::string codegen;                 ///< version of the code generator
  std::string precision = "declared";  ///< name of the Precision that the plan was compiled with
  std::string records;                 ///< the tuning records that were used, in words; empty: none
  int32_t compiled_for = 0;  ///< number of threads that the schedules from `records` were chosen for; 0: any, or none
                             ///< was chosen
  std::vector<std::string> required_features;  ///< CPU features the code uses, by the names of base/cpu_info.h
  std::vector<PlanTensor> inputs, outputs;
  int64_t arena_bytes = 0;
  int64_t scratch_bytes = 0;  ///< per worker
  std::vector<Step> steps;
  std::vector<ArenaSpan> arena;  ///< for reports; running does not need it
  std::vector<int64_t> entries;  ///< byte offsets of kernel entries in `code`
  /// Machine code and packed constants; `owner` keeps them alive (heap, or a mapped file).
  const std::byte* code = nullptr;
  int64_t code_bytes = 0;
  const std::byte* constants = nullptr;
  int64_t constants_bytes = 0;
  /// How constants are packed, for files that store the tensors instead. Empty unless the compiler was asked for it.
  std::vector<RecipeOfConstant> recipes;
  std::shared_ptr<void> owner;
};

}  // namespace kilter
