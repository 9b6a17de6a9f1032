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

/// Notes in a plan with tuned schedules for how many threads they were chosen. Returns whether it has any.
bool mark_tuned(Loaded& loaded, const ModelOptions& options) {
  const bool tuned = loaded.compiled.records_tuned_at > 0;
  if (tuned) loaded.compiled.plan.compiled_for = options.thread_count();
  return tuned;
}

Written compile_plan(Session& session, const ModelOptions& options, const std::string& file, bool prints) {
  Loaded& loaded = session.compile();
  const Plan& plan = loaded.compiled.plan;
  const bool tuned = mark_tuned(loaded, options);
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

/// Options for libraries.
struct LibraryChoice {
  aot::LibraryOptions options;
  std::string header, weights = "inside";
  bool sources = false;

  bool given() const {
    return sources || !header.empty() || !options.name.empty() || !options.compiler.empty() || weights != "inside";
  }
};

Written compile_library(Session& session, const ModelOptions& options, const LibraryChoice& choice,
                        const std::string& file) {
  const aot::Form form = aot::form_of(file, choice.sources);
  aot::LibraryOptions library_options = choice.options;
  library_options.header = choice.header;
  library_options.file_weights = choice.weights == "file";
  if (!session.saves_shapes() && !session.saves_program()) mark_tuned(session.compile(), options);
  const aot::Library library = session.save_library(form, file, library_options);
  std::vector<std::string> files;
  for (const std::filesystem::path& path : library.files) files.push_back(path.string());
  return {{{"kind", form == aot::Form::sources ? "sources" : "library"},
           {"name", library.name},
           {"files", files},
           {"bytes", library.file_bytes},
           {"kernel_bytes", library.code_bytes},
           {"weight_bytes", library.weight_bytes}},
          fmt::format("{} of {} (weights {:.1f} MB{}, kernels {:.2f} MB, the rest {:.3f} MB)",
                      form == aot::Form::sources ? "sources" : "library", library.name,
                      static_cast<double>(library.weight_bytes) * 1e-6,
                      library_options.file_weights ? " in " + files.back() : "",
                      static_cast<double>(library.code_bytes) * 1e-6, static_cast<double>(library.other_bytes) * 1e-6),
          session.compile().compiled.compile_ms};
}

/// The file's name does not matter to Kilter, but other programs would take it for what it says.
void warn_of_name(const std::string& file) {
  const std::string ending = lower(std::filesystem::path(file).extension().string());
  for (const std::string_view other : {".onnx", ".pb", ".tflite", ".xml", ".engine"}) {
    if (ending != other) continue;
    note("warning: --output {}: the file is a compiled file of Kilter, not what '{}' says; name it {}\n",
         printable(file), ending, shell_word(std::filesystem::path(file).replace_extension(".kilter").string()));
  }
}

void compile(const ModelOptions& options, const LibraryChoice& choice, const std::string& file,
             const std::string& json) {
  check_writable("--json", json);
  const bool library = choice.sources || aot::is_library_name(file);
  if (!library && (is_plan_file(options.model) || vm::is_program_file(options.model)))
    fail(ErrorKind::usage, "{} is already a compiled file: copy it, or give the original model", options.model);
  if (!library && choice.given()) static_cast<void>(aot::form_of(file, false));  // refuses the name
  warn_of_name(file);
  const auto start = std::chrono::steady_clock::now();
  const auto session = options.open();
  Written written;
  {
    Progress progress("compile " + session->name());
    progress.show("compiling");
    written = library                    ? compile_library(*session, options, choice, file)
              : session->saves_program() ? compile_program(*session, file)
              : session->saves_shapes()  ? compile_shapes(*session, file)
                                         : compile_plan(*session, options, file, json != "-");
  }
  const double ms = written.compile_ms.value_or(ms_since(start));
  const std::string& target = session->options().compile.target.name;
  const uintmax_t bytes = std::filesystem::is_directory(file) ? written.json.at("bytes").get<uintmax_t>()
                                                              : std::filesystem::file_size(file);
  written.json["model"] = session->name(), written.json["file"] = file, written.json["target"] = target;
  written.json["ms"] = ms, written.json["bytes"] = bytes;
  if (!json.empty()) write_json(json, written.json);
  if (json != "-")
    confirm("{}: {} for {} in {:.0f} ms, {:.1f} MB\n", file, written.text, target, ms,
            static_cast<double>(bytes) * 1e-6);
}

}  // namespace

void add_compile(Command app, Context&) {
  auto options = std::make_shared<ModelOptions>();
  auto choice = std::make_shared<LibraryChoice>();
  auto file = std::make_shared<std::string>(), json = std::make_shared<std::string>();
  Command sub = app.subcommand(
      "compile", "Compile a network to a file that `kilter run` and libkilter_runtime load, or to a C library");
  sub.group("Run and deploy");
  sub.heading("Output");
  sub.option("-o,--output,~--out", *file,
             "file to write, such as NAME.kilter; NAME.so, NAME.a and NAME.o are C libraries that need no Kilter")
      .file()
      .required();
  sub.json(*json, "what was written");
  sub.heading("C libraries");
  sub.option("--header", choice->header, "file for the C header (default: NAME.h beside the library)").file();
  sub.option("--name", choice->options.name,
             "prefix of the functions: NAME_create, NAME_run, NAME_free (default: as the file is called)")
      .value("NAME");
  sub.option("--weights", choice->weights,
             "inside the library, or in a file NAME.weights beside it, which NAME_create opens")
      .one_of({"inside", "file"})
      .shows_default();
  sub.flag("--cmake", choice->sources,
           "write a folder with the C sources, machine code and a CMakeLists.txt; needs no C compiler here");
  sub.option("--cc", choice->options.compiler,
             "C compiler for the target, with options (default: cc, or the cross compiler for the target)")
      .value("COMMAND");
  options->add_to(sub);
  sub.footer(
      "With --shapes, the file has a plan for each shape of the ranges. Constants that plans share are in it once.\n"
      "A network with control flow, sequences or shapes that depend on data (doc/control_flow.md) becomes a file of a "
      "program, with code for all shapes that follow from those of the inputs.");
  sub.example("kilter compile zoo:resnet18 -o resnet18.kilter", "Compile for this machine");
  sub.example("kilter compile zoo:resnet18 --target x86-64-v3 -o resnet18.kilter", "Compile for any CPU with AVX2");
  sub.example("kilter compile zoo:resnet18 -o resnet18.so", "A C library of the network, and its header resnet18.h");
  sub.callback([=] { compile(*options, *choice, *file, *json); });
}

}  // namespace kilter::tool
