// A worker process as its tuner sees it: started, talked to, watched, ended.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>

#include "tune/run/shared_memory.h"
#include "tune/run/wire.h"

namespace kilter::tune {

/// How a worker ended.
struct Ending {
  bool known = false;  ///< false where somebody else took the process's status
  int signal = 0;      ///< that killed it; 0: it ended by itself
  int exit = 0;
  std::string said;  ///< end of what it wrote to its standard error
};

class Child {
 public:
  /// Starts `program` with `words` before the worker's own arguments, in a process group of its own. Throws io when it
  /// cannot be started.
  Child(const std::filesystem::path& program, const std::vector<std::string>& words, const SharedMemory& store,
        const SharedMemory& log);
  /// Kills it.
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  pid_t pid() const { return pid_; }
  /// False when it is gone.
  bool send(std::string_view bytes) const { return send_packet(socket_.get(), bytes); }
  std::optional<std::string> receive(int timeout_ms) const { return receive_packet(socket_.get(), timeout_ms); }
  /// Processor time that it took so far, in milliseconds.
  double cpu_ms() const;
  /// Whether it was stopped (by SIGSTOP or a debugger).
  bool stopped() const;
  /// Waits for a worker that is gone or about to be; kills it first where `kill` says so.
  Ending end(bool kill);

 private:
  pid_t pid_ = -1;
  Handle socket_, error_;
};

}  // namespace kilter::tune
