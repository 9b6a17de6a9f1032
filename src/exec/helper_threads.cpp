#include "exec/helper_threads.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "exec/cpu_limits.h"

namespace kilter {

void on_helper_threads(size_t count, size_t threads, const std::function<void(size_t)>& work) {
  std::atomic<size_t> next{0};
  std::mutex mutex;
  std::exception_ptr failure;
  const auto take = [&] {
    try {
      for (size_t i = next++; i < count; i = next++) work(i);
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (failure == nullptr) failure = std::current_exception();
    }
  };
  std::vector<std::jthread> helpers;
  try {
    const size_t wanted = std::min(threads, count);
    const size_t most = wanted > 1 ? std::min(wanted, static_cast<size_t>(available_cpus())) : 1;
    helpers.reserve(most);
    while (helpers.size() + 1 < most) helpers.emplace_back(take);
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): fewer threads do the same
  }
  take();
  helpers.clear();
  if (failure != nullptr) std::rethrow_exception(failure);
}

}  // namespace kilter
