// Options, inputs and output shared by the subcommands. Each subcommand is one file with one `add_*` function.
#pragma once

#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "command_line.h"
#include "compile/session.h"
#include "console.h"
#include "tune/records/record.h"

namespace kilter::tool {

enum Exit : int { kDone = 0, kCheckFailed = 1, kUsage = 2, kBadInput = 3, kInternal = 4, kInterrupted = 130 };

/// The text that --version prints: "kilter 0.1.0 (commit, build type, LLVM)".
std::string version_text();
/// The same as JSON, with this machine.
nlohmann::json version_json();

/// The exit code that a subcommand's callback sets and main() returns.
struct Context {
  int exit = kDone;
};

/// Options of the subcommands that open a model.
struct ModelOptions {
  std::string model;
  std::vector<std::string> inputs;        ///< NAME=SHAPE, NAME=FILE.npy and other forms (inputs.cpp)
  std::vector<std::string> shape_ranges;  ///< NAME=SHAPE with ranges, for ShapeRanges::parse()
  std::vector<std::string> schedules;     ///< NODE=SCHEDULE
  std::vector<std::string> disable, fuse, no_fuse, plain_layout;
  std::vector<std::string> layer_threads;  ///< NODE=N
  std::string target = "native", accuracy = "default", precision = "declared";
  std::vector<std::string> keep_float;  ///< names of nodes and operators
  std::string memory;                   ///< a size for parse_size(); empty: not given
  std::string plan_cache;               ///< a size for parse_size(); empty: kDefaultPlanCacheBytes
  std::string dump_ir, stop_after;
  std::string records = "none";  ///< FILE, URL of a server, "default" (default_records_file()) or "none"
  std::string choose;            ///< for tune::parse_choose(); empty: not given
  std::string layer_plan;        ///< file with the choices for each layer; empty: none
  std::vector<std::string> forbid;
  std::string specialise = "never";  ///< or "now", "auto": when the model is opened, or in the background from then on
  int64_t max_shapes = kDefaultMaxShapes;
  int threads = 0;
  int64_t max_rewrites = -1;
  bool time_passes = false;
  bool no_verify_file = false;
  bool small_file = false;      ///< CompileContents::recipes
  std::string signed_by;        ///< file of a public key; empty: none
  bool asks_signature = false;  ///< --signed-by was given
  bool ships = false;           ///< what is compiled may be saved, so texts about it must not contain folders or dates
  bool operator==(const ModelOptions&) const = default;

  /// Adds all of the options below. `compiled_files`: whether the help says that MODEL may be a compiled file.
  void add_to(Command app, bool compiled_files = true);
  void add_model_to(Command app, bool compiled_files = true);  ///< MODEL, --input, --shapes, --threads, --plan-cache
  void add_compile_to(Command app);                            ///< how to compile, and what to print about it
  void add_sources_to(Command app);                            ///< --records, --choose, --layer-plan
  void add_records_to(Command app);
  /// Adds --input, --threads and the compile options, each with `suffix` appended to its name, e.g. "-a" for one side.
  void add_settings_to(Command app, const std::string& suffix = "");
  /// Returns options that mark every text as "not given", for one side whose options override the shared ones.
  static ModelOptions of_side();
  /// Returns these shared options overridden by the options of one side. A side's source of schedules replaces the
  /// shared one, and its inputs replace the shared inputs of the same name. Lists are concatenated.
  ModelOptions with_side(const ModelOptions& side) const;
  /// Opens the model, and compiles plans in advance if --specialise asks for it. Throws usage if the model is a
  /// compiled file and any option asks to compile it differently.
  std::unique_ptr<Session> open() const;
  struct CompileSetup {
    CompileOptions options;
    std::shared_ptr<const Chooser> chooser;  ///< never null
  };
  CompileSetup compile_setup() const;
  /// Applies --records, --layer-plan and --forbid. Options for single layers take precedence. Returns the chooser
  /// that consults them for a graph; may be null.
  std::shared_ptr<const Chooser> add_sources(CompileOptions& options) const;
  /// Returns a copy without --records and the options that depend on it.
  ModelOptions without_records() const;
  /// Bars those of `known` that --forbid record:ID names (see tune::bar()). Throws usage if no record has the id, or if
  /// no records are in use.
  void bar_records(std::vector<tune::Record>& known) const;
  /// An option and its value, which is empty for a flag.
  using Given = std::pair<std::string, std::string>;
  /// Returns the compile options that differ from their defaults, one entry per value.
  std::vector<Given> compile_options_given() const;
  /// Returns the first of compile_options_given() as text, e.g. "--records k.db", or nothing if there are none.
  /// `suffix` is appended to the option's name.
  std::optional<std::string> compile_option(const std::string& suffix = "") const;
  /// Throws usage if `file` is a compiled file and a compile_option() is given, since it could have no effect.
  void check_compiled(const std::string& file, const std::string& suffix = "") const;
  /// Returns the number of threads to run on: --threads, or the default.
  int thread_count() const;
  /// Returns the path of the record file, or an empty string for "none".
  std::string records_file() const;
  /// Return the shapes and tensors that --input gives. Files of ONNX with other values are left out.
  onnx::Model::Shapes shapes() const;
  std::map<std::string, Tensor> tensors() const;
  /// Throws bad_input if --input gives a tensor of the network as anything else.
  void check_tensors(const Session& session) const;
  /// Returns a tensor for every input that is one: the given ones, and seeded random values for the rest.
  /// `shapes` take precedence over those of the session.
  std::map<std::string, Tensor> tensor_inputs(const Session& session, const onnx::Model::Shapes& shapes = {}) const;
  /// Like tensor_inputs(). Throws bad_input for a sequence or a map among the inputs.
  std::map<std::string, Tensor> all_inputs(const Session& session, const onnx::Model::Shapes& shapes = {}) const;
  /// Returns tensor_inputs() and the other inputs, which must be given unless they are optional.
  std::map<std::string, AnyValue> all_values(const Session& session) const;
};

/// Returns the names of all targets, for completion.
std::vector<std::string> target_names();

/// Registers the argument MODEL, which is required.
Option add_model_argument(Command app, std::string& model, bool compiled_files);

/// Registers --records, --choose and --layer-plan for `options`, each with `suffix` appended to its name.
void add_sources_of(Command app, ModelOptions& options, const std::string& suffix);

/// Whether this --forbid value names one record ("record:ID").
bool names_record(std::string_view forbid);

/// A compiled network with input and output tensors, for the subcommands that time networks.
struct Prepared {
  enum class Form : uint8_t { plan, any };
  /// Throws NeedsProgram for a network that runs as a program, unless `form` is any.
  explicit Prepared(const ModelOptions& options, Form form = Form::plan);

