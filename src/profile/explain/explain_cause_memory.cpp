// Causes around the kernels: where operands come from, and the overhead of parallel regions.

#include <fmt/format.h>

#include <algorithm>

#include "profile/explain/explain_causes.h"

namespace kilter::profile {
namespace {

constexpr double kBatch = 8;  ///< the batch size that the advice names

std::string reached(const Row& row) {
  if (row.beats_bound()) return fmt::format("{:.0f} GB/s reached, more than its {} bound", row.gbps(), row.bound.level);
  return fmt::format("{:.0f} GB/s reached, {} of the {} bound", row.gbps(), bound_share_text(row), row.bound.level);
}

}  // namespace

std::vector<Suspicion> find_streamed_weights(const Context& c) {
  std::vector<Suspicion> all;
  double saved = 0, time = 0;
  int64_t bytes = 0, layers = 0;
  for (const Row* row : c.rows()) {
    const bool weights = row->bound.kind == Bound::memory && 2 * row->weight_bytes > row->bytes;
    if (!weights || row->bound.level == "L2") continue;
    const double share = static_cast<double>(row->weight_bytes) / static_cast<double>(std::max<int64_t>(row->bytes, 1));
    ++layers;
    time += row->time.mean;
    bytes += row->weight_bytes;
    saved += std::min(row->bound.ms, row->time.mean) * share * (1 - 1 / kBatch);
    if (!c.matters(row->time.mean)) continue;
    all.push_back(
        {{row->step},
         row->name,
         fmt::format("{} of weights come from {} and are used for {:.1f} FLOPs a byte; {}",
                     bytes_text(row->weight_bytes), row->bound.level,
                     static_cast<double>(row->flops) / static_cast<double>(std::max<int64_t>(row->weight_bytes, 1)),
                     reached(*row)),
         0});
  }
  if (c.matters(saved) && !c.subject.batch_input.empty()) {
    Suspicion batch{{}, {}, {}, saved, fmt::format("a batch of {:.0f}", kBatch)};
    batch.evidence = fmt::format(
        "{} layers with {} of weights take {} and are bound by reading them, whatever the batch size; the gain is per "
        "item in a batch of {:.0f}, and a single item is not faster",
        layers, bytes_text(bytes), ms_text(time), kBatch);
    batch.other = Suspicion::Other::batch;
    all.push_back(std::move(batch));
  }
  return all;
}

std::vector<Suspicion> find_far_activations(const Context& c) {
  std::vector<Suspicion> all;
  for (const Row* row : c.rows()) {
    const bool far = row->kind == RowKind::layer && row->bound.kind == Bound::memory && row->bound.level != "L2" &&
                     2 * row->weight_bytes <= row->bytes;
    if (!far || row->share() < 0.3 || !c.matters(row->time.mean)) continue;
    all.push_back(
        {{row->step},
         row->name,
         fmt::format("{} of operands pass through {}: {}", bytes_text(row->bytes), row->bound.level, reached(*row)),
         0});
  }
  return all;
}

std::vector<Suspicion> find_overheads(const Context& c) {
  std::vector<Suspicion> all;
  for (const Row* row : c.rows()) {
    if (row->kind == RowKind::gap || row->barrier_ms < 0.3 * row->time.mean || !c.matters(row->barrier_ms)) continue;
    all.push_back(
        {{row->step},
         row->name,
         fmt::format(
             "{} of {} pass between the fork and the start of the first thread, and after the end of the last one",
             ms_text(row->barrier_ms), ms_text(row->time.mean)),
         row->barrier_ms});
  }
  const Profile& p = c.profile;
  const double overhead = p.barriers_ms + p.gaps_ms;
  if (overhead < 0.08 * p.sum_ms) return all;
  Suspicion s{{}, {}, {}, overhead};
  s.evidence = fmt::format("{} of {} are barriers ({}) and gaps ({}) of {} regions", ms_text(overhead),
                           ms_text(p.sum_ms), ms_text(p.barriers_ms), ms_text(p.gaps_ms), c.rows().size());
  // One thread needs no barriers, but it is never faster for more than a few milliseconds of work.
  if (c.subject.threads > 1 && p.end_to_end_ms < 5) {
    s.advice = "--threads 1";
    s.mend = c.setting();
    s.mend->threads = 1;
  }
  all.push_back(std::move(s));
  return all;
}

}  // namespace kilter::profile
