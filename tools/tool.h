// What the subcommands share: options, inputs, output. Each subcommand is one file with one `add_*` function.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compile/session.h"
#include "tune/records/record.h"

namespace kilter::tool {

enum Exit : int { kDone = 0, kCheckFailed = 1, kUsage = 2, kBadInput = 3, kInternal = 4, kInterrupted = 130 };

/// "kilter 0.1.0 (commit, build type, LLVM)": what --version prints.
std::string version_text();

/// Set by a subcommand's callback; main() returns it.
struct Context {
  int exit = kDone;
};

/// Options of every subcommand that opens a model.
struct ModelOptions {
  std::string model;
  std::vector<std::string> inputs;     ///< NAME=FILE.npy or NAME=SHAPE
  std::vector<std::string> schedules;  ///< NODE=SCHEDULE
  std::vector<std::string> disable, fuse, no_fuse, plain_layout;
  std::vector<std::string> layer_threads;  ///< NODE=N
  std::string target = "native", accuracy = "default";
  std::string memory;  ///< a size as parse_size() reads it; empty: not given
  std::string dump_ir, stop_after;
  std::string records = "none";  ///< FILE, "default" (default_records_file()) or "none"
  std::string choose;            ///< tune::parse_choose(); empty: not given
  std::string layer_plan;        ///< file of what is chosen of each layer; empty: none
  std::vector<std::string> forbid;
  int threads = 0;
  int64_t max_rewrites = -1;
  bool time_passes = false;
  bool no_verify_file = false;
  bool operator==(const ModelOptions&) const = default;

  /// All of the following. `compiled_files`: whether MODEL may be one, for the help.
  void add_to(CLI::App& app, bool compiled_files = true);
  void add_model_to(CLI::App& app, bool compiled_files = true);  ///< MODEL, --input, --threads
  void add_compile_to(CLI::App& app);                            ///< how it is compiled, and what is shown of that
  void add_sources_to(CLI::App& app);                            ///< --records, --choose, --layer-plan
  void add_records_to(CLI::App& app);
  /// --input, --threads, and how a model is compiled, with `suffix` behind each name, such as "-a" for one side.
  void add_settings_to(CLI::App& app, const std::string& suffix = "");
  /// Texts that say "not given" where nothing is, for a side whose options go before those of both.
  static ModelOptions of_side();
  /// These, of both sides, with what is given of one. A side's own source of schedules takes the place of the shared
  /// one, and its input that of the shared one of its name; lists get longer.
  ModelOptions with_side(const ModelOptions& side) const;
  /// Throws usage where the model is a compiled file and options ask for it to be compiled otherwise.
  std::unique_ptr<Session> open() const;
  CompileOptions compile_options() const;
  /// What --records, --layer-plan and --forbid ask for, the options of single layers before it.
  void add_sources(CompileOptions& options) const;
  void add_layer_plan(CompileOptions& options) const;
  /// Without --records and what goes with it.
  ModelOptions without_records() const;
  /// Bars in the records in use what --forbid record:ID names (tune::bar()). Throws usage for an id
  /// that not one of them has, and where none are in use.
  void bar_records(std::vector<tune::Record>& known) const;
  /// An option and its value; empty for one without.
  using Given = std::pair<std::string, std::string>;
  /// The options given of how a model is compiled, one for each value. What it is by default counts as not given.
  std::vector<Given> compile_options_given() const;
  /// The first of them, "--records k.db"; nothing where none is given. `suffix` ends its name.
  std::optional<std::string> compile_option(const std::string& suffix = "") const;
  /// Throws usage where `file` is a compiled file, which no compile_option() changes, and one is given.
  void check_compiled(const std::string& file, const std::string& suffix = "") const;
  /// Threads to run on: --threads, or the default.
  int thread_count() const;
  /// The file of records; empty for "none".
  std::string records_file() const;
  /// Shapes and tensors that --input gives.
  onnx::Model::Shapes shapes() const;
  std::map<std::string, Tensor> tensors() const;
  /// A tensor for every input: given ones, seeded random ones for the rest.
  std::map<std::string, Tensor> all_inputs(const Session& session) const;
};

/// Registers --records, --choose and --layer-plan of `options`, `suffix` behind each name.
void add_sources_of(CLI::App& app, ModelOptions& options, const std::string& suffix);

/// Whether this --forbid is of one record, "record:ID".
bool names_record(std::string_view forbid);

/// A network compiled for its inputs, with tensors on both sides: what subcommands that time a network run.
struct Prepared {
  explicit Prepared(const ModelOptions& options);

  std::unique_ptr<Session> session;
  std::map<std::string, Tensor> inputs;
  Loaded* loaded = nullptr;
  std::vector<Tensor> outputs;
  std::vector<const std::byte*> from;  ///< in the plan's order
  std::vector<std::byte*> to;
  int threads = 1;
  const Plan& plan() const { return loaded->plan(); }
  /// As programs run a network: through Session::run(). Its outputs are not `outputs`.
  void run() { session->run(inputs); }
};

/// Writes text to a file, or to standard output for "-". Throws io naming the option and the file.
void write_text(const std::string& option, const std::string& where, const std::string& text);

/// Throws io naming the option when a file cannot be opened for writing; empty and "-" are fine. Says it before minutes
/// of work, and leaves everything as it was.
void check_writable(const std::string& option, const std::string& where);

/// Bytes of "200MB", "1.5GiB", "4096". Throws usage naming the option.
int64_t parse_size(const std::string& text, const std::string& option);

/// Splits "NAME=VALUE" at the last '='; usage error naming the option otherwise.
std::pair<std::string, std::string> split_assignment(const std::string& text, const std::string& option);

/// The arguments of the command line that say what is run, and not how: " --input x=1x3x64x64", or nothing.
std::string model_arguments(const ModelOptions& options);
/// What follows `kilter run` where it is to run what was tuned under these options: the model, then the options, with
/// the records.
std::string use_arguments(const ModelOptions& options);
/// A name for the compiled file of a model: "resnet18.kilter" of "zoo:resnet18" and of "nets/resnet18.onnx".
std::string compiled_name(const std::string& model);
/// "kilter compare MODEL --threads N ... --records-b default": what shows how much records that are not in use bring.
std::string use_records_command(const ModelOptions& options);
/// "kilter tune MODEL --threads N ...": what tunes this network for these options.
std::string tune_command(const ModelOptions& options);

/// Says on standard error which records a plan uses, and `more` of it; nothing where it uses none.
void tell_records(const Plan& plan, const std::string& more = {});
void print_passes(const Compiled& compiled);

void add_run(CLI::App& app, Context& context);
void add_bench(CLI::App& app, Context& context);
void add_compile(CLI::App& app, Context& context);
void add_check(CLI::App& app, Context& context);
void add_inspect(CLI::App& app, Context& context);
void add_profile(CLI::App& app, Context& context);
void add_time(CLI::App& app, Context& context);
void add_explain(CLI::App& app, Context& context);
void add_compare(CLI::App& app, Context& context);
void add_device(CLI::App& app, Context& context);
void add_lists(CLI::App& app, Context& context);  ///< ops, targets, options
void add_zoo(CLI::App& app, Context& context);
void add_kernels(CLI::App& app, Context& context);
void add_records(CLI::App& app, Context& context);
void add_tune(CLI::App& app, Context& context);
void add_graph_tune(CLI::App& app, Context& context);
void add_tasks(CLI::App& app, Context& context);
void add_cost_model(CLI::App& app, Context& context);
void add_worker(CLI::App& app, Context& context);
void add_searchers(CLI::App& app, Context& context);

}  // namespace kilter::tool