  std::unique_ptr<Session> session;
  std::map<std::string, Tensor> inputs;    ///< those that are tensors
  std::map<std::string, AnyValue> values;  ///< all inputs
  Loaded* loaded = nullptr;                ///< null: the network runs as a program
  std::vector<Tensor> outputs;
  std::vector<const std::byte*> from;  ///< in the order of the plan
  std::vector<std::byte*> to;
  int threads = 1;
  const Plan& plan() const { return loaded->plan(); }
  /// Runs a program until all its segments that can be compiled are.
  void warm_up() {
    for (int i = 0; loaded == nullptr && i < ProgramRunner::kRunsUntilCompiled; ++i) run();
  }
  /// Runs the network through Session::run() or run_values(), as programs do. Does not write to `outputs`.
  void run() {
    if (loaded != nullptr) {
      session->run(inputs);
    } else {
      session->run_values(values);
    }
  }
};

/// Writes text to a file, or to standard output if `where` is "-". Throws io naming the option and the file.
void write_text(const std::string& option, const std::string& where, const std::string& text);
/// Confirms at the end of a command's text that --html has written this file; says nothing if the name is empty.
void confirm_report(const std::string& file);
/// Writes the value of --json, indented, as write_text() does; nothing if `where` is empty.
void write_json(const std::string& where, const nlohmann::json& value);

/// Throws io naming the option if a file cannot be opened for writing; an empty name and "-" are accepted. Call it
/// before long work, so that the error comes early. Leaves the file system unchanged.
void check_writable(const std::string& option, const std::string& where);

/// Splits "NAME=VALUE" at the last '='. Throws usage naming the option if there is none.
std::pair<std::string, std::string> split_assignment(const std::string& text, const std::string& option);

/// Returns the arguments that say what to run rather than how, e.g. " --input x=1x3x64x64"; may be empty.
std::string model_arguments(const ModelOptions& options);
/// Returns the arguments with which `kilter run` uses the plan tuned under these options: the model, then the options
/// including the records.
std::string use_arguments(const ModelOptions& options);
/// Returns a name for the compiled file of a model: "resnet18.kilter" for "zoo:resnet18" and "nets/resnet18.onnx".
std::string compiled_name(const std::string& model);
/// Returns "kilter compare MODEL --threads N ... --records-b default", the command that shows the gain of records that
/// are not in use.
std::string use_records_command(const ModelOptions& options);
/// Returns "kilter tune MODEL --threads N ...", the command that tunes this network under these options.
std::string tune_command(const ModelOptions& options);

/// Reports on standard error which records a plan uses, followed by `more`. Prints nothing if it uses none.
void tell_records(const std::string& records, const std::string& more = {});
/// Like tell_records(), for the plans of a model that runs as a program.
void tell_records_of_program(Session& session);
/// Reports on standard error which threads of a session hardly took part in its runs, if any.
void tell_absent_threads(const Session& session);
void print_passes(const Compiled& compiled);

#define KILTER_COMMAND(name) void add_##name(Command app, Context& context);
#include "commands.inc"
#undef KILTER_COMMAND

}  // namespace kilter::tool
