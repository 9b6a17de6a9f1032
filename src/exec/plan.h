// The plan: a flat list of steps over one arena. It is what the compiler hands to the executor and what a compiled file
// holds. Everything here is plain data.
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

namespace kilter {

/// What a kernel gets. `buffers`: bases of its non-scratch buffers, in order. Scratch of a worker: scratch + worker *
/// stride.
struct KernelArgs {
  std::byte* const* buffers;
  const int64_t* dims;  ///< for shape-generic kernels; null today
  std::byte* scratch;
  int64_t scratch_stride;  ///< bytes
};
/// A kernel's answer where an index of Step::indices was out of range: it has taken another one in its place.
constexpr int32_t kIndexOutOfRange = 1;
/// Runs the parallel iterations [begin, end) of a kernel; 0 is success.
using KernelEntry = int32_t (*)(const KernelArgs*, int64_t begin, int64_t end, int32_t worker);

enum class Space : uint8_t { none, arena, constant, input, output };

/// A buffer of a step: byte offset in the arena or in the constants, or the index of a network input or output.
struct BufferRef {
  Space space = Space::none;
  int64_t offset = 0;  ///< bytes (arena, constant)
  int32_t index = 0;   ///< input, output
  int64_t bytes = 0;   ///< size of the buffer behind it; check_plan() holds it against the space's size
};

enum class StepKind : uint8_t {
  kernel,     ///< machine code over a parallel range
  reference,  ///< an operator's reference kernel (no schedule yet); needs the compiler library at run time
  halo,       ///< zeroes the halo of a buffer
  copy,       ///< plain copy of `copy_bytes` from args[0] to args[1]
};

/// What a step is for. Reports and models tell steps apart by it; the executor goes by StepKind.
enum class StepRole : uint8_t {
  layer,           ///< computes nodes of the network
  contraction,     ///< computes sums of products: the rate of multiply-adds may bound it
  movement,        ///< takes elements to other places, perhaps with element-wise nodes behind
  relayout,        ///< copies a value into another layout
  fused_relayout,  ///< copies a value into another layout, with element-wise nodes behind
  pack,            ///< packs an operand of a layer whose other steps follow
  halo,            ///< zeroes the halo of a value
  copy,            ///< copies a buffer
};

/// The halo of one buffer as `planes` planes of `rows` x `row_bytes`; everything but the interior is zeroed.
struct HaloFill {
  int64_t planes = 0, plane_bytes = 0, rows = 0, row_bytes = 0;
  int64_t top = 0, bottom = 0;  ///< rows
  int64_t left_bytes = 0, right_bytes = 0;
};

/// An operator that runs through its reference kernel: enough to find and call it.
struct ReferenceCall {
  std::string op, domain;
  std::string name;  ///< of the node, for its errors
  int32_t opset = 0;
  std::string attrs;  ///< JSON object of the node's attributes
  struct Operand {
    bool present = false;
    DType type = DType::f32;
    Shape shape;
  };
  std::vector<Operand> inputs, outputs;  ///< args of the step: present inputs, then present outputs, all dense
};

/// The operand of a kernel that holds indices, dense: what the executor reads again to say which one was out of range.
struct IndexOperand {
  int32_t arg = -1;  ///< of the step; -1: the kernel takes no indices
  DType type = DType::i64;
  Shape shape;
  IndexRange range;
};

struct Step {
  StepKind kind = StepKind::kernel;
  StepRole role = StepRole::layer;
  std::string name;      ///< the layer: name of the anchor's node
  std::string ops;       ///< operators fused, "Conv+Add+Relu"
  std::string problem;   ///< the task in one line
  std::string schedule;  ///< template and knobs in one line; "reference" where the reference kernel runs
  std::string shapes;    ///< of the operands, "f32[1,64,56,56] f32[64,64,3,3] -> f32[1,64,56,56]"
  std::string layouts;   ///< layouts of the operands, "c16 plain -> c16"
  std::string record;    ///< what the schedule comes from where it is not the default, in words: schedule_source.h
  uint64_t key = 0;      ///< kernel key
  int32_t kernel = -1;   ///< index into Plan::entries
  std::vector<BufferRef> args;
  IndexOperand indices;
  int64_t extent = 1;            ///< parallel iterations
  int32_t max_threads = 0;       ///< that its work pays for, or that the user allows; 0: as many as the pool has
  int64_t flops = 0, bytes = 0;  ///< of one run: executed; operands read and written once
  int64_t effective_flops = 0;   ///< as operators are defined: for Winograd more than `flops`, for merged groups less
  HaloFill halo;
  int64_t copy_bytes = 0;
  ReferenceCall reference;
};

struct PlanTensor {
  std::string name;
  DType type = DType::f32;
  Shape shape;
};

/// A buffer of the arena and the steps during which it holds something.
struct ArenaSpan {
  std::string name;  ///< of the value, or of the step that it serves as temporary memory
  int64_t offset = 0, bytes = 0;
  int64_t first_step = 0, last_step = 0;  ///< both inclusive
};

struct Plan {
  std::string model;           ///< name of the network
  std::string target;          ///< name of the target
  std::string cpu;             ///< LLVM's name of it
  Arch arch = kThisArch;       ///< what `code` is for
  std::string device = "cpu";  ///< what runs it: DeviceRow::name (exec/device.h)
  std::string codegen;         ///< version of the code generator
  std::string records;         ///< tuning records that were used, in words; empty: none
  int32_t compiled_for = 0;    ///< threads that what `records` chose was meant for; 0: any, or nothing is chosen
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
  std::shared_ptr<void> owner;
};

}  // namespace kilter
