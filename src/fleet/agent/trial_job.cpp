#include "fleet/agent/trial_job.h"

#include "exec/fields.h"

namespace kilter::fleet {
namespace {

template <class Io, class T>
void numbers(Io& io, T& all, const char* what) {
  io.list(all, 8, what, [&](auto& one) { io.number(one, what); });
}

template <class Io, class P>
void part_fields(Io& io, P& part) {
  stored_fields(io, part.data);
  io.number(part.bytes, "bytes of a constant");
  bool packed = part.recipe.has_value();
  io.flag(packed, "whether a constant is packed");
  if (!packed) return;
  if constexpr (Io::kReads) part.recipe.emplace();
  recipe_fields(io, *part.recipe);
  io.enumeration(part.type, static_cast<uint8_t>(kLastDType), "element type of a constant");
}

template <class Io, class V>
void variant_fields(Io& io, V& variant) {
  io.number(variant.id, "variant");
  stored_fields(io, variant.package);
  io.list(variant.parts, 25, "constants", [&](auto& part) { part_fields(io, part); });
}

template <class Io, class I>
void input_fields(Io& io, I& input) {
  io.enumeration(input.type, static_cast<uint8_t>(kLastDType), "element type of an input");
  numbers(io, input.shape, "shape of an input");
  stored_fields(io, input.data);
}

template <class Io, class L>
void load_fields(Io& io, L& how) {
  io.flag(how.check, "whether a variant is checked");
  io.flag(how.find_all, "whether all faults are found");
}

template <class Io, class M>
void measure_fields(Io& io, M& how) {
  io.number(how.rounds, "rounds");
  io.real(how.max_ms, "most milliseconds");
  io.real(how.cut_off, "cut-off");
  io.real(how.slice_ms, "milliseconds of a turn");
  io.number(how.runs, "runs of a turn");
  io.enumeration(how.warm_up, static_cast<uint8_t>(tune::WarmUp::never), "warm-up");
  io.number(how.seed, "seed");
  io.number(how.log_bytes, "bytes of the log");
}

template <class Io, class T>
void tap_fields(Io& io, T& tap) {
  io.number(tap.step, "step of a tap");
  io.enumeration(tap.buffer.space, static_cast<uint8_t>(Space::output), "space of a tap");
  io.number(tap.buffer.offset, "offset of a tap");
  io.number(tap.buffer.index, "index of a tap");
  io.number(tap.buffer.bytes, "bytes of a tap");
}

template <class Io, class J>
void job_fields(Io& io, J& job) {
  io.text(job.session, "session");
  io.list(job.inputs, 25, "inputs", [&](auto& input) { input_fields(io, input); });
  io.number(job.threads, "threads");
  io.real(job.timeout_ms, "time limit of a step");
  io.real(job.timeout_factor, "relative time limit of a step");
  variant_fields(io, job.trusted);
  numbers(io, job.dropped, "dropped variants");
  io.list(job.variants, 32, "variants", [&](auto& variant) { variant_fields(io, variant); });
  numbers(io, job.loads, "variants to load");
  load_fields(io, job.how_to_load);
  numbers(io, job.measures, "variants to measure");
  measure_fields(io, job.how_to_measure);
  io.number(job.traces, "variant to trace");
  io.list(job.taps, 29, "taps", [&](auto& tap) { tap_fields(io, tap); });
  io.number(job.peaks, "threads of the peaks");
}

template <class Io, class F>
void fault_fields(Io& io, F& fault) {
  io.number(fault.variant, "variant of a fault");
  io.enumeration(fault.kind, static_cast<uint8_t>(tune::FaultKind::memory), "kind of a fault");
  io.number(fault.step, "step of a fault");
  io.text(fault.layer, "layer of a fault");
  io.text(fault.words, "fault");
}

/// Times with the precision of floats.
template <class Io, class T>
void times_fields(Io& io, T& all, const char* what) {
  io.list(all, 4, what, [&](auto& one) {
    auto time = static_cast<float>(one);
    io.real(time, what);
    if constexpr (Io::kReads) one = double{time};
  });
}

template <class Io, class L>
void loaded_fields(Io& io, L& loaded) {
  int64_t id = loaded.id.value_or(0);
  io.number(id, "loaded variant");
  if constexpr (Io::kReads) loaded.id = id != 0 ? std::optional(id) : std::nullopt;
  io.list(loaded.faults, 33, "faults", [&](auto& fault) { fault_fields(io, fault); });
  times_fields(io, loaded.step_ms, "times of a check");
}

template <class Io, class D>
void disturbance_fields(Io& io, D& d) {
  io.real(d.wall_ms, "time of a turn");
  io.real(d.steal_ms, "stolen time");
  io.real(d.wait_ms, "time of waiting for a CPU");
  io.number(d.switches, "context switches");
  io.real(d.drift, "drift");
  for (auto* flag : {&d.stolen, &d.waited, &d.switched, &d.drifted}) io.flag(*flag, "disturbance");
}

template <class Io, class L>
void lap_fields(Io& io, L& lap) {
  io.number(lap.round, "round of a lap");
  io.number(lap.order, "order of a lap");
  io.real(lap.total_ms, "time of a lap");
  io.flag(lap.held_up, "whether a lap was held up");
  disturbance_fields(io, lap.disturbance);
  times_fields(io, lap.step_ms, "times of steps");
  times_fields(io, lap.gap_ms, "times between steps");
  times_fields(io, lap.width, "widths");
}

template <class Io, class L>
void laps_fields(Io& io, L& laps) {
  numbers(io, laps.ids, "measured variants");
  io.list(laps.laps, 8, "measured variants",
          [&](auto& lane) { io.list(lane, 85, "laps", [&](auto& lap) { lap_fields(io, lap); }); });
  std::vector<uint8_t> cut(laps.cut.begin(), laps.cut.end());
  io.list(cut, 1, "variants without more turns", [&](auto& one) { io.number(one, "whether turns ended"); });
  if constexpr (Io::kReads) laps.cut.assign(cut.begin(), cut.end());
  io.list(laps.faults, 33, "faults", [&](auto& fault) { fault_fields(io, fault); });
  io.number(laps.rounds, "rounds");
  io.real(laps.wall_ms, "time of a measurement");
}

template <class Io, class P>
void peaks_fields(Io& io, P& peaks) {
  for (auto* rates : {&peaks.gflops, &peaks.bf16_gflops, &peaks.byte_gops, &peaks.l2_gbps, &peaks.l3_gbps,
                      &peaks.dram_gbps, &peaks.region_us})
    io.list(*rates, 8, "peaks", [&](auto& rate) { io.real(rate, "peak"); });
  io.number(peaks.l2_bytes, "bytes of L2");
  io.number(peaks.l3_bytes, "bytes of L3");
}

template <class Io, class A>
void answer_fields(Io& io, A& answer) {
  io.text(answer.error, "error");
  io.enumeration(answer.kind, static_cast<uint8_t>(ErrorKind::out_of_memory), "kind of an error");
  io.list(answer.loaded, 24, "loaded variants", [&](auto& loaded) { loaded_fields(io, loaded); });
  laps_fields(io, answer.laps);
  io.list(answer.traced.values, 8, "values", [&](auto& value) { io.block(value, "bytes of a value"); });
  bool fault = answer.traced.fault.has_value();
  io.flag(fault, "whether a trace failed");
  if constexpr (Io::kReads) {
    if (fault) answer.traced.fault.emplace();
  }
  if (fault) fault_fields(io, *answer.traced.fault);
  peaks_fields(io, answer.peaks);
  io.number(answer.restarts, "restarts");
  io.flag(answer.confined, "whether the worker is confined");
}

std::string packed(const auto& message, auto fields) {
  FieldWriter io;
  io.number(kTrialProtocol, "protocol");
  fields(io, message);
  return io.take();
}

template <class Message>
Message unpacked(std::string_view bytes, std::string_view kind, std::string_view sender, auto fields) {
  FieldReader io(std::as_bytes(std::span(bytes)), kTrialKind, kind, "the message");
  uint32_t protocol = 0;
  io.number(protocol, "protocol");
  if (protocol != kTrialProtocol) {
    fail(ErrorKind::unsupported,
         "the {} uses protocol {}, and this {} uses {}: install the same version of Kilter on both", sender, protocol,
         kind == "job" ? "agent" : "tuner", kTrialProtocol);
  }
  Message message;
  fields(io, message);
  io.finish();
  return message;
}

}  // namespace

std::string pack(const TrialJob& job) {
  return packed(job, [](auto& io, const TrialJob& all) { job_fields(io, all); });
}

std::string pack(const TrialAnswer& answer) {
  return packed(answer, [](auto& io, const TrialAnswer& all) { answer_fields(io, all); });
}

std::string name_of(const TrialPart& part) {
  FieldWriter io;
  part_fields(io, part);
  return io.take();
}

TrialJob unpack_job(std::string_view bytes) {
  return unpacked<TrialJob>(bytes, "job", "submitter of a job", [](auto& io, TrialJob& all) { job_fields(io, all); });
}

TrialAnswer unpack_answer(std::string_view bytes) {
  return unpacked<TrialAnswer>(bytes, "answer", "sender of an answer",
                               [](auto& io, TrialAnswer& all) { answer_fields(io, all); });
}

}  // namespace kilter::fleet
