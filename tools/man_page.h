// Manual pages, generated from the table of commands.
#pragma once

#include <string>

#include "command_table.h"

namespace kilter::tool {

/// Returns the name of a command's page: "kilter-records-list".
std::string page_name(const CommandText& command);

/// Returns the page of section 1 in roff, with all options that are not hidden.
std::string man_page(const CommandText& command);

}  // namespace kilter::tool
