// Help as text, generated from the table of commands.
#pragma once

#include <string>
#include <string_view>

#include "command_table.h"

namespace kilter::tool {

/// Breaks text into lines of at most `width` characters, each beginning with `indent` spaces. Keeps the line ends of
/// the text; a word that is too long has a line of its own.
std::string wrapped(std::string_view text, size_t indent, size_t width);

/// Returns e.g. "kilter run [OPTIONS] MODEL".
std::string usage_text(const CommandText& command);

/// Returns the help of an option without its name: the text, then legal values, range and default in parentheses.
std::string option_help(const OptionText& option);
/// Returns e.g. "-o, --output FILE".
std::string option_form(const OptionText& option);

/// Returns the help of a command, for the terminal of the console's output, or for 80 columns if there is none.
/// `all`: with the rare options.
std::string help_text(const CommandText& command, bool all);

}  // namespace kilter::tool
