#include "tune/graph/transforms.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/text.h"
#include "tune/graph/least_squares.h"

namespace kilter::tune {
namespace {

/// Spread that is assumed if there are no more samples than terms, which leaves the scatter unknown.
constexpr double kUnknownSpread = 0.2;
constexpr double kLeastSpread = 1e-3;
/// Added to the error if the level was not measured, and for each doubling between the requested and the measured
/// number of threads.
constexpr double kOtherLevel = 0.5;
constexpr double kOtherThreads = 0.5;

double product(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

void check_sample(const TransformSample& sample, size_t number) {
  if (sample.threads >= 1 && sample.bytes > 0 && sample.ms > 0 && std::isfinite(sample.bytes) &&
      std::isfinite(sample.ms))
    return;
  fail(ErrorKind::bad_input,
       "layout changes: sample {} ('{}'): {} threads, {} bytes, {} ms; expected 1 thread or more, and bytes and time "
       "above 0",
       number, sample.kind, sample.threads, format_float(sample.bytes), format_float(sample.ms));
}

}  // namespace

TransformModel::TransformModel(std::string device, std::vector<MemoryLevel> levels,
                               std::vector<TransformSample> samples)
    : device_(std::move(device)), levels_(std::move(levels)), samples_(std::move(samples)) {
  require(!levels_.empty() && std::isinf(levels_.back().bytes), "layout changes: the last level must be unlimited");
  require(levels_.size() < 8, "layout changes: {} levels of memory; at most 7", levels_.size());
  for (size_t i = 1; i < levels_.size(); ++i) {
    require(levels_[i].bytes > levels_[i - 1].bytes, "layout changes: level {} is not larger than the previous one",
            levels_[i].name);
  }
  std::map<Key, std::vector<TransformSample>> sets;
  for (size_t i = 0; i < samples_.size(); ++i) {
    check_sample(samples_[i], i);
    sets[{samples_[i].kind, samples_[i].threads}].push_back(samples_[i]);
    sets[{"", samples_[i].threads}].push_back(samples_[i]);
  }
  for (const auto& [key, set] : sets) fits_[key] = fit(set);
}

size_t TransformModel::level_of(double bytes, int threads) const {
  for (size_t i = 0; i + 1 < levels_.size(); ++i) {
    if (bytes <= levels_[i].bytes * (levels_[i].shared ? 1 : threads)) return i;
  }
  return levels_.size() - 1;
}

/// Returns the factors of Fit::terms: 1 for the start; the bytes for every measured level up to this one, otherwise 0.
std::vector<double> TransformModel::terms_of(const Fit& fit, size_t level, double bytes) {
  std::vector<double> terms = {1};
  for (const size_t measured : fit.levels) terms.push_back(measured <= level ? bytes : 0);
  return terms;
}

TransformModel::Fit TransformModel::fit(const std::vector<TransformSample>& samples) const {
  Fit fit;
  for (const TransformSample& s : samples) fit.levels.push_back(level_of(s.bytes, s.threads));
  std::sort(fit.levels.begin(), fit.levels.end());
  fit.levels.erase(std::unique(fit.levels.begin(), fit.levels.end()), fit.levels.end());
  std::vector<std::vector<double>> rows;
  std::vector<double> ms;
  for (const TransformSample& s : samples) {
    rows.push_back(terms_of(fit, level_of(s.bytes, s.threads), s.bytes));
    ms.push_back(s.ms);
  }
  const RatioFit robust = fit_ratios(rows, ms);
  fit.terms = robust.unknowns;
  fit.uncertainty = robust.inverse;
  // A spread from few rows is itself uncertain, so it is multiplied by the standard deviation of Student's t, which is
  // finite for 3 or more degrees of freedom.
  const double few = robust.free > 2 ? std::sqrt(robust.free / (robust.free - 2.0)) : 2;
  fit.spread = robust.free > 0 ? std::max(robust.spread * few, kLeastSpread) : kUnknownSpread;
  return fit;
}

TransformEstimate TransformModel::estimate(const Fit& fit, int threads, double bytes) const {
  const size_t level = level_of(bytes, threads);
  // For a level without measurements, uses the next deeper measured one, which is no faster; if there is none, the
  // deepest measured one.
  const auto deeper = std::lower_bound(fit.levels.begin(), fit.levels.end(), level);
  const size_t taken = deeper == fit.levels.end() ? fit.levels.back() : *deeper;
  std::vector<double> terms = terms_of(fit, taken, bytes);
  TransformEstimate out{product(terms, fit.terms), 0, "measured"};
  for (double& term : terms) term /= out.ms;
  double leverage = 0;
  for (size_t i = 0; i < terms.size(); ++i) {
    for (size_t j = 0; j < terms.size(); ++j) leverage += terms[i] * terms[j] * fit.uncertainty[i * terms.size() + j];
  }
  out.error = fit.spread * std::sqrt(1 + std::max(leverage, 0.0));
  if (taken != level) {
    out.error += kOtherLevel;
    out.basis = fmt::format("measured in {} instead of {}", levels_[taken].name, levels_[level].name);
  }
  return out;
}

std::optional<TransformEstimate> TransformModel::predict(const std::string& kind, int threads, double bytes) const {
  require(bytes > 0 && threads >= 1, "a layout change of {} bytes by {} threads", bytes, threads);
  const auto distance = [&](int other) { return std::abs(std::log2(static_cast<double>(other) / threads)); };
  const bool known =
      !kind.empty() && std::any_of(fits_.begin(), fits_.end(), [&](const auto& f) { return f.first.first == kind; });
  const std::pair<const Key, Fit>* nearest = nullptr;
  for (const auto& entry : fits_) {
    if (entry.first.first != (known ? kind : "")) continue;
    if (nearest == nullptr || distance(entry.first.second) < distance(nearest->first.second)) nearest = &entry;
  }
  if (nearest == nullptr) return std::nullopt;
  TransformEstimate out = estimate(nearest->second, nearest->first.second, bytes);
  if (!known) out.basis += ", other kinds";
  if (nearest->first.second != threads) {
    out.error += kOtherThreads * distance(nearest->first.second);
    out.basis += fmt::format(", {} threads", nearest->first.second);
  }
  return out;
}

TransformModel TransformModel::with(const std::vector<TransformSample>& more) const {
  std::vector<TransformSample> all = samples_;
  all.insert(all.end(), more.begin(), more.end());
  return {device_, levels_, std::move(all)};
}

}  // namespace kilter::tune
