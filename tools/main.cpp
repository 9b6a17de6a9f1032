#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <exception>

#include "codegen/llvm/backend.h"
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
      return kilter::tool::kBadInput;
    case ErrorKind::internal:
      break;
  }
  return kilter::tool::kInternal;
}

int run(int argc, char** argv) {
  CLI::App app("Kilter compiles ONNX networks to machine code for this CPU, checks and times them.", "kilter");
  app.set_version_flag("--version", kilter::tool::version_text);
  app.require_subcommand(1);
  app.footer("Example:  kilter run zoo:resnet18 --verify\nEvery subcommand has --help.");
  kilter::tool::Context context;
  using namespace kilter::tool;
  add_run(app, context);
  add_bench(app, context);
  add_compile(app, context);
  add_check(app, context);
  add_inspect(app, context);
  add_profile(app, context);
  add_explain(app, context);
  add_time(app, context);
  add_compare(app, context);
  add_kernels(app, context);
  add_tasks(app, context);
  add_tune(app, context);
  add_graph_tune(app, context);
  add_records(app, context);
  add_cost_model(app, context);
  add_searchers(app, context);
  add_device(app, context);
  add_lists(app, context);
  add_zoo(app, context);
  add_worker(app, context);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return app.exit(e), kDone;  // --help, --version
    std::string words = e.what();
    while (!words.empty() && (words.back() == '\n' || words.back() == '.')) words.pop_back();
    fmt::print(stderr, "kilter: {}; --help lists what is legal\n", words);
    return kUsage;
  }
  return context.exit;
}

}  // namespace

std::string kilter::tool::version_text() {
  return fmt::format("kilter {} ({}, {}, {})", KILTER_VERSION, KILTER_COMMIT, KILTER_BUILD_TYPE, codegen_version());
}

int main(int argc, char** argv) {
  // Callers tell an interrupt by this code; the file that is being written stays as it is.
  std::signal(SIGINT, [](int) {
    static std::atomic<bool> ending = false;
    while (ending.exchange(true)) pause();  // a second signal, in another thread, does not cut the first one short
    kilter::tool::ScratchFolder::remove_now();
    _exit(kilter::tool::kInterrupted);
  });
  // A limit of the file size is an error like a full disk, not the end of the process.
  std::signal(SIGXFSZ, SIG_IGN);
  try {
    return run(argc, argv);
  } catch (const kilter::Error& e) {
    fmt::print(stderr, "kilter: {}\n", e.message());
    return exit_code(e.kind());
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "kilter: out of memory\n");
    return kilter::tool::kBadInput;
  } catch (const std::exception& e) {
    fmt::print(stderr, "kilter: internal error: {}\n", e.what());
    return kilter::tool::kInternal;
  }
}
