// Runs variants alternately and writes the time of each step to the log.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "exec/memory.h"
#include "measure/quiet.h"
#include "tune/run/shared_memory.h"
#include "tune/run/variant.h"

namespace kilter::tune {

/// Shows whether another hardware thread is working on this core, by the time of a fixed block of independent
/// instructions. Repeats the measurement at most every 50 us.
class WidthProbe {
 public:
  /// Returns the time of the block in nanoseconds.
  double read();

 private:
  uint64_t at_ = 0;
  double last_ns_ = 0;
};

/// Measures variants, which never run at the same time, in one arena, scratch and set of outputs. Each variant thus
/// finds the caches as a run of its own network would leave them.
class Bench {
 public:
  Bench(std::vector<const std::byte*> inputs, std::shared_ptr<ThreadPool> pool, Publisher& publisher,
        SharedMemory& log);
  ~Bench();
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  struct Outcome {
    int64_t rounds = 0;        ///< completed
    std::vector<int64_t> cut;  ///< variants that were dropped as too slow
  };
  Outcome measure(const std::vector<const WorkerVariant*>& variants, const RoundsRequest& request);

 private:
  class Lane;
  using Lanes = std::vector<std::unique_ptr<Lane>>;
  void make_room(const std::vector<const WorkerVariant*>& variants);
  void turn(Lane& lane, int64_t round, const RoundsRequest& request);
  bool needs_warm_up(const WorkerVariant& variant, const RoundsRequest& request) const;
  static int64_t most_round_bytes(const Lanes& lanes, const RoundsRequest& request);
  /// Throws usage if not even one round fits.
  static void check_log_room(const Lanes& lanes, const RoundsRequest& request);
  void record(const Lane& lane, const LapHeader& header);
  void finish_turn(int64_t first_byte, const Disturbance& disturbance);

  std::vector<const std::byte*> inputs_;
  std::shared_ptr<ThreadPool> pool_;
  Publisher& publisher_;
  SharedMemory& log_;
  Block arena_, scratch_;
  std::vector<Block> outputs_;
  int64_t arena_bytes_ = 0, scratch_bytes_ = 0;
  std::vector<std::byte*> to_;
  QuietWatch watch_;
  bool watching_ = false;
  WidthProbe width_;
  int64_t next_order_ = 0;
  int64_t log_bytes_ = 0;  ///< bytes written; the board counts only those of complete turns
};

}  // namespace kilter::tune
