// The program: its subcommands, signals and exit codes.
#include "program.h"

#include <malloc.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>

#include "base/files.h"
#include "base/text.h"
#include "codegen/backend.h"
#include "commit.h"
#include "kilter/version.h"
#include "schedule/kernel_versions.h"
#include "scratch_folder.h"
#include "tool.h"

namespace kilter::tool {
namespace {

int exit_code(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::usage:
      return kUsage;
    case ErrorKind::bad_model:
    case ErrorKind::bad_input:
    case ErrorKind::unsupported:
    case ErrorKind::io:
    case ErrorKind::out_of_memory:
      return kBadInput;
    case ErrorKind::internal:
      break;
  }
  return kInternal;
}

/// Reports that standard output cannot be written, with the reason in errno.
int unwritten() {
  say_error("kilter: cannot write to standard output: {}\n", std::strerror(errno));
  return kBadInput;
}

/// Restores the order of unexpected arguments, which the library lists from last to first.
std::string in_order(std::string words, int argc, char** argv) {
  const size_t colon = words.find(": ");
  if (colon == std::string::npos) return words;
  std::string_view left = std::string_view(words).substr(colon + 2);
  std::string list;
  for (int i = argc - 1; i > 0 && !left.empty(); --i) {
    const std::string_view word = argv[i];
    if (!left.starts_with(word) || (left.size() > word.size() && left[word.size()] != ' ')) continue;
    list = list.empty() ? std::string(word) : std::string(word) + " " + list;
    left.remove_prefix(std::min(left.size(), word.size() + 1));
  }
  return left.empty() ? words.substr(0, colon + 2) + list : words;
}

/// Parses a command line whose command `add` registers, and runs the command. Throws usage if the line is not legal.
void parse(const std::vector<std::string>& words, const std::function<void(Command)>& add) {
  CommandLine line("Kilter compiles ONNX networks to machine code for this CPU, checks and times them.", "kilter",
                   version_text);
  add(line.root());
  std::vector<std::string> own{"kilter"};
  own.insert(own.end(), words.begin(), words.end());
  std::vector<char*> argv;
  for (std::string& word : own) argv.push_back(word.data());
  const auto argc = static_cast<int>(argv.size());
  argv.push_back(nullptr);
  auto [error, unknown] = line.parse(argc, argv.data());
  if (error.empty()) return;
  while (!error.empty() && (error.back() == '\n' || error.back() == '.')) error.pop_back();
  if (unknown) error = in_order(std::move(error), argc, argv.data());
  fail(ErrorKind::usage, "{}; --help lists what is legal", error);
}

/// Callers recognise an interrupt by the exit code. A file that was about to be replaced keeps its old contents.
void end_at_interrupt(int /*signal*/) {
  static std::atomic<bool> ending = false;
  while (ending.exchange(true)) pause();  // a second signal, in another thread, must not cut the first one short
  ScratchFolder::remove_now();
  remove_files_under_way();
  _exit(kInterrupted);
}

}  // namespace

std::string version_text() {
  return fmt::format("kilter {} ({}, {}, {})", KILTER_VERSION_STRING, KILTER_COMMIT, KILTER_BUILD_TYPE,
                     KernelVersions(codegen_version()).all());
}

int run_command(const std::vector<std::string>& words) {
  Context context;
  parse(words, [&](Command app) {
    app.require_subcommand();
    app.footer("Example:  kilter run zoo:resnet18 --verify\nEvery subcommand has --help.");
#define KILTER_COMMAND(name) add_##name(app, context);
#include "commands.inc"
#undef KILTER_COMMAND
  });
  return context.exit;
}

std::unique_ptr<Session> open_network(const std::vector<std::string>& words) {
  ModelOptions options;
  parse(words, [&](Command app) { options.add_to(app); });
  return options.open();
}

int program(int argc, char** argv) {
  std::signal(SIGINT, end_at_interrupt);
#ifdef M_MXFAST
  mallopt(M_MXFAST, 0);  // large networks allocate and free often; each time glibc would walk its fast bins
#endif
  // Exceeding the file size limit is an error like a full disk; it must not kill the process.
  std::signal(SIGXFSZ, SIG_IGN);
  try {
    const int code = run_command({argv + 1, argv + argc});
    if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
    return unwritten();
  } catch (const Error& e) {
    say_error("kilter: {}\n", printable_lines(e.message()));
    return exit_code(e.kind());
  } catch (const std::bad_alloc&) {
    say_error("kilter: out of memory\n");
    return kBadInput;
  } catch (const std::exception& e) {
    if (std::ferror(stdout) != 0) return unwritten();
    say_error("kilter: internal error: {}\n", printable_lines(e.what()));
    return kInternal;
  }
}

}  // namespace kilter::tool
