// The C interface to errors and messages.
#include <pthread.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <string>

#include "base/text.h"
#include "exec/c_abi/support.h"

struct kilter_error {
  kilter_status status;
  std::string message;
};

namespace {

using kilter::ErrorKind;
using kilter::c_abi::guarded;
using kilter::c_abi::not_null;

/// A plain array, so that storing a text does not allocate and threads need not register a destructor.
thread_local char last_error[4096] = "";
thread_local kilter_status last_status = KILTER_OK;

/// The callback for messages. The mutex ensures that only one thread at a time calls it.
struct Log {
  std::mutex mutex;
  kilter_log_callback callback = nullptr;
  void* user = nullptr;
};

/// The highest level that has a callback; -1: there is none.
std::atomic<int> most_logged{-1};
/// Whether this thread is inside the callback, with the mutex locked.
thread_local bool logging = false;

/// Never destroyed, because threads may fail while the process ends. A child of fork() finds the mutex free.
Log& the_log() {
  static Log* const log = [] {
    auto* made = new Log();
    const auto unlock = [] {
      if (!logging) the_log().mutex.unlock();
    };
    const auto lock = [] {
      if (!logging) the_log().mutex.lock();
    };
    pthread_atfork(lock, unlock, unlock);
    return made;
  }();
  return *log;
}

constexpr const char* kStatusNames[] = {
    "KILTER_OK",       "KILTER_ERROR_USAGE",  "KILTER_ERROR_BAD_INPUT", "KILTER_ERROR_UNSUPPORTED",
    "KILTER_ERROR_IO", "KILTER_ERROR_MEMORY", "KILTER_ERROR_INTERNAL",  "KILTER_ERROR_CANCELLED"};

}  // namespace

namespace kilter::c_abi {

kilter_status status_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::usage:
      return KILTER_ERROR_USAGE;
    case ErrorKind::bad_model:
    case ErrorKind::bad_input:
      return KILTER_ERROR_BAD_INPUT;
    case ErrorKind::unsupported:
      return KILTER_ERROR_UNSUPPORTED;
    case ErrorKind::io:
      return KILTER_ERROR_IO;
    case ErrorKind::internal:
      return KILTER_ERROR_INTERNAL;
    case ErrorKind::out_of_memory:
      return KILTER_ERROR_MEMORY;
  }
  return KILTER_ERROR_INTERNAL;
}

kilter_status failed(kilter_status status, const char* text) noexcept {
  log_text(KILTER_LOG_ERROR, text);  // first: calls inside the callback may fail
  const size_t length = std::strlen(text);
  const size_t kept = std::min(length, sizeof(last_error) - 1);
  std::memcpy(last_error, text, kept);
  last_error[kept] = '\0';
  if (kept < length) std::memcpy(last_error + kept - 3, "...", 3);
  last_status = status;
  return status;
}

bool logs(kilter_log_level level) noexcept {
  return static_cast<int>(level) <= most_logged.load(std::memory_order_relaxed) && !logging;
}

void log_text(kilter_log_level level, const char* text) noexcept {
  if (!logs(level)) return;
  try {
    const std::string line = printable(text);
    Log& log = the_log();
    const std::lock_guard lock(log.mutex);
    if (log.callback == nullptr || !logs(level)) return;
    logging = true;
    log.callback(level, line.c_str(), log.user);
    logging = false;
  } catch (...) {  // out of memory: the message is lost
    logging = false;
  }
}

void take_options(const void* given, size_t bytes, size_t least, void* options, size_t size, const char* what,
                  const char* defaults) {
  if (bytes < least || bytes > 4096) {
    fail(ErrorKind::usage, "{}: struct_bytes is {}; expected sizeof({}), which is {} in this version; begin with {}",
         what, bytes, what, size, defaults);
  }
  const auto* from = static_cast<const std::byte*>(given);
  for (size_t i = size; i < bytes; ++i) {
    if (from[i] == std::byte{0}) continue;
    fail(
        ErrorKind::unsupported,
        "{}: byte {} is not 0, but this library knows only the first {}: it is older than the header ({}); use a newer "
        "library, or leave newer options at their defaults",
        what, i, size, KILTER_VERSION_STRING);
  }
  std::memcpy(options, given, std::min(bytes, size));
}

}  // namespace kilter::c_abi

const char* kilter_last_error(void) { return last_error; }

kilter_status kilter_error_copy(kilter_error** error) {
  if (error != nullptr) *error = nullptr;
  return guarded([&] {
    not_null(error, "error");
    if (last_status != KILTER_OK) *error = new kilter_error{last_status, last_error};
  });
}

kilter_status kilter_error_status(const kilter_error* error) { return error == nullptr ? KILTER_OK : error->status; }

const char* kilter_error_message(const kilter_error* error) { return error == nullptr ? "" : error->message.c_str(); }

void kilter_error_free(kilter_error* error) { delete error; }

const char* kilter_status_name(kilter_status status) {
  const auto index = static_cast<size_t>(status);
  return index < std::size(kStatusNames) ? kStatusNames[index] : "unknown status";
}

kilter_status kilter_set_log(kilter_log_callback callback, kilter_log_level most, void* user) {
  return guarded([&] {
    if (most < KILTER_LOG_ERROR || most > KILTER_LOG_DEBUG) {
      kilter::fail(ErrorKind::usage, "level {} of kilter_set_log(); legal values are {} (KILTER_LOG_ERROR) to {} {}",
                   static_cast<int>(most), static_cast<int>(KILTER_LOG_ERROR), static_cast<int>(KILTER_LOG_DEBUG),
                   "(KILTER_LOG_DEBUG)");
    }
    if (logging) {
      kilter::fail(ErrorKind::usage, "{}", "kilter_set_log() was called by the callback itself; call it elsewhere");
    }
    Log& log = the_log();
    const std::lock_guard lock(log.mutex);
    log.callback = callback, log.user = user;
    most_logged.store(callback == nullptr ? -1 : static_cast<int>(most), std::memory_order_relaxed);
  });
}
