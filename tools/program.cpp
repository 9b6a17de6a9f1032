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
#include <nlohmann/json.hpp>

#include "base/cpu_info.h"
#include "base/files.h"
#include "base/text.h"
#include "codegen/backend.h"
#include "commit.h"
#include "help_text.h"
#include "kilter/version.h"
#include "schedule/kernel_versions.h"
#include "scratch_folder.h"
#include "terminal.h"
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

nlohmann::json version_json() {
  return {{"version", KILTER_VERSION_STRING},
          {"commit", KILTER_COMMIT},
          {"build_type", KILTER_BUILD_TYPE},
          {"code_generator", codegen_version()},
          {"kernels", KernelVersions(codegen_version()).all()},
          {"machine", cpu_brand()},
          {"target", native_target().name}};
}

int run_command(const std::vector<std::string>& words) {
  Context context;
  CommandLine line("Kilter compiles ONNX networks to machine code for this CPU, checks and times them.", "kilter");
  const Command root = line.root();
  root.require_subcommand();
  root.stands_for("-V,--version", "version", "print the version");
#define KILTER_COMMAND(name) add_##name(root, context);
#include "commands.inc"
#undef KILTER_COMMAND
  if (words.empty()) {
    say("{}", help_text(root.text(), false));
    return kUsage;
  }
  line.parse(words);
  return context.exit;
}

std::unique_ptr<Session> open_network(const std::vector<std::string>& words) {
  ModelOptions options;
  CommandLine line("Open a network", "kilter run");  // whose options these are
  options.add_to(line.root());
  line.parse(words);
  options.ships = true;
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
    say_error("{} {}\n", styled_error(Style::bad, "kilter:"), printable_lines(e.message()));
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
