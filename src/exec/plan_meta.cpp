#include "exec/plan_meta.h"

#include "exec/fields.h"

namespace kilter {
namespace {

constexpr uint8_t kLastType = static_cast<uint8_t>(kLastDType);
constexpr uint8_t kLastSpace = static_cast<uint8_t>(Space::output);
constexpr uint8_t kLastArch = static_cast<uint8_t>(Arch::aarch64);
constexpr uint8_t kLastKind = static_cast<uint8_t>(StepKind::copy);
constexpr uint8_t kLastRole = static_cast<uint8_t>(StepRole::pack);

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
  FieldWriter writer;
  plan_fields(writer, plan);
  return writer.take();
}

Plan read_plan_meta(std::span<const std::byte> bytes, std::string_view where) {
  FieldReader reader(bytes, where);
  Plan plan;
  plan_fields(reader, plan);
  reader.finish();
  return plan;
}

}  // namespace kilter
