// Messages of the compiler name options as the command line does. The C and C++ interfaces replace them by their own
// names.
#pragma once

#include <string>
#include <string_view>

namespace kilter {

/// Replaces options such as "--keep-float" by the fields of NetworkOptions and LibraryOptions, here "keep_float". Text
/// between backquotes is a command and stays, as options do that C++ does not have.
std::string with_fields(std::string_view message);
/// The same with the names of the C interface's options, here "keep-float".
std::string with_option_names(std::string_view message);

}  // namespace kilter
