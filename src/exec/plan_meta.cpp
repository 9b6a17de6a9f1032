#include "exec/plan_meta.h"

#include <type_traits>

#include "base/error.h"

namespace kilter {
namespace {

constexpr uint8_t kLastType = static_cast<uint8_t>(kLastDType);
constexpr uint8_t kLastSpace = static_cast<uint8_t>(Space::output);
constexpr uint8_t kLastArch = static_cast<uint8_t>(Arch::aarch64);
constexpr uint8_t kLastKind = static_cast<uint8_t>(StepKind::copy);
constexpr uint8_t kLastRole = static_cast<uint8_t>(StepRole::pack);

class Writer {
 public:
  template <class T>
  void number(const T& value, const char* /*what*/) {
    using Bits = std::make_unsigned_t<T>;
    for (size_t i = 0; i < sizeof(T); ++i) out_ += static_cast<char>(static_cast<Bits>(value) >> (8 * i) & 0xff);
  }
  template <class T>
  void enumeration(const T& value, uint8_t /*last*/, const char* what) {
    number(static_cast<uint8_t>(value), what);
  }
  void flag(const bool& value, const char* what) { number(static_cast<uint8_t>(value), what); }
  void text(const std::string& value, const char* what) {
    number(static_cast<uint64_t>(value.size()), what);
    out_ += value;
  }
  template <class T, class Each>
  void list(const std::vector<T>& values, size_t /*least*/, const char* what, Each each) {
    number(static_cast<uint64_t>(values.size()), what);
    for (const T& value : values) each(value);
  }
  std::string take() { return std::move(out_); }

 private:
  std::string out_;
};

class Reader {
 public:
  Reader(std::span<const std::byte> bytes, std::string_view where) : bytes_(bytes), where_(where) {}

  template <class T>
  void number(T& value, const char* what) {
    using Bits = std::make_unsigned_t<T>;
    need(sizeof(T), what);
    Bits bits = 0;
    for (size_t i = 0; i < sizeof(T); ++i) {
      bits = static_cast<Bits>(bits | static_cast<Bits>(std::to_integer<Bits>(bytes_[at_ + i]) << (8 * i)));
    }
    value = static_cast<T>(bits);
    at_ += sizeof(T);
  }
  template <class T>
  void enumeration(T& value, uint8_t last, const char* what) {
    uint8_t raw = 0;
    number(raw, what);
    if (raw > last) bad(what, fmt::format("expected 0 to {}, got {}", last, raw));
    value = static_cast<T>(raw);
  }
  void flag(bool& value, const char* what) { enumeration(value, 1, what); }
  void text(std::string& value, const char* what) {
    const size_t size = count(1, what);
    value.assign(reinterpret_cast<const char*>(bytes_.data()) + at_, size);
    at_ += size;
  }
  /// `least`: the fewest bytes that one element occupies, so that a forged count is refused before memory is allocated
  /// for it.
  template <class T, class Each>
  void list(std::vector<T>& values, size_t least, const char* what, Each each) {
    values.resize(count(least, what));
    for (T& value : values) each(value);
  }
  void finish() const {
    if (at_ != bytes_.size()) bad("end", fmt::format("{} bytes follow the last field", bytes_.size() - at_));
  }

 private:
  [[noreturn]] void bad(const char* what, std::string_view problem) const {
    fail(ErrorKind::bad_input, "compiled file '{}': {} at byte {} of the meta section: {}", where_, what, at_, problem);
  }
  void need(size_t bytes, const char* what) const {
    if (bytes_.size() - at_ < bytes) {
      bad(what, fmt::format("expected {} bytes, got {}; the section is cut off", bytes, bytes_.size() - at_));
    }
  }
  size_t count(size_t least, const char* what) {
    uint64_t value = 0;
    number(value, what);
    const size_t most = (bytes_.size() - at_) / least;
    if (value > most) bad(what, fmt::format("count {} is more than the {} that the section can hold", value, most));
    return static_cast<size_t>(value);
  }

