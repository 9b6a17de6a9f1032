// kilter compile: writes a compiled file that loads without recompiling.

#include <chrono>
#include <filesystem>

#include "base/other_threads.h"
#include "compile/driver.h"
#include "exec/plan_file.h"
#include "terminal.h"
#include "tool.h"

namespace kilter::tool {
namespace {

double megabytes(const std::string& file) { return static_cast<double>(std::filesystem::file_size(file)) * 1e-6; }

void compile_program(Session& session, const std::string& file, Progress& progress) {
  const auto start = std::chrono::steady_clock::now();
  const Session::SavedProgram saved = session.save_program(file);
  progress.clear();
  say("{}: a program (functions {}, segments {}, plans {}) for {} in {:.0f} ms, {:.1f} MB\n", file, saved.functions,
      saved.segments, saved.plans, session.options().compile.target.name, ms_since(start), megabytes(file));
}

void compile_shapes(Session& session, const std::string& file, Progress& progress) {
  const auto start = std::chrono::steady_clock::now();
  const size_t plans = session.save_shapes(file);
  progress.clear();
  say("{}: plans for {} shapes, for {} in {:.0f} ms, {:.1f} MB\n", file, plans, session.options().compile.target.name,
      ms_since(start), megabytes(file));
}

void compile(const ModelOptions& options, const std::string& file) {
  if (is_plan_file(options.model) || vm::is_program_file(options.model))
    fail(ErrorKind::usage, "{} is already a compiled file: copy it, or give the original model", options.model);
  const auto session = options.open();
  Progress progress("compile " + session->name());
  progress.show("compiling");
  if (session->saves_program()) return compile_program(*session, file, progress);
  if (session->saves_shapes()) return compile_shapes(*session, file, progress);
  Loaded& loaded = session->compile();
  Plan& plan = loaded.compiled.plan;
  const bool tuned = loaded.compiled.records_tuned_at > 0;
  if (tuned) plan.compiled_for = options.thread_count();
  save_plan(loaded.own_plan(), file);
  progress.clear();
  tell_records(plan.records, tuned ? "; compiled for " + threads_text(plan.compiled_for) : "");
  if (options.time_passes) print_passes(loaded.compiled);
  say("{}: {} steps for {} in {:.0f} ms, {:.1f} MB\n", file, loaded.plan().steps.size(), loaded.plan().target,
      loaded.compiled.compile_ms, megabytes(file));
}

}  // namespace

void add_compile(Command app, Context&) {
  auto options = std::make_shared<ModelOptions>();
  auto file = std::make_shared<std::string>();
  Command sub = app.subcommand(
      "compile", "Compile a network to a file that `kilter run` and libkilter_runtime load without recompiling");
  options->add_to(sub);
  sub.option("-o,--out", *file, "file to write").required();
  sub.footer(
      "With --shapes, the file has a plan for each shape of the ranges. Constants that plans share are in it once.\n\n"
      "A network with control flow, sequences or shapes that depend on data (doc/control_flow.md) becomes a file of a\n"
      "program, with code for all shapes that follow from those of the inputs.");
  sub.callback([=] { compile(*options, *file); });
}

}  // namespace kilter::tool
