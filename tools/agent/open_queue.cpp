#include "agent/open_queue.h"

#include "fleet/queue.h"

namespace kilter {

std::unique_ptr<fleet::JobSource> open_queue(const std::string& url, double lease_seconds) {
  return std::make_unique<fleet::Queue>(url, fleet::QueueOptions{.lease_seconds = lease_seconds});
}

}  // namespace kilter
