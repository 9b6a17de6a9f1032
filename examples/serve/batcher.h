// The queue of one model and the threads that run it. Requests that wait together are run together.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <limits>
#include <mutex>
#include <thread>
#include <vector>

#include "metrics.h"
#include "model.h"

namespace serve {

struct BatchOptions {
  bool join = true;
  std::chrono::microseconds max_delay{2000};  ///< the longest that a request waits for others while an instance is free
  size_t max_queue = 256;                     ///< requests that wait at the same time
};

/// One thread for each instance of the model.
class Batcher {
 public:
  Batcher(Model model, const BatchOptions& options);
  /// Finishes the waiting requests.
  ~Batcher();
  Batcher(const Batcher&) = delete;
  Batcher& operator=(const Batcher&) = delete;

  const Signature& signature() const { return model_.signature; }
  Metrics& metrics() { return metrics_; }

  /// Waits for a run and returns its outputs. Called from any thread. Throws Failure: 503 if too many requests wait,
  /// 400 if the shapes do not fit each other, 500 if the run fails (503 for lack of memory).
  std::vector<Tensor> run(const std::vector<Tensor>& inputs);

 private:
  using Clock = std::chrono::steady_clock;
  struct Job {
    const std::vector<Tensor>* inputs = nullptr;
    int64_t rows = 0;
    Clock::time_point arrival;
    std::vector<Tensor> outputs;
    int status = 200;
    std::string error;  ///< set if `status` is not 200
    bool done = false;
    std::condition_variable finished;
  };

  /// The number of rows of a request; 0 if it is run by itself.
  int64_t rows_of(const std::vector<Tensor>& inputs) const;
  void work(Instance& instance);
  /// Takes the oldest requests that fit into one run from the queue, once there are enough or the oldest has waited
  /// long enough. Empty: the server stops.
  std::vector<Job*> next(std::unique_lock<std::mutex>& lock);
  void run_jobs(Instance& instance, const std::vector<Job*>& jobs);
  void run_together(Instance& instance, const std::vector<Job*>& jobs);

  Model model_;
  const BatchOptions options_;
  Metrics metrics_;
  std::mutex mutex_;  ///< guards the members below and the jobs
  std::condition_variable changed_;
  std::deque<Job*> queue_;
  int64_t queued_rows_ = 0;
  /// The number of requests that a run waits for, within max_delay: those of the previous run, whose clients may send
  /// more, and those that waited at its end. So a single client never waits, except for the first run.
  size_t expected_ = std::numeric_limits<size_t>::max();
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace serve
