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
#include "schedule/kernel_versions.h"
#include "scratch_folder.h"
#include "tool.h"
#include "version.h"

namespace {

int exit_code(kilter::ErrorKind kind) {
  using kilter::ErrorKind;
  switch (kind) {
    case ErrorKind::usage:
      return kilter::tool::kUsage;
    case ErrorKind::bad_model:
    case ErrorKind::bad_input:
    case ErrorKind::unsupported:
    case ErrorKind::io:
    case ErrorKind::out_of_memory:
      return kilter::tool::kBadInput;
    case ErrorKind::internal:
      break;
  }
  return kilter::tool::kInternal;
}

/// Reports that standard output cannot be written, with the reason in errno.
int unwritten() {
  fmt::print(stderr, "kilter: cannot write to standard output: {}\n", std::strerror(errno));
  return kilter::tool::kBadInput;
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

int run(int argc, char** argv) {
  using namespace kilter::tool;
  CommandLine line("Kilter compiles ONNX networks to machine code for this CPU, checks and times them.", "kilter",
                   version_text);
  const Command app = line.root();
  app.require_subcommand();
  app.footer("Example:  kilter run zoo:resnet18 --verify\nEvery subcommand has --help.");
  Context context;
#define KILTER_COMMAND(name) add_##name(app, context);
#include "commands.inc"
#undef KILTER_COMMAND
  auto [words, unknown] = line.parse(argc, argv);
  if (words.empty()) return context.exit;
  while (!words.empty() && (words.back() == '\n' || words.back() == '.')) words.pop_back();
  if (unknown) words = in_order(std::move(words), argc, argv);
  fmt::print(stderr, "kilter: {}; --help lists what is legal\n", kilter::printable_lines(words));
  return kUsage;
}

}  // namespace

std::string kilter::tool::version_text() {
  return fmt::format("kilter {} ({}, {}, {})", KILTER_VERSION, KILTER_COMMIT, KILTER_BUILD_TYPE,
                     KernelVersions(codegen_version()).all());
}

int main(int argc, char** argv) {
  // Callers recognise an interrupt by this exit code. A file that was about to be replaced keeps its old contents.
  std::signal(SIGINT, [](int) {
    static std::atomic<bool> ending = false;
    while (ending.exchange(true)) pause();  // a second signal, in another thread, must not cut the first one short
    kilter::tool::ScratchFolder::remove_now();
    kilter::remove_files_under_way();
    _exit(kilter::tool::kInterrupted);
  });
#ifdef M_MXFAST
  mallopt(M_MXFAST, 0);  // large networks allocate and free often; each time glibc would walk its fast bins
#endif
  // Exceeding the file size limit is an error like a full disk; it must not kill the process.
  std::signal(SIGXFSZ, SIG_IGN);
  try {
    const int code = run(argc, argv);
    if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
    return unwritten();
  } catch (const kilter::Error& e) {
    fmt::print(stderr, "kilter: {}\n", kilter::printable_lines(e.message()));
    return exit_code(e.kind());
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "kilter: out of memory\n");
    return kilter::tool::kBadInput;
  } catch (const std::exception& e) {
    if (std::ferror(stdout) != 0) return unwritten();
    fmt::print(stderr, "kilter: internal error: {}\n", kilter::printable_lines(e.what()));
    return kilter::tool::kInternal;
  }
}
