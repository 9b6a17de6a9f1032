#include "fleet/agent/trial_job.h"

#include "tune/run/wire.h"

namespace kilter::fleet {
namespace {

using tune::Fault;
using tune::Lap;
using tune::Pack;
using tune::Unpack;

template <class T, class Put>
void put_all(Pack& to, const std::vector<T>& all, Put put) {
  to.put(static_cast<uint64_t>(all.size()));
  for (const T& one : all) put(to, one);
}

template <class Get>
auto get_all(Unpack& from, Get get) {
  std::vector<decltype(get(from))> all;
  for (auto left = from.get<uint64_t>(); left > 0; --left) all.push_back(get(from));
  return all;
}

void put_stored(Pack& to, const Stored& s) {
  to.put(s.bytes);
  put_all(to, s.hashes, [](Pack& p, const std::string& hash) { p.put(std::string_view(hash)); });
}

Stored get_stored(Unpack& from) {
  const auto bytes = from.get<int64_t>();
  return {bytes, get_all(from, [](Unpack& u) { return std::string(u.text()); })};
}

void put_variant(Pack& to, const TrialVariant& v) {
  to.put(v.id);
  put_stored(to, v.package);
  put_all(to, v.parts, put_stored);
}

TrialVariant get_variant(Unpack& from) {
  TrialVariant v;
  v.id = from.get<int64_t>();
  v.package = get_stored(from);
  v.parts = get_all(from, get_stored);
  return v;
}

void put_input(Pack& to, const TrialInput& input) {
  to.put(input.type).put(input.shape);
  put_stored(to, input.data);
}

TrialInput get_input(Unpack& from) {
  TrialInput input;
  input.type = from.get<DType>();
  input.shape = from.list<int64_t>();
  input.data = get_stored(from);
  return input;
}

void put_fault(Pack& to, const Fault& f) {
  to.put(f.variant).put(f.kind).put(f.step).put(std::string_view(f.layer)).put(std::string_view(f.words));
}

Fault get_fault(Unpack& from) {
  Fault f;
  f.variant = from.get<int64_t>();
  f.kind = from.get<tune::FaultKind>();
  f.step = from.get<int64_t>();
  f.layer = from.text();
  f.words = from.text();
  return f;
}

void put_loaded(Pack& to, const tune::Loaded& loaded) {
  to.put(loaded.id.value_or(0));
  put_all(to, loaded.faults, put_fault);
  to.put(loaded.step_ms);
}

tune::Loaded get_loaded(Unpack& from) {
  tune::Loaded loaded;
  if (const auto id = from.get<int64_t>(); id != 0) loaded.id = id;
  loaded.faults = get_all(from, get_fault);
  loaded.step_ms = from.list<double>();
  return loaded;
}

void put_times(Pack& to, const std::vector<double>& ms) { to.put(std::vector<float>(ms.begin(), ms.end())); }

std::vector<double> get_times(Unpack& from) {
  const auto ms = from.list<float>();
  return {ms.begin(), ms.end()};
}

void put_lap(Pack& to, const Lap& lap) {
  to.put(lap.round).put(lap.order).put(lap.total_ms).put(lap.held_up).put(lap.disturbance);
  put_times(to, lap.step_ms), put_times(to, lap.gap_ms), put_times(to, lap.width);
}

Lap get_lap(Unpack& from) {
  Lap lap;
  lap.round = from.get<int64_t>();
  lap.order = from.get<int64_t>();
  lap.total_ms = from.get<double>();
  lap.held_up = from.get<bool>();
  lap.disturbance = from.get<Disturbance>();
  lap.step_ms = get_times(from);
  lap.gap_ms = get_times(from);
  lap.width = get_times(from);
  return lap;
}

void put_traced(Pack& to, const tune::Traced& traced) {
  put_all(to, traced.values, [](Pack& p, const std::vector<std::byte>& value) { p.put(value); });
  to.put(traced.fault.has_value());
  if (traced.fault) put_fault(to, *traced.fault);
}

tune::Traced get_traced(Unpack& from) {
  tune::Traced traced;
  traced.values = get_all(from, [](Unpack& u) { return u.list<std::byte>(); });
  if (from.get<bool>()) traced.fault = get_fault(from);
  return traced;
}

void check_protocol(Unpack& from) {
  const auto protocol = from.get<uint32_t>();
  if (protocol != kTrialProtocol) {
    fail(ErrorKind::unsupported,
         "the submitter of a job speaks protocol {} and this agent {}: install both from one version of Kilter",
         protocol, kTrialProtocol);
  }
}

}  // namespace

std::string pack(const TrialJob& job) {
  Pack to;
  to.put(kTrialProtocol).put(std::string_view(job.session));
  put_all(to, job.inputs, put_input);
  to.put(job.threads).put(job.timeout_ms).put(job.timeout_factor);
  put_variant(to, job.trusted);
  to.put(job.dropped);
  put_all(to, job.variants, put_variant);
  to.put(job.loads).put(job.how_to_load).put(job.measures).put(job.how_to_measure);
  to.put(job.traces).put(job.taps);
  return to.bytes();
}

TrialJob unpack_job(std::string_view bytes) {
  Unpack from(bytes);
  check_protocol(from);
  TrialJob job;
  job.session = from.text();
  job.inputs = get_all(from, get_input);
  job.threads = from.get<int32_t>();
  job.timeout_ms = from.get<double>();
  job.timeout_factor = from.get<double>();
  job.trusted = get_variant(from);
  job.dropped = from.list<int64_t>();
  job.variants = get_all(from, get_variant);
  job.loads = from.list<int64_t>();
  job.how_to_load = from.get<tune::LoadOptions>();
  job.measures = from.list<int64_t>();
  job.how_to_measure = from.get<tune::MeasureOptions>();
  job.traces = from.get<int64_t>();
  job.taps = from.list<tune::Tap>();
  return job;
}

std::string pack(const TrialAnswer& answer) {
  Pack to;
  to.put(kTrialProtocol).put(std::string_view(answer.error)).put(answer.kind);
  put_all(to, answer.loaded, put_loaded);
  const tune::Laps& laps = answer.laps;
  to.put(laps.ids);
  put_all(to, laps.laps, [](Pack& p, const std::vector<Lap>& lane) { put_all(p, lane, put_lap); });
  to.put(std::vector<uint8_t>(laps.cut.begin(), laps.cut.end()));
  put_all(to, laps.faults, put_fault);
  to.put(laps.rounds).put(laps.wall_ms);
  put_traced(to, answer.traced);
  to.put(answer.restarts).put(answer.confined);
  return to.bytes();
}

TrialAnswer unpack_answer(std::string_view bytes) {
  Unpack from(bytes);
  check_protocol(from);
  TrialAnswer answer;
  answer.error = from.text();
  answer.kind = from.get<ErrorKind>();
  answer.loaded = get_all(from, get_loaded);
  tune::Laps& laps = answer.laps;
  laps.ids = from.list<int64_t>();
  laps.laps = get_all(from, [](Unpack& u) { return get_all(u, get_lap); });
  const auto cut = from.list<uint8_t>();
  laps.cut.assign(cut.begin(), cut.end());
  laps.faults = get_all(from, get_fault);
  laps.rounds = from.get<int64_t>();
  laps.wall_ms = from.get<double>();
  answer.traced = get_traced(from);
  answer.restarts = from.get<int64_t>();
  answer.confined = from.get<bool>();
  return answer;
}

}  // namespace kilter::fleet
