#include "measure/machine/machine_peaks.h"

#include <algorithm>

#include "base/ticks.h"
#include "exec/thread_pool.h"
#include "measure/caches.h"
#include "measure/peaks.h"
#include "measure/stats.h"

namespace kilter {
namespace {

constexpr int kRegions = 200;

/// Returns the minimum cost of a fork and join: the 10th percentile of empty regions.
double empty_region_us(int threads) {
  ThreadPool pool(threads);
  std::vector<double> us;
  for (int i = 0; i < kRegions; ++i) {
    const uint64_t start = ticks();
    pool.run(threads, 0, [](void*, int64_t, int64_t, int32_t) { return 0; }, nullptr);
    us.push_back(ms_between(start, ticks()) * 1e3);
  }
  return quantile(us, 0.1);
}

/// Returns values for 1..threads, interpolated linearly between those at both ends.
std::vector<double> spread_out(double one, double all, int threads) {
  std::vector<double> values(static_cast<size_t>(threads), one);
  for (int t = 1; t < threads; ++t) values[static_cast<size_t>(t)] = one + (all - one) * t / (threads - 1);
  return values;
}

}  // namespace

double Peaks::at(const std::vector<double>& values, int threads) const {
  if (values.empty()) return 0;
  return values[std::min(values.size(), static_cast<size_t>(std::max(threads, 1))) - 1];
}

double Peaks::rate_of(DType products, int threads) const {
  const double bytes = products == DType::i8 ? at(byte_gops, threads) : 0;
  return bytes > 0 ? bytes : at(products == DType::bf16 ? bf16_gflops : gflops, threads);
}

Peaks measure_peaks(int threads) {
  constexpr double kPeakMs = 40;
  Peaks p;
  const CacheSizes caches = cache_sizes();
  p.l2_bytes = caches.l2_bytes, p.l3_bytes = caches.l3_bytes;
  const int cpus = std::min(threads, default_threads());
  const auto both = [&](auto measured) {
    const double one = measured(1);
    return spread_out(one, cpus > 1 ? std::max(measured(cpus), one) : one, cpus);
  };
  p.gflops = both([](int t) { return measure_peak_gflops(t); });
  p.bf16_gflops = both([](int t) { return measure_peak(t, kPeakMs, DType::bf16).rate; });
  p.byte_gops = both([](int t) { return measure_peak(t, kPeakMs, DType::i8).rate; });
  p.l2_gbps = both([](int t) { return measure_bandwidth(Level::l2, t); });
  if (caches.l3_bytes > 0) p.l3_gbps = both([](int t) { return measure_bandwidth(Level::l3, t); });
  p.dram_gbps = both([](int t) { return measure_bandwidth(Level::dram, t); });
  if (p.l3_gbps.empty()) p.l3_gbps = p.dram_gbps;
  p.region_us = both([](int t) { return empty_region_us(t); });
  p.region_us[0] = 0;  // one thread does not wait for others
  return p;
}

Peaks better(const Peaks& a, const Peaks& b) {
  const auto best = [](std::vector<double> values, const std::vector<double>& others, auto better_of) {
    values.resize(std::max(values.size(), others.size()));
    for (size_t i = 0; i < others.size(); ++i) values[i] = better_of(values[i], others[i]);
    return values;
  };
  const auto more = [](double x, double y) { return std::max(x, y); };
  const auto less = [](double x, double y) { return x > 0 && y > 0 ? std::min(x, y) : std::max(x, y); };
  Peaks out;
  out.l2_bytes = std::max(a.l2_bytes, b.l2_bytes), out.l3_bytes = std::max(a.l3_bytes, b.l3_bytes);
  out.gflops = best(a.gflops, b.gflops, more);
  out.bf16_gflops = best(a.bf16_gflops, b.bf16_gflops, more);
  out.byte_gops = best(a.byte_gops, b.byte_gops, more);
  out.l2_gbps = best(a.l2_gbps, b.l2_gbps, more), out.l3_gbps = best(a.l3_gbps, b.l3_gbps, more);
  out.dram_gbps = best(a.dram_gbps, b.dram_gbps, more);
  out.region_us = best(a.region_us, b.region_us, less);
  return out;
}

}  // namespace kilter
