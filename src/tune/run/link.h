// The tuner's line to its worker: starts it, asks, waits, tells what became of it, starts it again.
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
  answer,     ///< `bytes` are the worker's
  failed,     ///< the step that ran answered that it failed
  no_memory,  ///< memory ran out
  died,       ///< the worker is gone
  late,       ///< it was killed, as nothing happened for too long
};

struct Reply {
  ReplyKind kind = ReplyKind::answer;
  std::string bytes;
  // What the worker did when it failed:
  Phase phase = Phase::idle;
  int64_t variant = -1, step = -1;
  std::string what;      ///< "signal 11 (Segmentation fault)"
  std::string detail;    ///< "address 0x0"; may be empty
  bool outside = false;  ///< it died, but not of what it ran: ask again
};
/// "checking", "measuring", ...; "in no known phase" for what a worker's kernels wrote over it.
std::string_view name(Phase phase);

class Link {
 public:
  /// Both outlive it.
  Link(const RunnerOptions& options, const ConstantStore& store);

  /// Makes sure that a worker is there, with a reference runner where `reference` says so. Throws io when none can be
  /// started.
  void start(bool reference);
  /// Sends a request and waits for what becomes of it. Throws what the worker refuses before any step has run.
  Reply ask(const std::string& request);

  /// Another number for each worker; 0: there is none.
  uint64_t serial() const { return child_ ? serial_ : 0; }
  std::optional<int> pid() const { return child_ ? std::optional<int>(child_->pid()) : std::nullopt; }
  int64_t restarts() const { return restarts_; }
  /// Whether the last worker that started runs under confine_process().
  bool confined() const { return confined_; }
  Board& board() const { return *reinterpret_cast<Board*>(log_.data()); }
  /// The complete records of the last request to measure; nothing where their size is none that the worker wrote.
  std::optional<std::span<const std::byte>> log() const;
  /// Ends a worker that is no longer to be trusted; start() starts another.
  void replace();

  std::vector<StorePart> inputs;  ///< of the networks
  double trusted_ms = 0;          ///< one run of the trusted variant; 0: not known, nothing is ever late

 private:
  std::filesystem::path program() const;
  /// Starts a worker; what it answers.
  Reply start_once(bool reference);
  Reply wait();
  /// The time in which something has to happen, in milliseconds.
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
  bool reference_ = false;  ///< of the worker
  bool confined_ = false;
  bool lost_ = false;  ///< the last worker ended before it was told to
  uint64_t serial_ = 0;
  int64_t restarts_ = 0;
};

}  // namespace kilter::tune
