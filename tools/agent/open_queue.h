#pragma once

#include <memory>
#include <string>

#include "fleet/agent/job_source.h"

namespace kilter {

/// Connects to a fleet's database. Throws unsupported in an agent that is built without its client library.
std::unique_ptr<fleet::JobSource> open_queue(const std::string& url, double lease_seconds);

}  // namespace kilter
