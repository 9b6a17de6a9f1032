#include "exec/plan_check.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "exec/cpu_limits.h"

namespace kilter {
namespace {

constexpr int64_t kMaxElems = int64_t{1} << 40;
constexpr int64_t kMaxBytes = int64_t{1} << 46;
constexpr size_t kMaxDevices = 8;
constexpr std::array<std::string_view, 5> kSpaceNames = {"none", "arena", "constants", "input", "output"};

std::optional<int64_t> product(int64_t a, int64_t b) {
  int64_t result = 0;
  if (__builtin_mul_overflow(a, b, &result)) return std::nullopt;
  return result;
}

class Checker {
 public:
  Checker(const Plan& plan, ErrorKind kind) : plan_(plan), kind_(kind) {}

  void run() {
    size("arena", plan_.arena_bytes);
    size("scratch", plan_.scratch_bytes);
    size("code", plan_.code_bytes);
    size("constants", plan_.constants_bytes);
    if ((plan_.code_bytes > 0 && plan_.code == nullptr) || (plan_.constants_bytes > 0 && plan_.constants == nullptr)) {
      bad("code or constants have a size but no bytes");
    }
    if (plan_.compiled_for < 0 || plan_.compiled_for > kMaxThreads)
      bad("compiled for {} threads; expected 0 to {}", plan_.compiled_for, kMaxThreads);
    if (plan_.devices.empty() || plan_.devices.size() > kMaxDevices)
      bad("{} devices; expected 1 to {}", plan_.devices.size(), kMaxDevices);
    tensors("input", plan_.inputs);
    tensors("output", plan_.outputs);
    for (size_t i = 0; i < plan_.entries.size(); ++i) {
      if (plan_.entries[i] < 0 || plan_.entries[i] >= plan_.code_bytes) {
        bad("entry {} is at byte {} of the code; expected 0 to {}", i, plan_.entries[i], plan_.code_bytes - 1);
      }
    }
    for (index_ = 0; index_ < plan_.steps.size(); ++index_) step(plan_.steps[index_]);
  }

 private:
  template <class... Args>
  [[noreturn]] void bad(fmt::format_string<Args...> format, Args&&... args) const {
    throw Error(kind_, "plan '" + plan_.model + "': " + fmt::format(format, std::forward<Args>(args)...));
  }
  /// Throws an error about the current step.
  template <class... Args>
  [[noreturn]] void bad_step(fmt::format_string<Args...> format, Args&&... args) const {
    bad("step {} '{}': {}", index_, plan_.steps[index_].name, fmt::format(format, std::forward<Args>(args)...));
  }

  void size(std::string_view what, int64_t bytes) const {
    if (bytes < 0 || bytes > kMaxBytes) bad("{} of {} bytes; expected 0 to 2^46", what, bytes);
  }

  void tensors(std::string_view what, const std::vector<PlanTensor>& list) const {
    for (size_t i = 0; i < list.size(); ++i) {
      if (!tensor_bytes(list[i].type, list[i].shape)) {
        bad("{} {} '{}' is {}[{}]; expected a numeric type and at most 2^40 elements", what, i, list[i].name,
            name(list[i].type), text(list[i].shape));
      }
    }
  }

  int64_t space_bytes(size_t arg, const BufferRef& ref) const {
    switch (ref.space) {
      case Space::arena:
        return plan_.arena_bytes;
      case Space::constant:
        return plan_.constants_bytes;
      case Space::input:
      case Space::output: {
        const auto& list = ref.space == Space::input ? plan_.inputs : plan_.outputs;
        if (ref.index < 0 || ref.index >= static_cast<int64_t>(list.size())) {
          bad_step("buffer {} is {} {}; there are {}", arg, kSpaceNames[static_cast<size_t>(ref.space)], ref.index,
                   list.size());
        }
        const PlanTensor& tensor = list[static_cast<size_t>(ref.index)];
        return *tensor_bytes(tensor.type, tensor.shape);
      }
      case Space::none:
        break;
    }
    bad_step("buffer {} is in an unknown space; expected arena, constants, input or output", arg);
  }

  /// Checks that `bytes` from the buffer's start lie inside its space.
  void region(size_t arg, int64_t bytes, std::string_view what) const {
    const BufferRef& ref = plan_.steps[index_].args[arg];
    const int64_t space = space_bytes(arg, ref);
    if (ref.offset < 0 || bytes < 0 || ref.offset > space || bytes > space - ref.offset) {
      bad_step("{} {} occupies {} bytes at byte {} of {}, which has {}", what, arg, bytes, ref.offset,
               kSpaceNames[static_cast<size_t>(ref.space)], space);
    }
  }

  void writable(size_t arg) const {
    const Space space = plan_.steps[index_].args[arg].space;
    if (space != Space::arena && space != Space::output) {
      bad_step("writes buffer {} in {}; expected arena or output", arg, kSpaceNames[static_cast<size_t>(space)]);
    }
  }

  void arg_count(size_t expected) const {
    const size_t got = plan_.steps[index_].args.size();
    if (got != expected) bad_step("has {} buffers; expected {}", got, expected);
  }

