// The static agent cannot load the client library of PostgreSQL.
#include <kilter/version.h>

#include "agent/open_queue.h"
#include "base/error.h"
#include "fleet/agent/agent_program.h"

namespace kilter {

namespace {

constexpr fleet::ProgramMarker kMarker{KILTER_VERSION_STRING};  ///< for program_in()

}  // namespace

std::unique_ptr<fleet::JobSource> open_queue(const std::string& url, double /*lease_seconds*/) {
  asm volatile("" : : "r"(&kMarker));  // keeps the linker from removing the marker
  fail(ErrorKind::unsupported,
       "--fleet {}: this agent is linked statically and reaches a fleet only through a broker: give https://HOST:PORT, "
       "where `kilter-broker` runs",
       url);
}

}  // namespace kilter
