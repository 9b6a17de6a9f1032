#include "aot/c_compiler.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <system_error>

#include "base/error.h"
#include "base/handle.h"
#include "base/text.h"

extern char** environ;

namespace kilter::aot {
namespace {

/// Returns whether PATH has a program of this name, or whether the name is the path of one.
bool is_program(const std::string& name) {
  if (name.find('/') != std::string::npos)
    return std::filesystem::is_regular_file(name) && access(name.c_str(), X_OK) == 0;
  const char* path = std::getenv("PATH");
  return std::ranges::any_of(split(path == nullptr ? "" : path, ':'), [&](std::string_view folder) {
    return !folder.empty() && access(fmt::format("{}/{}", folder, name).c_str(), X_OK) == 0;
  });
}

/// The compilers that are tried for an architecture, in this order.
std::vector<Command> candidates(Arch arch) {
  const std::string triple = arch == Arch::x86_64 ? "x86_64-linux-gnu" : "aarch64-linux-gnu";
  std::vector<Command> found;
  if (arch == kThisArch) found = {{"cc"}, {"gcc"}, {"clang"}};
  found.push_back({triple + "-gcc"});
  if (arch != kThisArch) found.push_back({"clang", "--target=" + triple});
  return found;
}

std::string reason(int error) { return std::generic_category().message(error); }

/// The end of a program's output, which has its reason.
std::string last_lines(const std::string& text) {
  constexpr size_t kMost = 2000;
  const std::string_view end = trim(text);
  return std::string(end.size() > kMost ? end.substr(end.size() - kMost) : end);
}

}  // namespace

Command find_compiler(Arch arch, const std::string& given) {
  if (!given.empty()) {
    Command command;
    for (const std::string_view word : split_words(given)) command.emplace_back(word);
    if (command.empty() || !is_program(command.front()))
      fail(ErrorKind::usage, "C compiler '{}': there is no such program", printable(given));
    std::string& program = command.front();  // it runs in another folder
    if (program.find('/') != std::string::npos) program = std::filesystem::absolute(program).string();
    return command;
  }
  std::vector<std::string> names;
  for (const Command& command : candidates(arch)) {
    if (is_program(command.front())) return command;
    names.push_back(command.front());
  }
  fail(ErrorKind::usage,
       "a library for {} needs a C compiler for it, but none of {} is installed: install one, name one with --cc, or "
       "write the sources with --cmake",
       name(arch), join(names, ", "));
}

std::string run_command(const Command& command, const std::filesystem::path& folder) {
  std::vector<std::string> words = {"env", "-C", folder.string()};
  words.insert(words.end(), command.begin(), command.end());
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0)
    fail(ErrorKind::io, "cannot create a pipe to {}: {}", command.front(), reason(errno));
  const Handle from(ends[0]);
  Handle to(ends[1]);
  posix_spawn_file_actions_t actions{};
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, to.get(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, to.get(), STDERR_FILENO);
  pid_t pid = -1;
  const int error = posix_spawnp(&pid, "env", &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) fail(ErrorKind::io, "cannot start {}: {}", command.front(), reason(error));
  to.reset();
  std::string output;
  std::array<char, 4096> buffer{};
  for (;;) {
    const ssize_t n = read(from.get(), buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    output.append(buffer.data(), static_cast<size_t>(n));
  }
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (status == 0) return output;
  const std::string how = WIFSIGNALED(status) ? fmt::format("was ended by signal {}", WTERMSIG(status))
                                              : fmt::format("failed with status {}", WEXITSTATUS(status));
  fail(ErrorKind::io, "'{}' {}:\n{}", join(command, " "), how, printable_lines(last_lines(output)));
}

}  // namespace kilter::aot