  void step(const Step& s) const {
    if (s.extent < 0 || s.max_threads < 0 || s.flops < 0 || s.effective_flops < 0 || s.bytes < 0) {
      bad_step("extent {}, threads {}, {} flops, {} effective flops, {} bytes; expected 0 or more", s.extent,
               s.max_threads, s.flops, s.effective_flops, s.bytes);
    }
    if (s.device < 0 || s.device >= std::ssize(plan_.devices))
      bad_step("runs on device {}; there are {}", s.device, plan_.devices.size());
    for (size_t i = 0; i < s.args.size(); ++i) region(i, s.args[i].bytes, "buffer");
    switch (s.kind) {
      case StepKind::kernel:
        if (s.kernel < 0 || s.kernel >= static_cast<int64_t>(plan_.entries.size())) {
          bad_step("calls kernel {}; there are {}", s.kernel, plan_.entries.size());
        }
        return indices(s);
      case StepKind::reference:
        return reference(s);
      case StepKind::halo:
        arg_count(1);
        writable(0);
        return halo(s.halo);
      case StepKind::copy:
        arg_count(2);
        writable(1);
        region(0, s.copy_bytes, "copy from buffer");
        region(1, s.copy_bytes, "copy to buffer");
        return;
    }
    bad_step("is of unknown kind {}", static_cast<int>(s.kind));
  }

  void indices(const Step& s) const {
    const IndexOperand& i = s.indices;
    if (i.arg < 0) return;
    if (i.arg >= std::ssize(s.args)) bad_step("reads its indices from buffer {}; there are {}", i.arg, s.args.size());
    const auto bytes = tensor_bytes(i.type, i.shape);
    if (!bytes || (i.type != DType::i32 && i.type != DType::i64))
      bad_step("has indices {}[{}]; expected i32 or i64 and at most 2^40 elements", name(i.type), text(i.shape));
    region(static_cast<size_t>(i.arg), *bytes, "indices in buffer");
    if (s.args[static_cast<size_t>(i.arg)].offset % size_bytes(i.type) != 0)
      bad_step("has indices of {} at byte {}; expected a multiple of {}", name(i.type),
               s.args[static_cast<size_t>(i.arg)].offset, size_bytes(i.type));
    const std::vector<int64_t>& sizes = i.range.sizes;
    if (sizes.empty() || std::ranges::any_of(sizes, [](int64_t size) { return size < 0 || size > kMaxElems; }))
      bad_step("has indices for dimensions of sizes [{}]; expected one or more, each 0 to 2^40", text(sizes));
    if (i.range.axis < 0 || i.range.axis > kMaxElems) bad_step("has indices for axis {}", i.range.axis);
  }

  void halo(const HaloFill& h) const {
    const std::array fields = {h.planes, h.plane_bytes, h.rows,       h.row_bytes,
                               h.top,    h.bottom,      h.left_bytes, h.right_bytes};
    if (*std::min_element(fields.begin(), fields.end()) < 0) bad_step("halo has a negative size");
    if (h.bottom > h.rows || h.top > h.rows - h.bottom || h.right_bytes > h.row_bytes ||
        h.left_bytes > h.row_bytes - h.right_bytes) {
      bad_step("halo of {}+{} rows, {}+{} bytes is larger than its plane of {} rows of {} bytes", h.top, h.bottom,
               h.left_bytes, h.right_bytes, h.rows, h.row_bytes);
    }
    const auto plane = product(h.rows, h.row_bytes);
    if (!plane || *plane > h.plane_bytes) {
      bad_step("halo: {} rows of {} bytes do not fit into a plane of {} bytes", h.rows, h.row_bytes, h.plane_bytes);
    }
    const auto before_last = product(std::max<int64_t>(h.planes - 1, 0), h.plane_bytes);
    if (!before_last || *before_last > kMaxBytes) {
      bad_step("halo: {} planes of {} bytes are more than 2^46 bytes", h.planes, h.plane_bytes);
    }
    region(0, h.planes == 0 ? 0 : *before_last + std::min(*plane, kMaxBytes), "halo of buffer");
  }

  void reference(const Step& s) const {
    size_t arg = 0;
    const auto operands = [&](const std::vector<ReferenceCall::Operand>& list, bool written) {
      for (const ReferenceCall::Operand& operand : list) {
        if (!operand.present) continue;
        const auto bytes = tensor_bytes(operand.type, operand.shape);
        if (!bytes) {
          bad_step("operand {} is {}[{}]; expected a numeric type and at most 2^40 elements", arg, name(operand.type),
                   text(operand.shape));
        }
        if (arg >= s.args.size()) bad_step("has {} buffers, fewer than its operands", s.args.size());
        region(arg, *bytes, "operand");
        if (s.args[arg].offset % size_bytes(operand.type) != 0) {
          bad_step("operand {} of {} is at byte {}; expected a multiple of {}", arg, name(operand.type),
                   s.args[arg].offset, size_bytes(operand.type));
        }
        if (written) writable(arg);
        ++arg;
      }
    };
    operands(s.reference.inputs, false);
    operands(s.reference.outputs, true);
    arg_count(arg);
  }

  const Plan& plan_;
  ErrorKind kind_;
  size_t index_ = 0;
};

}  // namespace

std::optional<int64_t> tensor_bytes(DType type, const Shape& shape) {
  if (type == DType::string) return std::nullopt;
  bool empty = false;
  int64_t total = 1;
  for (int64_t d : shape) {
    if (d < 0) return std::nullopt;
    empty = empty || d == 0;
    if (d == 0) continue;
    if (total > kMaxElems / d) return std::nullopt;
    total *= d;
  }
  return empty ? 0 : total * size_bytes(type);
}

void check_plan(const Plan& plan, ErrorKind kind) { Checker(plan, kind).run(); }

}  // namespace kilter
