// kilter compile: writes a compiled file that loads without recompiling.

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/other_threads.h"
#include "base/text.h"
#include "compile/driver.h"
#include "exec/plan_file.h"
#include "terminal.h"
#include "tool.h"

namespace kilter::tool {
namespace {

double megabytes(const std::string& file) { return static_cast<double>(std::filesystem::file_size(file)) * 1e-6; }

/// What was written, as JSON and as a line of text.
struct Written {
  nlohmann::json json;
  std::string text;
  std::optional<double> compile_ms = std::nullopt;  ///< if it is known apart from loading and saving
};

Written compile_program(Session& session, const std::string& file) {
  const Session::SavedProgram saved = session.save_program(file);
  return {{{"kind", "program"}, {"functions", saved.functions}, {"segments", saved.segments}, {"plans", saved.plans}},
          fmt::format("a program (functions {}, segments {}, plans {})", saved.functions, saved.segments, saved.plans)};
}

Written compile_shapes(Session& session, const std::string& file) {
  const size_t plans = session.save_shapes(file);
  return {{{"kind", "shapes"}, {"plans", plans}}, fmt::format("plans for {} shapes,", plans)};
}

Written compile_plan(Session& session, const ModelOptions& options, const std::string& file, bool prints) {
  Loaded& loaded = session.compile();
  Plan& plan = loaded.compiled.plan;
  const bool tuned = loaded.compiled.records_tuned_at > 0;
  if (tuned) plan.compiled_for = options.thread_count();
  save_plan(loaded.own_plan(), file);
  tell_records(plan.records, tuned ? "; compiled for " + threads_text(plan.compiled_for) : "");
  if (options.time_passes && prints) print_passes(loaded.compiled);
  return {{{"kind", "plan"},
           {"steps", loaded.plan().steps.size()},
           {"records", plan.records},
           {"arena_bytes", plan.arena_bytes},
           {"weight_bytes", plan.constants_bytes}},
          fmt::format("{} steps", loaded.plan().steps.size()),
          loaded.compiled.compile_ms};
}

/// The file's name does not matter to Kilter, but other programs would take it for what it says.
void warn_of_name(const std::string& file) {
  const std::string ending = lower(std::filesystem::path(file).extension().string());
  for (const std::string_view other : {".onnx", ".pb", ".so", ".tflite", ".xml", ".engine"}) {
    if (ending != other) continue;
    note("warning: --output {}: the file is a compiled file of Kilter, not what '{}' says; name it {}\n",
         printable(file), ending, shell_word(std::filesystem::path(file).replace_extension(".kilter").string()));
  }
}

void compile(const ModelOptions& options, const std::string& file, const std::string& json) {
  if (is_plan_file(options.model) || vm::is_program_file(options.model))
    fail(ErrorKind::usage, "{} is already a compiled file: copy it, or give the original model", options.model);
  check_writable("--json", json);
  warn_of_name(file);
  const auto start = std::chrono::steady_clock::now();
  const auto session = options.open();
  Written written;
  {
    Progress progress("compile " + session->name());
    progress.show("compiling");
    written = session->saves_program()  ? compile_program(*session, file)
              : session->saves_shapes() ? compile_shapes(*session, file)
                                        : compile_plan(*session, options, file, json != "-");
  }
  const double ms = written.compile_ms.value_or(ms_since(start));
  const std::string& target = session->options().compile.target.name;
  written.json["model"] = session->name(), written.json["file"] = file, written.json["target"] = target;
  written.json["ms"] = ms, written.json["bytes"] = std::filesystem::file_size(file);
  if (!json.empty()) write_json(json, written.json);
  if (json != "-") confirm("{}: {} for {} in {:.0f} ms, {:.1f} MB\n", file, written.text, target, ms, megabytes(file));
}

}  // namespace

void add_compile(Command app, Context&) {
  auto options = std::make_shared<ModelOptions>();
  auto file = std::make_shared<std::string>(), json = std::make_shared<std::string>();
  Command sub = app.subcommand(
      "compile", "Compile a network to a file that `kilter run` and libkilter_runtime load without recompiling");
  sub.group("Run and deploy");
  sub.heading("Output");
  sub.option("-o,--output,~--out", *file, "file to write, such as NAME.kilter").file().required();
  sub.json(*json, "what was written");
  options->add_to(sub);
  sub.footer(
      "With --shapes, the file has a plan for each shape of the ranges. Constants that plans share are in it once.\n"
      "A network with control flow, sequences or shapes that depend on data (doc/control_flow.md) becomes a file of a "
      "program, with code for all shapes that follow from those of the inputs.");
  sub.example("kilter compile zoo:resnet18 -o resnet18.kilter", "Compile for this machine");
  sub.example("kilter compile zoo:resnet18 --target x86-64-v3 -o resnet18.kilter", "Compile for any CPU with AVX2");
  sub.callback([=] { compile(*options, *file, *json); });
}

}  // namespace kilter::tool
