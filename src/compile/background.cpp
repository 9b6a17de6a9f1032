#include "compile/background.h"

#include <sys/resource.h>
#include <sys/syscall.h>

#include <utility>

#include "base/error.h"
#include "base/float_environment.h"

namespace kilter {
namespace {

struct Stopped {};

/// Linux keeps a nice value for each thread.
void take_lowest_priority() {
  constexpr int kLowest = 19;
  (void)setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), kLowest);
}

}  // namespace

Background::Background(std::string owner, Task task)
    : owner_(std::move(owner)), task_(std::move(task)), thread_([this] { work(); }) {}

Background::~Background() {
  if (orphaned()) {  // a handle of a thread that does not exist can be neither joined nor destroyed
    static_cast<void>(new std::thread(std::move(thread_)));
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Background::begin_pause() {
  std::unique_lock lock(mutex_, std::try_to_lock);
  if (orphaned() && (!lock || (busy_ && pauses_ == 0))) {
    fail(ErrorKind::usage,
         "{}: plans were being compiled in the background when this process was forked; create another network here",
         owner_);
  }
  if (!lock) lock.lock();
  if (pauses_++ > 0) return;
  changed_.wait(lock, [&] { return !busy_; });
  busy_ = true;
}

void Background::end_pause() {
  {
    const std::lock_guard lock(mutex_);
    if (--pauses_ > 0) return;
  }
  end_turn();
}

void Background::end_turn() {
  {
    const std::lock_guard lock(mutex_);
    busy_ = false;
  }
  changed_.notify_all();
}

void Background::work() {
  take_lowest_priority();
  const FloatEnvironment standard;
  const Check check = [this] {
    if (stopping_) throw Stopped();
  };
  for (bool more = true; more;) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return stopping_ || (!busy_ && pauses_ == 0); });
      if (stopping_) return;
      busy_ = true;
    }
    try {
      more = task_(check);
    } catch (...) {  // Stopped, or an error that the task should have reported
      more = false;
    }
    if (!more) ended_ = true;
    end_turn();
  }
}

}  // namespace kilter
