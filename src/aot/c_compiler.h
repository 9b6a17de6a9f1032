// The user's C compiler.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/cpu_info.h"

namespace kilter::aot {

/// The command of a compiler and its options, as words.
using Command = std::vector<std::string>;

/// Returns the compiler for an architecture: `given` if it is not empty, otherwise cc, or the first cross compiler that
/// is installed. Throws usage, with the names that were looked for, if there is none.
Command find_compiler(Arch arch, const std::string& given);

/// Runs a program in a folder and waits for it. Returns what it printed. Throws io with the end of its output if it
/// cannot be started or fails.
std::string run_command(const Command& command, const std::filesystem::path& folder);

}  // namespace kilter::aot
