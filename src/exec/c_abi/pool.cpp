// The C interface to pools of threads.
#include <cstddef>

#include "exec/c_abi/support.h"

using kilter::ErrorKind;
using kilter::c_abi::guarded;
using kilter::c_abi::not_null;

kilter_status kilter_pool_create(const kilter_pool_options* options, kilter_pool** pool) {
  if (pool != nullptr) *pool = nullptr;
  return guarded([&] {
    not_null(pool, "pool");
    kilter_pool_options given = KILTER_POOL_OPTIONS;
    if (options != nullptr) {
      kilter::c_abi::take_options(options, options->struct_bytes, sizeof(given), &given, sizeof(given),
                                  "kilter_pool_options", "KILTER_POOL_OPTIONS");
    }
    if (given.cpu_count > 0) not_null(given.cpus, "cpus");
    const std::vector<int> cpus(given.cpus, given.cpus == nullptr ? nullptr : given.cpus + given.cpu_count);
    *pool = new kilter_pool{std::make_shared<kilter::ThreadPool>(given.threads, cpus)};
    kilter::c_abi::log(KILTER_LOG_INFO, "pool of {} threads, {}", (*pool)->threads->threads(),
                       cpus.empty() ? "not bound to CPUs" : "bound to CPUs");
  });
}

int kilter_pool_threads(const kilter_pool* pool) { return pool == nullptr ? 0 : pool->threads->threads(); }

void kilter_pool_free(kilter_pool* pool) { delete pool; }
