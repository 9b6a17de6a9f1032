// Scripts with which shells complete commands, options and their values, generated from the table of commands.
#pragma once

#include <string>
#include <string_view>

#include "command_table.h"

namespace kilter::tool {

/// Returns the script. `shell`: bash, zsh or fish.
std::string completion_script(const CommandText& root, std::string_view shell);

}  // namespace kilter::tool
