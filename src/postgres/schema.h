// The schema "kilter" of a database, which contains all of Kilter's tables and functions: the tuning records, and the
// queue of a fleet. The scripts in migrations/ create it, each from one version to the next; its table schema_version
// lists the scripts that have run.
#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "postgres/server.h"

namespace kilter::postgres {

/// The newest version of the schema that this program knows.
int64_t known_schema();
/// Returns the version of the database's schema; 0: it has none. Throws bad_input for a schema "kilter" that is not
/// Kilter's.
int64_t schema_version(Server& server);
/// Creates the schema, or migrates an older one, under a lock, so that several processes can do it at once. Leaves a
/// newer one unchanged. Returns a notice of what was done, or "". Throws io if the user may not do that, and
/// unsupported for a database that is not encoded in UTF-8.
std::string prepare_schema(Server& server);
/// Returns the columns of a table of the schema; none if there is no such table.
std::set<std::string> columns_of(Server& server, const std::string& table);
/// Throws bad_input because the schema "kilter" is not Kilter's.
[[noreturn]] void refuse_other_schema(const Server& server);

}  // namespace kilter::postgres
