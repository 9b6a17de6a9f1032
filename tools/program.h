// The program `kilter`, and its parts for programs that call commands in their own process.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "compile/session.h"

namespace kilter::tool {

/// Runs a command, such as {"bench", "zoo:resnet18", "--json", "-"}, on the console of the calling thread. Returns its
/// exit code. Throws usage for words that are not legal, and the command's own errors.
int run_command(const std::vector<std::string>& words);

/// Opens a network as commands do: MODEL and the options of `kilter run` that say how to compile it. Throws usage for
/// words that are not legal, and what Session::open() throws.
std::unique_ptr<Session> open_network(const std::vector<std::string>& words);

/// The whole program: run_command() with signals and exit codes. Changes the process's signal handlers and allocator.
int program(int argc, char** argv);

}  // namespace kilter::tool
