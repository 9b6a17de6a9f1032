// The static agent cannot load the client library of PostgreSQL.
#include "agent/open_queue.h"
#include "base/error.h"

namespace kilter {

std::unique_ptr<fleet::JobSource> open_queue(const std::string& url, double /*lease_seconds*/) {
  fail(ErrorKind::unsupported,
       "--fleet {}: this agent is linked statically and reaches a fleet only through a broker: give https://HOST:PORT, "
       "where `kilter-broker` runs",
       url);
}

}  // namespace kilter
