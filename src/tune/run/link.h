// The tuner's connection to its worker: starts it, sends requests, waits, explains its end, and restarts it.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tune/run/child.h"
#include "tune/run/constant_store.h"
#include "tune/run/runner.h"
#include "tune/run/wire.h"

namespace kilter::tune {

enum class ReplyKind : uint8_t {
  answer,     ///< `bytes` are the worker's reply
  failed,     ///< the step that ran reported a failure
  no_memory,  ///< memory ran out
  died,       ///< the worker is gone
  late,       ///< it was killed because it made no progress for too long
};

struct Reply {
  ReplyKind kind = ReplyKind::answer;
  std::string bytes;
  // The state of the worker when it failed:
  Phase phase = Phase::idle;
  int64_t variant = -1, step = -1;
  std::string what;      ///< "signal 11 (Segmentation fault)"
  std::string detail;    ///< "address 0x0"; may be empty
  bool outside = false;  ///< it died from a cause outside the code that it ran: the request can be repeated
};
/// "checking", "measuring", ...; "in no known phase" if the value is invalid because the worker's kernels overwrote it.
std::string_view name(Phase phase);

class Link {
 public:
  /// `options` and `store` must outlive this.
  Link(const RunnerOptions& options, const ConstantStore& store);

  /// Ensures that a worker is running. Throws io if none can be started.
  void start();
  /// Sends a request and waits for the result. Throws if the worker refuses the request before any step has run.
  Reply ask(const std::string& request);

  /// A number that differs for each worker; 0: none is running.
  uint64_t serial() const { return child_ ? serial_ : 0; }
  std::optional<int> pid() const { return child_ ? std::optional<int>(child_->pid()) : std::nullopt; }
  int64_t restarts() const { return restarts_; }
  /// Whether the worker started last runs under confine_process().
  bool confined() const { return confined_; }
  Board& board() const { return *reinterpret_cast<Board*>(log_.data()); }
  /// The complete records of the last measurement request, or the values of the last trace request. Empty if their size
  /// is not one that the worker could have written.
  std::optional<std::span<const std::byte>> log() const;
  /// Returns the memory of the log's first bytes to the system.
  void free_log(int64_t bytes) { log_.give_back(kLogStart, bytes); }
  /// Ends a worker that can no longer be trusted; start() starts a new one.
  void replace();

  std::vector<StorePart> inputs;  ///< inputs of all variants
  double trusted_ms = 0;          ///< one run of the trusted variant; 0: unknown, so that nothing counts as late

 private:
  std::filesystem::path program() const;
  /// Starts a worker and returns its reply.
  Reply start_once();
  Reply wait();
  /// The time in milliseconds that the worker may spend in `phase` without progress before it counts as late.
  double limit_ms(Phase phase) const;
  Reply refused(std::string packet) const;
  Reply dead();
  Reply late(double waited_ms, double limit);
  void place(Reply& reply) const;
  void describe_crash(Reply& reply, const Ending& ending) const;

  const RunnerOptions& options_;
  const ConstantStore& store_;
  SharedMemory log_;
  std::unique_ptr<Child> child_;
  bool confined_ = false;
  bool lost_ = false;  ///< the last worker ended unexpectedly
  uint64_t serial_ = 0;
  int64_t restarts_ = 0;
};

}  // namespace kilter::tune
