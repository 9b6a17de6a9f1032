// Common parts of the chaos test and the processes that it starts: what is computed from which payload, and the notes
// in which the processes record what was acknowledged. A note is a line of a file, so it outlives its process.
#pragma once

#include <chrono>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "fleet/queue.h"

namespace kilter::fleet {

constexpr double kLease = 2;  ///< seconds
constexpr int kResults = 3;   ///< of each job
constexpr int kBatch = 4;     ///< jobs of a submission

inline void pause(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

/// What an agent computes from a payload.
inline std::string answer_to(const std::string& payload, int item) { return fmt::format("{} of {}", item, payload); }

inline std::vector<Result> results_of(const std::string& payload) {
  std::vector<Result> results;
  for (int i = 0; i < kResults; ++i)
    results.push_back({payload, std::to_string(i), "chaos", "code", answer_to(payload, i)});
  return results;
}

/// The token of a submitter's n-th submission. The payloads of its jobs consist of the token and their place.
inline std::string token_of(const std::string& submitter, int64_t n) { return fmt::format("{}.{}", submitter, n); }

inline std::vector<NewJob> batch_of(const std::string& token) {
  std::vector<NewJob> batch;
  for (int i = 0; i < kBatch; ++i)
    batch.push_back(
        {.run = "chaos", .kind = "test", .device_class = "class", .payload = fmt::format("{}.{}", token, i)});
  return batch;
}

/// Writes notes, each immediately.
class Notes {
 public:
  explicit Notes(const std::string& file) : file_(file, std::ios::app) {}
  template <class... Values>
  void write(fmt::format_string<Values...> words, Values&&... values) {
    file_ << fmt::format(words, std::forward<Values>(values)...) << std::endl;  // flushes
  }

 private:
  std::ofstream file_;
};

/// Repeats work until the server responds. Adds a note if the server's disk is full.
template <class Work>
auto patiently(Notes* notes, Work work) {
  for (;;) {
    try {
      return work();
    } catch (const Error& e) {
      if (e.kind() != ErrorKind::io) throw;
      if (notes != nullptr && e.message().find("no space left to write (") != std::string::npos) notes->write("full");
      pause(0.1);
    }
  }
}

}  // namespace kilter::fleet
