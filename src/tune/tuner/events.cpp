#include "tune/tuner/events.h"

#include "measure/clock.h"

namespace kilter::tune {
namespace {

/// Keeps the entries whose index (`count` on entry) is a multiple of `stride`, which doubles when the list is full.
template <class T>
void push_thinned(std::vector<T>& list, T entry, int64_t& stride, int64_t& count) {
  if (count++ % stride != 0) return;
  list.push_back(std::move(entry));
  if (list.size() < kMostTraced) return;
  for (size_t i = 0; 2 * i < list.size(); ++i) list[i] = std::move(list[2 * i]);
  list.resize((list.size() + 1) / 2);
  stride *= 2;
}

}  // namespace

TuneLog::TuneLog(Listener listener) : listener_(std::move(listener)), start_ms_(now_ms()) {}

double TuneLog::seconds() const { return (now_ms() - start_ms_) / 1e3; }

void TuneLog::tell(int64_t trials, decltype(TuneEvent::what) what) {
  const TuneEvent event{seconds(), trials, std::move(what)};
  if (const auto* phase = std::get_if<PhaseEvent>(&event.what)) {
    if (!trace_.spans.empty()) trace_.spans.back().end = event.seconds;
    trace_.spans.push_back({phase->phase, event.seconds, event.seconds});
  } else if (const auto* prepared = std::get_if<PreparedEvent>(&event.what)) {
    trace_.default_ms = prepared->default_ms;
  } else if (const auto* gain = std::get_if<GainEvent>(&event.what)) {
    push_thinned(trace_.gains, {event.seconds, trials, *gain}, gain_stride_, gains_);
  } else if (const auto* race = std::get_if<RaceEvent>(&event.what)) {
    trace_.races.push_back({event.seconds, *race});
  }
  if (listener_) listener_(event);
}

void TuneLog::point(int64_t trials, double predicted_ms, double remaining) {
  push_thinned(trace_.points, {seconds(), trials, predicted_ms, remaining}, point_stride_, points_);
}

TuneTrace TuneLog::finish() {
  if (!trace_.spans.empty()) trace_.spans.back().end = seconds();
  return std::move(trace_);
}

}  // namespace kilter::tune