  std::span<const std::byte> bytes_;
  std::string_view where_;
  size_t at_ = 0;
};

// One description of the fields serves both writing (const objects) and reading.

template <class Io, class S>
void shape_fields(Io& io, S& shape) {
  io.list(shape, 8, "shape", [&](auto& d) { io.number(d, "dimension"); });
}

template <class Io, class T>
void tensor_fields(Io& io, T& tensor) {
  io.text(tensor.name, "name of a tensor");
  io.enumeration(tensor.type, kLastType, "element type");
  shape_fields(io, tensor.shape);
}

template <class Io, class T>
void buffer_fields(Io& io, T& ref) {
  io.enumeration(ref.space, kLastSpace, "space of a buffer");
  io.number(ref.offset, "offset of a buffer");
  io.number(ref.index, "index of a buffer");
  io.number(ref.bytes, "size of a buffer");
}

template <class Io, class T>
void operand_fields(Io& io, T& operand) {
  io.flag(operand.present, "presence of an operand");
  io.enumeration(operand.type, kLastType, "element type of an operand");
  shape_fields(io, operand.shape);
}

template <class Io, class T>
void reference_fields(Io& io, T& call) {
  io.text(call.op, "operator");
  io.text(call.domain, "domain");
  io.text(call.name, "name of a node");
  io.number(call.opset, "opset");
  io.text(call.attrs, "attributes");
  io.list(call.inputs, 10, "operands", [&](auto& operand) { operand_fields(io, operand); });
  io.list(call.outputs, 10, "results", [&](auto& operand) { operand_fields(io, operand); });
}

template <class Io, class T>
void halo_fields(Io& io, T& halo) {
  for (auto* field : {&halo.planes, &halo.plane_bytes, &halo.rows, &halo.row_bytes, &halo.top, &halo.bottom,
                      &halo.left_bytes, &halo.right_bytes, &halo.value}) {
    io.number(*field, "halo");
  }
}

template <class Io, class T>
void index_fields(Io& io, T& indices) {
  io.number(indices.arg, "index operand of a step");
  if (indices.arg < 0) return;
  io.enumeration(indices.type, kLastType, "element type of indices");
  shape_fields(io, indices.shape);
  io.number(indices.range.axis, "axis of indices");
  shape_fields(io, indices.range.sizes);
  io.flag(indices.range.lengths, "whether indices are lengths");
}

template <class Io, class T>
void step_fields(Io& io, T& step) {
  io.enumeration(step.kind, kLastKind, "kind of a step");
  io.enumeration(step.role, kLastRole, "role of a step");
  io.number(step.device, "device of a step");
  io.text(step.name, "name of a step");
  io.text(step.ops, "operators of a step");
  io.text(step.problem, "problem of a step");
  io.text(step.schedule, "schedule of a step");
  io.text(step.shapes, "shapes of a step");
  io.text(step.layouts, "layouts of a step");
  io.text(step.record, "record of a step");
  io.number(step.key, "key of a step");
  io.number(step.kernel, "kernel of a step");
  io.list(step.args, 21, "buffers of a step", [&](auto& ref) { buffer_fields(io, ref); });
  io.number(step.extent, "extent of a step");
  io.number(step.max_threads, "threads of a step");
  io.number(step.flops, "flops of a step");
  io.enumeration(step.multiplies, kLastType, "type that a step multiplies");
  io.number(step.effective_flops, "effective flops of a step");
  io.number(step.bytes, "bytes of a step");
  if (step.kind == StepKind::kernel) index_fields(io, step.indices);
  if (step.kind == StepKind::halo) halo_fields(io, step.halo);
  if (step.kind == StepKind::copy) io.number(step.copy_bytes, "size of a copy");
  if (step.kind == StepKind::reference) reference_fields(io, step.reference);
}

template <class Io, class T>
void span_fields(Io& io, T& span) {
  io.text(span.name, "name of an arena buffer");
  io.number(span.offset, "offset of an arena buffer");
  io.number(span.bytes, "size of an arena buffer");
  io.number(span.first_step, "first step of an arena buffer");
  io.number(span.last_step, "last step of an arena buffer");
}

template <class Io, class P>
void plan_fields(Io& io, P& plan) {
  io.text(plan.model, "model");
  io.text(plan.target, "target");
  io.text(plan.cpu, "cpu");
  io.enumeration(plan.arch, kLastArch, "architecture");
  io.list(plan.devices, 8, "devices", [&](auto& device) { io.text(device, "device"); });
  io.text(plan.codegen, "code generator");
  io.text(plan.precision, "precision");
  io.text(plan.records, "tuning records");
  io.number(plan.compiled_for, "threads that the plan is for");
  io.list(plan.required_features, 8, "required features", [&](auto& feature) { io.text(feature, "feature"); });
  io.list(plan.inputs, 17, "inputs", [&](auto& tensor) { tensor_fields(io, tensor); });
  io.list(plan.outputs, 17, "outputs", [&](auto& tensor) { tensor_fields(io, tensor); });
  io.number(plan.arena_bytes, "size of the arena");
  io.number(plan.scratch_bytes, "size of the scratch memory");
  io.list(plan.entries, 8, "kernel entries", [&](auto& entry) { io.number(entry, "kernel entry"); });
  io.list(plan.steps, 110, "steps", [&](auto& step) { step_fields(io, step); });
  io.list(plan.arena, 40, "arena buffers", [&](auto& span) { span_fields(io, span); });
}

}  // namespace

std::string write_plan_meta(const Plan& plan) {
  Writer writer;
  plan_fields(writer, plan);
  return writer.take();
}

Plan read_plan_meta(std::span<const std::byte> bytes, std::string_view where) {
  Reader reader(bytes, where);
  Plan plan;
  plan_fields(reader, plan);
  reader.finish();
  return plan;
}

}  // namespace kilter
