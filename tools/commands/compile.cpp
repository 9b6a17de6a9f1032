// kilter compile: writes a compiled file that loads without recompiling.

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/other_threads.h"
#include "base/text.h"
#include "compile/driver.h"
#include "compile/several_targets.h"
#include "terminal.h"
#include "tool.h"

namespace kilter::tool {
namespace {

/// What was written, as JSON and as a line of text.
struct Written {
  nlohmann::json json;
  std::string text;
  std::optional<double> compile_ms = std::nullopt;  ///< if it is known apart from loading and saving
  std::vector<std::string> beside = {};             ///< other files that were written
};

Written written(const vm::Content& content) {
  if (const Plan* plan = std::get_if<Plan>(&content)) {
    return {{{"kind", "plan"},
             {"steps", plan->steps.size()},
             {"records", plan->records},
             {"arena_bytes", plan->arena_bytes},
             {"weight_bytes", plan->constants_bytes}},
            fmt::format("{} steps", plan->steps.size())};
  }
  const auto& file = std::get<vm::ProgramFile>(content);
  size_t plans = 0;
  for (const vm::FileSegment& segment : file.segments) plans += segment.plans.size();
  if (file.has_whole_network())
    return {{{"kind", "shapes"}, {"plans", plans}}, fmt::format("plans for {} shapes,", plans)};
  const size_t functions = file.program.functions.size(), segments = file.segments.size();
  return {{{"kind", "program"}, {"functions", functions}, {"segments", segments}, {"plans", plans}},
          fmt::format("a program (functions {}, segments {}, plans {})", functions, segments, plans)};
}

/// Prints a note on which records were used for what was saved, followed by `more`.
void tell_records_of(const vm::Content& content, const std::string& more = {}) {
  const Plan* plan = std::get_if<Plan>(&content);
  if (plan == nullptr) return tell_records(std::get<vm::ProgramFile>(content).records, more);
  tell_records(plan->records,
               (plan->compiled_for > 0 ? "; compiled for " + threads_text(plan->compiled_for) : "") + more);
}

Written compile_one(Session& session, const ModelOptions& options, const std::string& file, bool prints) {
  const Session::Saved saved = session.saved();
  vm::save_compiled(saved.content, file);
  Written made = written(saved.content);
  tell_records_of(saved.content);
  if (!std::holds_alternative<Plan>(saved.content)) return made;
  const Compiled& compiled = session.compile().compiled;
  if (options.time_passes && prints) print_passes(compiled);
  made.compile_ms = compiled.compile_ms;
  return made;
}

Written compile_targets(const std::vector<std::unique_ptr<Session>>& sessions, const std::string& file) {
  const SavedTargets saved = save_targets(sessions, file);
  const std::vector<vm::TargetPart>& parts = saved.parts;
  Written made = written(saved.saved.front().content);
  nlohmann::json rows = nlohmann::json::array();
  for (size_t i = 0; i < parts.size(); ++i) {
    nlohmann::json row = written(saved.saved[i].content).json;
    row["target"] = parts[i].target, row["code_bytes"] = parts[i].code_bytes;
    row["constant_bytes"] = parts[i].constants_bytes, row["own_constant_bytes"] = parts[i].own_bytes;
    if (parts[i].small) row["memory_bytes"] = parts[i].memory_bytes;
    tell_records_of(saved.saved[i].content, "; for " + parts[i].target);
    rows.push_back(std::move(row));
  }
  made.json = {{"kind", "targets"}, {"targets", rows}};
  return made;
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

/// While it lives, the first SIGINT is only recorded: it ends the C compiler in the same terminal, and the library's
/// folder is removed. The destructor then raises the signal again. A second one ends the program at once.
class InterruptAfterCleaning {
 public:
  InterruptAfterCleaning() : before_(std::signal(SIGINT, note)) {}
  ~InterruptAfterCleaning() {
    std::signal(SIGINT, before_);
    if (noted != 0) std::raise(SIGINT);
  }
  InterruptAfterCleaning(const InterruptAfterCleaning&) = delete;
  InterruptAfterCleaning& operator=(const InterruptAfterCleaning&) = delete;

 private:
  static void note(int signal) {
    noted = 1;
    std::signal(signal, SIG_DFL);
  }
  static inline volatile std::sig_atomic_t noted = 0;
  void (*before_)(int);
};

Written compile_library(Session& session, const LibraryChoice& choice, const std::string& file) {
  const aot::Form form = aot::form_of(file, choice.sources);
  aot::LibraryOptions library_options = choice.options;
  library_options.header = choice.header;
  library_options.file_weights = choice.weights == "file";
  const InterruptAfterCleaning interrupt;
  const aot::Library library = session.save_library(form, file, library_options);
  tell_records(session.compile().plan().records);
  std::vector<std::string> files;
  for (const std::filesystem::path& path : library.files) files.push_back(path.string());
  Written made{
      {{"kind", form == aot::Form::sources ? "sources" : "library"},
       {"name", library.name},
       {"files", files},
       {"bytes", library.file_bytes},
       {"kernel_bytes", library.code_bytes},
       {"weight_bytes", library.weight_bytes}},
      fmt::format("{} of {} (weights {:.1f} MB, kernels {:.2f} MB, the rest {:.3f} MB)",
                  form == aot::Form::sources ? "sources" : "library", library.name,
                  static_cast<double>(library.weight_bytes) * 1e-6, static_cast<double>(library.code_bytes) * 1e-6,
                  static_cast<double>(library.other_bytes) * 1e-6)};
  if (form != aot::Form::sources) made.beside.assign(files.begin() + 1, files.end());
  return made;
}

/// Refuses a name with the ending of another format, which would mislead programs and people; it may even be the
/// model's name.
void check_name(const std::string& file) {
  const std::string ending = lower(std::filesystem::path(file).extension().string());
  for (const std::string_view other :
       {".onnx", ".pb", ".tflite", ".xml", ".engine", ".dylib", ".dll", ".lib", ".c", ".1"}) {
    if (ending != other) continue;
    fail(ErrorKind::usage,
         "--output {}: '{}' is the ending of another format, but a compiled file of Kilter would be written; name it "
         "{}, or NAME.so, NAME.a or NAME.o for a C library",
         printable(file), ending, shell_word(std::filesystem::path(file).replace_extension(".kilter").string()));
  }
}

void compile(const ModelOptions& options, const LibraryChoice& choice, const std::string& file,
             const std::string& json) {
  check_writable("--json", json);
  const bool library = choice.sources || aot::is_library_name(file);
  if (!library && vm::is_compiled_file(options.model))
    fail(ErrorKind::usage, "{} is already a compiled file: copy it, or give the original model", options.model);
  if (!library && choice.given()) static_cast<void>(aot::form_of(file, false));  // refuses the name
  if (!library) check_name(file);
  const auto start = std::chrono::steady_clock::now();
  const std::vector<Target> targets = parse_targets(options.target);
  if (library && targets.size() > 1)
    fail(ErrorKind::usage, "--target {}: a library contains code for one target only", options.target);
  if (library && options.small_file)
    fail(ErrorKind::usage, "--size small: a library contains its weights only in packed form; write a compiled file");
  std::vector<std::unique_ptr<Session>> sessions;
  std::vector<std::string> names;
  for (const Target& target : targets) {
    ModelOptions one = options;
    if (targets.size() > 1) one.target = target.name;
    sessions.push_back(one.open());
    names.push_back(sessions.back()->options().compile.target.name);
  }
  Session& session = *sessions.front();
  Written made;
  {
    Progress progress("compile " + session.name());
    progress.show("compiling");
    made = library                                       ? compile_library(session, choice, file)
           : sessions.size() == 1 && !options.small_file ? compile_one(session, options, file, json != "-")
                                                         : compile_targets(sessions, file);
  }
  const double ms = made.compile_ms.value_or(ms_since(start));
  const std::string target = join(names, ", ");
  std::error_code no_size;  // folders, devices and pipes have none
  const uintmax_t size = std::filesystem::file_size(file, no_size);
  const uintmax_t bytes = no_size ? made.json.value("bytes", uintmax_t{0}) : size;
  made.json["model"] = session.name(), made.json["file"] = file, made.json["target"] = target;
  made.json["ms"] = ms, made.json["bytes"] = bytes;
  if (!json.empty()) write_json(json, made.json);
  if (json != "-")
    confirm("{}: {} for {} in {:.0f} ms, {:.1f} MB{}{}\n", file, made.text, target, ms,
            static_cast<double>(bytes) * 1e-6, made.beside.empty() ? "" : "; also written: ", join(made.beside, ", "));
}

}  // namespace

void add_compile(Command app, Context&) {
  auto options = std::make_shared<ModelOptions>();
  options->ships = true;
  auto choice = std::make_shared<LibraryChoice>();
  auto file = std::make_shared<std::string>(), json = std::make_shared<std::string>();
  auto size = std::make_shared<std::string>("fast");
  Command sub = app.subcommand(
      "compile", "Compile a network to a file that `kilter run` and libkilter_runtime load, or to a C library");
  sub.group("Run and deploy");
  sub.heading("Output");
  sub.option("-o,--output,~--out", *file,
             "file to write, such as NAME.kilter; NAME.so, NAME.a and NAME.o are C libraries that need no Kilter")
      .file()
      .required();
  sub.option("--size", *size,
             "fast: the file contains the packed weights, which are mapped into memory; small: it contains the "
             "unpacked weights where those are smaller, and loading packs them")
      .one_of({"fast", "small"})
      .shows_default();
  sub.json(*json, "what was written");
  sub.heading("C libraries");
  sub.option("--header", choice->header, "file for the C header (default: NAME.h beside the library)").file();
  sub.option("--name", choice->options.name,
             "prefix of the functions: NAME_create, NAME_run, NAME_free (default: the file's name)")
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
      "With several names in --target, such as x86-64-v3,znver4,neoverse-n1, the file contains code for each, and "
      "loading chooses the best for the processor (doc/compatibility.md).\n"
      "With --shapes, the file has a plan for each shape of the ranges. Constants that plans share are stored once.\n"
      "A network with control flow, sequences or shapes that depend on data (doc/control_flow.md) becomes a compiled "
      "program, with code for all shapes that follow from those of the inputs.");
  sub.example("kilter compile zoo:resnet18 -o resnet18.kilter", "Compile for this machine");
  sub.example("kilter compile zoo:resnet18 --target x86-64-v3 -o resnet18.kilter", "Compile for any CPU with AVX2");
  sub.example("kilter compile zoo:resnet18 --target x86-64-v3,znver4,neoverse-n1 -o resnet18.kilter",
              "One file for several CPUs");
  sub.example("kilter compile zoo:resnet18 --target x86-64-v3,znver4 --size small -o resnet18.kilter",
              "A smaller file, which takes longer to load");
  sub.example("kilter compile zoo:resnet18 -o resnet18.so", "A C library of the network, and its header resnet18.h");
  sub.callback([=] {
    options->small_file = parse_file_size(*size) == vm::FileSize::small;
    compile(*options, *choice, *file, *json);
  });
}

}  // namespace kilter::tool
