// The places where tuning records are: a file, or a database of a PostgreSQL server, named by a URL such as
// postgresql://user@host/database. A URL may contain passwords, so only shown() of it may be printed or stored.
#pragma once

#include <string>
#include <string_view>

namespace kilter::tune {

/// Whether the place is a URL that begins with postgresql:// or postgres://.
bool is_server(std::string_view place);
/// Returns the place in the form in which messages and reports name it: a URL without its passwords, or the file's name
/// as it is. If a URL is malformed, everything that may be a part of a password is left out.
std::string shown(const std::string& place);
/// Returns the place without its location, for files that are passed on to others: a file's name without its folder, or
/// "a PostgreSQL server".
std::string base_name(const std::string& place);
/// Whether the place is a file that does not exist.
bool is_absent(const std::string& place);
/// Returns the path from which the names of files next to the records are formed, by appending an ending. For a server,
/// it is in the default file's folder, so these files stay on this machine; its name is a hash of the shown URL. Throws
/// usage if there is no such folder, because neither XDG_DATA_HOME nor HOME is set.
std::string beside(const std::string& place);

}  // namespace kilter::tune
