// Tasks on a thread of their own, which take turns with the thread that uses the same data.
#pragma once

#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

namespace kilter {

/// Runs tasks one after another on a thread of the lowest priority. While a Pause exists, no task runs.
class Background {
 public:
  /// Throws if the task must end early because this object is being destroyed.
  using Check = std::function<void()>;
  /// Does one task and returns whether there are more. It must call `check` from time to time. If a task throws, no
  /// further task runs.
  using Task = std::function<bool(const Check& check)>;

  /// `owner`: the name used in errors.
  Background(std::string owner, Task task);
  /// Ends the running task early.
  ~Background();
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  class Pause {
   public:
    explicit Pause(Background& background) : background_(&background) { background.begin_pause(); }
    ~Pause() {
      if (background_ != nullptr) background_->end_pause();
    }
    Pause(Pause&& other) noexcept : background_(std::exchange(other.background_, nullptr)) {}
    Pause& operator=(Pause&&) = delete;

   private:
    Background* background_;
  };
  /// Waits for the running task. Throws usage in a child of fork() if a task was running at the time of the fork. Only
  /// one thread may have pauses at a time; it may have any number of them.
  Pause pause() { return Pause(*this); }
  /// Whether the last task has been done.
  bool ended() const { return ended_; }

 private:
  void begin_pause();
  void end_pause();
  void end_turn();
  void work();
  bool orphaned() const { return getpid() != process_; }

  std::string owner_;
  Task task_;
  std::mutex mutex_;  ///< of the next three
  std::condition_variable changed_;
  bool busy_ = false;  ///< a task is running, or a Pause exists
  int pauses_ = 0;     ///< pauses that exist or wait for a task
  std::atomic<bool> stopping_{false}, ended_{false};
  pid_t process_ = getpid();
  std::thread thread_;
};

}  // namespace kilter
