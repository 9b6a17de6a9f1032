// kilter compile: writes a compiled file that loads without recompiling.

#include <filesystem>

#include "base/other_threads.h"
#include "exec/plan_file.h"
#include "terminal.h"
#include "tool.h"

namespace kilter::tool {

void add_compile(Command app, Context&) {
  auto options = std::make_shared<ModelOptions>();
  auto file = std::make_shared<std::string>();
  Command sub = app.subcommand(
      "compile", "Compile a network to a file that `kilter run` and libkilter_runtime load without recompiling");
  options->add_to(sub);
  sub.option("-o,--out", *file, "file to write").required();
  sub.callback([=] {
    if (is_plan_file(options->model)) {
      fail(ErrorKind::usage, "{} is already a compiled file: copy it, or give the original model", options->model);
    }
    const auto session = options->open();
    Progress progress("compile " + session->name());
    progress.show("compiling");
    Loaded& loaded = session->compile();
    Plan& plan = loaded.compiled.plan;
    const bool tuned = loaded.compiled.records_tuned_at > 0;
    if (tuned) plan.compiled_for = options->thread_count();
    save_plan(loaded.own_plan(), *file);
    progress.clear();
    tell_records(plan, tuned ? "; compiled for " + threads_text(plan.compiled_for) : "");
    if (options->time_passes) print_passes(loaded.compiled);
    say("{}: {} steps for {} in {:.0f} ms, {:.1f} MB\n", *file, loaded.plan().steps.size(), loaded.plan().target,
        loaded.compiled.compile_ms, static_cast<double>(std::filesystem::file_size(*file)) * 1e-6);
  });
}

}  // namespace kilter::tool
