// A worker process from the tuner's side: starting it, communicating with it, watching it and ending it.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>

#include "tune/run/shared_memory.h"
#include "tune/run/wire.h"

namespace kilter::tune {

/// The way in which a worker ended.
struct Ending {
  bool known = false;  ///< false if other code has already reaped the process
  int signal = 0;      ///< the signal that killed it; 0: it exited by itself
  int exit = 0;
  std::string said;  ///< the last part of its standard error
};

class Child {
 public:
  /// Starts `program` in its own process group. Throws io if it cannot be started.
  Child(const std::filesystem::path& program, const SharedMemory& store, const SharedMemory& log);
  /// Kills the worker.
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  pid_t pid() const { return pid_; }
  /// Returns false if the worker is gone.
  bool send(std::string_view bytes) const { return send_packet(socket_.get(), bytes); }
  std::optional<std::string> receive(int timeout_ms) const { return receive_packet(socket_.get(), timeout_ms); }
  /// CPU time that the worker has used, in milliseconds.
  double cpu_ms() const;
  /// Whether the worker was stopped (by SIGSTOP or a debugger).
  bool stopped() const;
  /// Waits for a worker that is gone or about to end. With `kill`, kills it first.
  Ending end(bool kill);

 private:
  pid_t pid_ = -1;
  Handle socket_, error_;
};

}  // namespace kilter::tune
