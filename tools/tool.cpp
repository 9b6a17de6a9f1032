#include "tool.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>

#include "api/named_options.h"
#include "base/files.h"
#include "base/json_text.h"
#include "base/npy.h"
#include "base/other_threads.h"
#include "base/text.h"
#include "compile/index_limit.h"
#include "compile_progress.h"
#include "exec/thread_pool.h"
#include "onnx/model.h"
#include "ops/support/builder.h"
#include "terminal.h"
#include "tune/records/place.h"
#include "tune/tuner/tasks/task_names.h"
#include "tuning.h"
#include "zoo/zoo.h"

namespace kilter::tool {

namespace {

std::vector<std::string> pass_names() {
  std::vector<std::string> out;
  for (const PassRow& row : all_passes()) out.emplace_back(row.name);
  return out;
}

void add_run_to(Command app, ModelOptions& o, const std::string& suffix) {
  app.heading("Input");
  app.option("--input" + suffix, o.inputs,
             "an input: NAME=FILE.npy, NAME=FILE.pb (an ONNX value), or NAME=SHAPE such as x=1x3x224x224; for a "
             "sequence also NAME=FILE.npz, its elements one after another in this form, or NAME=[]; for maps "
             "NAME=FILE.json; may be repeated")
      .file("NAME=VALUE");
  app.option("--shapes" + suffix, o.shape_ranges,
             "sizes that an input may have: NAME=SHAPE with ranges for dimensions, such as "
             "'x={1,2,4}x3x{320..960:32}x{w=64..800}'; dimensions of one name, or with one name in the model, always "
             "have the same size; other sizes are errors; quote the value, since shells expand braces; may be repeated")
      .value("NAME=SHAPE");
  app.heading("Running");
  app.option("--threads" + suffix, o.threads,
             "number of threads (default: KILTER_NUM_THREADS, else the CPUs this process may use)")
      .range(1, 1024);
}

void add_code_to(Command app, ModelOptions& o, const std::string& suffix) {
  app.heading("Compiling");
  Option target = app.option("--target" + suffix, o.target,
                             "CPU to generate code for, or a back end and a CPU; `kilter targets` lists them")
                      .value("CPU")
                      .suggests(target_names());
  if (!o.target.empty()) target.shows_default();
  app.option("--precision" + suffix, o.precision,
             "bf16: convolutions and products multiply bf16 and sum in f32, and values between layers are stored as "
             "bf16; fp16: values between layers and weights are stored as f16, and all arithmetic is in f32; declared: "
             "the types of the model")
      .one_of({"declared", "bf16", "fp16"})
      .default_text(o.precision);
  app.option("--keep-float" + suffix, o.keep_float,
             "node or operator that --precision leaves in f32, such as Softmax or '/layer4/conv1'; may be repeated")
      .one_value_each()
      .value("NODE");
  app.option("--accuracy" + suffix, o.accuracy,
             "strict: no approximating kernels (Winograd convolutions); results are as accurate as direct sums")
      .one_of({"default", "strict"})
      .default_text(o.accuracy);
  app.option("--memory" + suffix, o.memory,
             "memory limit for packed weights and arena, such as 200MB or 1GiB; Winograd kernels are dropped, cheapest "
             "first, until the network fits (default: packed weights up to 2.5 times the parameters, or 64 MiB)")
      .value("SIZE");
}

void add_layers_to(Command app, ModelOptions& o, const std::string& suffix) {
  app.heading("Single layers");
  app.option("--schedule" + suffix, o.schedules,
             "NODE=SCHEDULE forces a node's schedule, e.g. conv1=\"conv2d_direct vectors=2 rows=1 tile=14 "
             "prefetch=0\"; NODE=TEMPLATE forces a template, which picks its own knobs; task:3 instead of NODE means "
             "every layer of task 3, as `kilter tasks` numbers them, and '*' means every layer to which it applies")
      .value("NODE=SCHEDULE");
  app.option("--forbid" + suffix, o.forbid,
             "template or schedule that must not be used, whether it comes from defaults, records or tuning: TEMPLATE, "
             "TEMPLATE@NODE or SCHEDULE@NODE, such as winograd@conv1 or conv2d_winograd@task:3, or record:ID for one "
             "tuning record; may be repeated")
      .one_value_each()
      .value("WHAT");
  app.option("--layer-threads" + suffix, o.layer_threads,
             "NODE=N, task:3=N or '*=N': maximum number of threads for a node's task; may be repeated")
      .one_value_each()
      .value("NODE=N");
  app.heading("Single layers", true);
  app.option("--no-fuse" + suffix, o.no_fuse, "node whose task must not be fused with any other node; may be repeated")
      .one_value_each()
      .value("NODE");
  app.option("--fuse" + suffix, o.fuse,
             "depthwise convolution to run in one kernel with the convolution before it, whatever the analytic model "
             "expects; may be repeated")
      .one_value_each()
      .value("NODE");
  app.option("--plain-layout" + suffix, o.plain_layout,
             "node whose operands keep the plain layout, with layout changes around the node; may be repeated")
      .one_value_each()
      .value("NODE");
}

void add_passes_to(Command app, ModelOptions& o, const std::string& suffix) {
  app.heading("Debugging the compiler", true);
  app.option("--disable" + suffix, o.disable, "pass to skip; `kilter options` lists them")
      .delimiter(',')
      .value("PASS")
      .suggests(pass_names());
  app.option("--stop-after" + suffix, o.stop_after, "last pass to run").value("PASS").suggests(pass_names());
  app.option("--max-rewrites" + suffix, o.max_rewrites,
             "stop after this many rewrites by passes (to bisect a wrong result)");
}

}  // namespace

std::vector<std::string> target_names() {
  std::vector<std::string> out;
  for (const TargetRow& row : all_targets()) out.emplace_back(row.name);
  out.emplace_back("opencl");
  return out;
}

Option add_model_argument(Command app, std::string& model, bool compiled_files) {
  std::vector<std::string> names;
  for (const zoo::Row& row : zoo::all()) names.push_back("zoo:" + std::string(row.name));
  return app
      .option("MODEL", model,
              compiled_files ? "ONNX file, zoo:NAME, or a file made by `kilter compile`" : "ONNX file or zoo:NAME")
      .file("MODEL")
      .suggests(std::move(names))
      .required();
}

void ModelOptions::add_to(Command app, bool compiled_files) {
  add_model_to(app, compiled_files);
  add_sources_to(app);
  add_compile_to(app);
}

void ModelOptions::add_model_to(Command app, bool compiled_files) {
  add_model_argument(app, model, compiled_files);
  add_run_to(app, *this, "");
  if (!compiled_files) return;
  app.option("--specialise", specialise,
             "now: compile the plans for the shapes of --shapes when the model is opened, for all of them if there are "
             "at most --max-shapes, otherwise for 16 that are spread over them; auto: compile them in the background "
             "while the network runs; never: compile a plan when a shape first occurs")
      .one_of({"auto", "never", "now"})
      .shows_default();
  app.heading("Running", true);
  app.option("--plan-cache", plan_cache,
             "memory limit for the plans of shapes other than the latest, such as 200MB or 4GiB; beyond it, the least "
             "recently used ones are dropped (default: 1GiB)")
      .value("SIZE");
  app.option("--max-shapes", max_shapes,
             "the most shapes of --shapes for which every plan is compiled in advance or stored in a compiled file")
      .range(int64_t{1}, int64_t{100'000})
      .shows_default();
  app.flag("--no-verify-file", no_verify_file,
           "skip the hash check that detects damage in a compiled file (10 ms for 100 MB)");
  app.option("--signed-by", signed_by,
             "refuse a compiled file that the owner of this public key has not signed (kilter sign)")
      .file("KEY")
      .on_value([this] { asks_signature = true; });
}

void ModelOptions::add_compile_to(Command app) {
  add_code_to(app, *this, "");
  add_layers_to(app, *this, "");
  add_passes_to(app, *this, "");
  app.option("--dump-ir", dump_ir,
             "folder for the graph after each pass, the outcome of its rewrites, the tasks after each stage, and the "
             "loops and assembly of each kernel")
      .folder();
  app.flag("--time-passes", time_passes, "print how long each pass takes");
}

void ModelOptions::add_settings_to(Command app, const std::string& suffix) {
  add_run_to(app, *this, suffix);
  add_sources_of(app, *this, suffix);
  add_code_to(app, *this, suffix);
  add_layers_to(app, *this, suffix);
  add_passes_to(app, *this, suffix);
}

ModelOptions ModelOptions::of_side() {
  ModelOptions none;
  none.target = none.accuracy = none.precision = none.records = "";
  return none;
}

ModelOptions ModelOptions::with_side(const ModelOptions& side) const {
  ModelOptions out = *this;
  if (side.threads > 0) out.threads = side.threads;
  if (side.max_rewrites >= 0) out.max_rewrites = side.max_rewrites;
  for (const auto field :
       {&ModelOptions::target, &ModelOptions::accuracy, &ModelOptions::precision, &ModelOptions::memory,
        &ModelOptions::stop_after, &ModelOptions::records, &ModelOptions::layer_plan}) {
    if (!(side.*field).empty()) out.*field = side.*field;
  }
  if (!side.records.empty() && side.layer_plan.empty()) out.layer_plan.clear();
  if (!side.layer_plan.empty() && side.records.empty()) out.records = "none";
  if (out.records == "none" && records != "none") out.choose.clear();
  if (!side.choose.empty()) out.choose = side.choose;
  for (const std::string& input : side.inputs) {
    const std::string name = input.substr(0, input.rfind('=') + 1);
    std::erase_if(out.inputs, [&](const std::string& shared) { return shared.starts_with(name); });
  }
  if (!side.shape_ranges.empty()) out.shape_ranges = side.shape_ranges;
  for (const auto list : {&ModelOptions::inputs, &ModelOptions::schedules, &ModelOptions::disable, &ModelOptions::fuse,
                          &ModelOptions::no_fuse, &ModelOptions::plain_layout, &ModelOptions::layer_threads,
                          &ModelOptions::forbid, &ModelOptions::keep_float}) {
    (out.*list).insert((out.*list).end(), (side.*list).begin(), (side.*list).end());
  }
  return out;
}

std::pair<std::string, std::string> split_assignment(const std::string& text, const std::string& option) {
  const size_t at = text.rfind('=');
  if (at == std::string::npos || at == 0 || at + 1 == text.size()) {
    fail(ErrorKind::usage, "{}: expected NAME=VALUE, got '{}'", option, text);
  }
  return {text.substr(0, at), text.substr(at + 1)};
}

namespace {

/// Names the layers that options for tasks ("task:3") and for every layer ("*") stand for, then chooses as `next` does.
class NamingChooser : public Chooser {
 public:
  explicit NamingChooser(std::shared_ptr<const Chooser> next) : next_(std::move(next)) {}
  void adapt(const Graph& graph, CompileOptions& options) const override {
    if (tune::names_several(options)) tune::name_layers(graph, options);
    tune::refuse_forbidden_schedules(options);
  }
  std::vector<Offer> offers(const Graph& graph, const CompileOptions& options) const override {
    return next_ != nullptr ? next_->offers(graph, options) : std::vector<Offer>{};
  }

 private:
  std::shared_ptr<const Chooser> next_;
};

void add_fusion(const std::vector<std::string>& nodes, Fusion fusion, std::string_view option, Choices& choices) {
  constexpr std::string_view kOther[] = {"", "--no-fuse", "--fuse", ""};
  for (const std::string& node : nodes) {
    Fusion& made = choices[node].fuse;
    if (made != Fusion::usual && made != fusion) {
      fail(ErrorKind::usage, "{} {}: {} names the same node; give only one of them", option, node,
           kOther[static_cast<size_t>(made)]);
    }
    made = fusion;
  }
}

}  // namespace

ModelOptions::CompileSetup ModelOptions::compile_setup() const {
  CompileSetup setup;
  CompileOptions& options = setup.options;
  options.target = parse_target(target);
  options.contents.recipes = small_file;
  options.debug.dump_ir = dump_ir;
  options.debug.stop_after = stop_after;
  options.debug.disable = {disable.begin(), disable.end()};
  if (max_rewrites >= 0) options.debug.max_rewrites = max_rewrites;
  for (const std::string& s : schedules) {
    // The schedule contains '=' itself, so the node's name ends at the '=' before the template's name.
    const size_t at = s.find('=');
    if (at == std::string::npos || at == 0) fail(ErrorKind::usage, "--schedule: expected NODE=SCHEDULE, got '{}'", s);
    Schedule schedule = parse_schedule(std::string_view(s).substr(at + 1));
    if (const Template* found = template_of(schedule.name, "--schedule " + s)) schedule.name = found->name;
    const std::string node = s.substr(0, at);
    std::optional<Schedule>& made = options.choices[node].schedule;
    if (made) fail(ErrorKind::usage, "--schedule {}: '{}' already has a schedule; give only one of them", s, node);
    made = std::move(schedule);
  }
  add_fusion(no_fuse, Fusion::none, "--no-fuse", options.choices);
  add_fusion(fuse, Fusion::before, "--fuse", options.choices);
  for (const std::string& node : plain_layout) options.choices[node].plain = true;
  for (const std::string& text : layer_threads) {
    const auto [node, value] = split_assignment(text, "--layer-threads");
    const auto most = static_cast<int32_t>(parse_int(value, "--layer-threads " + text, 1, 1024));
    int32_t& made = options.choices[node].threads;
    if (made > 0)
      fail(ErrorKind::usage, "--layer-threads {}: '{}' already has a number of threads; give only one of them", text,
           node);
    made = most;
  }
  options.precision = parse_precision(precision);
  options.keep_float = {keep_float.begin(), keep_float.end()};
  options.accuracy = parse_accuracy(accuracy);
  if (!memory.empty()) options.budget.memory = parse_size(memory, "--memory");
  options.threads = std::max(1, std::min(default_threads(), 16));
  setup.chooser = std::make_shared<NamingChooser>(add_sources(options));
  options.report.notice = [told = std::make_shared<std::set<std::string>>()](const std::string& line) {
    if (told->insert(line).second) note("{}\n", printable(line));
  };
  return setup;
}

int ModelOptions::thread_count() const { return threads > 0 ? threads : default_threads(); }

std::vector<ModelOptions::Given> ModelOptions::compile_options_given() const {
  std::vector<Given> out;
  using Word = std::pair<const char*, std::string ModelOptions::*>;
  for (const auto& [name, field] :
       {Word("--records", &ModelOptions::records), Word("--choose", &ModelOptions::choose),
        Word("--layer-plan", &ModelOptions::layer_plan), Word("--target", &ModelOptions::target),
        Word("--accuracy", &ModelOptions::accuracy), Word("--precision", &ModelOptions::precision),
        Word("--memory", &ModelOptions::memory), Word("--dump-ir", &ModelOptions::dump_ir),
        Word("--stop-after", &ModelOptions::stop_after)}) {
    if (this->*field != ModelOptions().*field) out.emplace_back(name, tune::shown(this->*field));
  }
  using List = std::pair<const char*, const std::vector<std::string>*>;
  for (const auto& [name, values] :
       {List("--schedule", &schedules), List("--forbid", &forbid), List("--no-fuse", &no_fuse), List("--fuse", &fuse),
        List("--keep-float", &keep_float), List("--layer-threads", &layer_threads),
        List("--plain-layout", &plain_layout), List("--disable", &disable)}) {
    for (const std::string& value : *values) out.emplace_back(name, value);
  }
  if (max_rewrites >= 0) out.emplace_back("--max-rewrites", std::to_string(max_rewrites));
  if (time_passes) out.emplace_back("--time-passes", "");
  return out;
}

std::optional<std::string> ModelOptions::compile_option(const std::string& suffix) const {
  const std::vector<Given> given = compile_options_given();
  if (given.empty()) return std::nullopt;
  const auto& [name, value] = given.front();
  return name + suffix + (value.empty() ? "" : " " + value);
}

void ModelOptions::check_compiled(const std::string& file, const std::string& suffix) const {
  const std::optional<std::string> option = compile_option(suffix);
  if (!option || !vm::is_compiled_file(file)) return;
  fail(
      ErrorKind::usage,
      "{}: {} is a compiled file, which runs as it was compiled; compile the original model again with this option, or "
      "leave the option out",
      *option, file);
}

std::unique_ptr<Session> ModelOptions::open() const {
  check_compiled(model);
  Session::Options options;
  CompileSetup setup = compile_setup();
  options.compile = std::move(setup.options), options.chooser = std::move(setup.chooser);
  if (console().progress || console().redraws()) {
    options.compile.report.progress =
        [shown = std::make_shared<CompileProgress>("compile " + model)](const CompileStage& s) { shown->at(s); };
  }
  options.threads = threads;
  options.shapes = shapes();
  options.ranges = ShapeRanges::parse(shape_ranges);
  options.max_shapes = max_shapes;
  options.verify_file = !no_verify_file;
  options.signed_by = signed_by;
  if (asks_signature && signed_by.empty())  // for example, from an unset shell variable
    fail(ErrorKind::usage, "--signed-by '': expected the file of a public key");
  if (!plan_cache.empty()) options.plan_cache_bytes = parse_size(plan_cache, "--plan-cache");
  options.interrupt = [] {
    if (const auto& interrupt = console().interrupt) interrupt();
  };
  for (const auto& [name, tensor] : tensors()) options.shapes[name] = tensor.shape();
  auto session = Session::open(model, options);
  check_tensors(*session);
  const std::string note = session->note();
  if (!note.empty() && session->file_plan() != nullptr) session->compile().compiled.plan.records += "; " + note;
  if (specialise == "now") session->specialise();
  if (specialise == "auto") session->specialise_in_background();
  return session;
}

Prepared::Prepared(const ModelOptions& options, Form form)
    : session(options.open()), values(options.all_values(*session)), threads(options.thread_count()) {
  for (const auto& [name, value] : values) {
    if (value.is_tensor()) inputs.emplace(name, value.tensor());
  }
  try {
    loaded = &session->prepare_for(inputs);
    session->end_background();  // it would disturb measurements
  } catch (const NeedsProgram&) {
    if (form == Form::plan) throw;
    return;
  }
  for (const PlanTensor& t : plan().inputs) from.push_back(inputs.at(t.name).raw());
  for (const PlanTensor& t : plan().outputs) outputs.emplace_back(t.type, t.shape);
  for (const Tensor& t : outputs) to.push_back(t.raw());
}

namespace {

std::string system_reason() { return errno == 0 ? "no reason is known" : std::generic_category().message(errno); }

}  // namespace

void write_text(const std::string& option, const std::string& where, const std::string& text) {
  errno = 0;
  if (where == "-") {
    if (std::fwrite(text.data(), 1, text.size(), console().out) != text.size() || std::fflush(console().out) != 0)
      fail(ErrorKind::io, "{} -: cannot write to standard output: {}", option, system_reason());
    return;
  }
  try {
    write_file_atomically(where, text);  // a concurrent reader, or a reader after a crash, sees a whole file
  } catch (const Error& e) {
    fail(e.kind(), "{} {}: {}", option, where, e.message());
  }
}

void write_json(const std::string& where, const nlohmann::json& value) {
  if (!where.empty()) write_text("--json", where, json_text(value, 2) + "\n");
}

void confirm_report(const std::string& file) {
  if (!file.empty()) confirm("report: {}\n", printable(file));
}

void check_writable(const std::string& option, const std::string& where) {
  if (where.empty() || where == "-") return;
  errno = 0;
  const bool missing = is_missing(where);
  if (!std::ofstream(where, std::ios::app)) {
    fail(ErrorKind::io, "{} {}: cannot write the file: {}; choose a writable path", option, where, system_reason());
  }
  std::error_code ignored;
  if (missing) std::filesystem::remove(where, ignored);
}

std::string model_arguments(const ModelOptions& options) {
  std::string out;
  for (const std::string& input : options.inputs) out += " --input " + shell_word(input);
  for (const std::string& ranges : options.shape_ranges) out += " --shapes " + shell_word(ranges);
  if (options.target != "native") out += " --target " + shell_word(options.target);
  return out;
}

std::string use_arguments(const ModelOptions& options) {
  constexpr std::string_view kNotOfUse[] = {"--choose", "--dump-ir", "--time-passes", "--target"};
  std::string out = shell_word(options.model);
  if (options.threads > 0) out += fmt::format(" --threads {}", options.threads);
  out += model_arguments(options);
  for (const auto& [name, value] : options.compile_options_given()) {
    if (std::ranges::find(kNotOfUse, name) == std::end(kNotOfUse))
      out += fmt::format(" {} {}", name, shell_word(value));
  }
  return out;
}

std::string compiled_name(const std::string& model) {
  const size_t colon = model.starts_with("zoo:") ? model.find(':') + 1 : 0;
  const std::string stem = std::filesystem::path(model.substr(colon)).stem().string();
  return (stem.empty() ? "network" : stem) + ".kilter";
}

std::string use_records_command(const ModelOptions& options) {
  constexpr std::string_view kNotOfBoth[] = {"--target", "--records", "--choose", "--dump-ir", "--time-passes"};
  std::string out = fmt::format("kilter compare {} --threads {}{}", shell_word(options.model), options.thread_count(),
                                model_arguments(options));
  for (const auto& [name, value] : options.compile_options_given()) {
    if (std::ranges::find(kNotOfBoth, name) == std::end(kNotOfBoth))
      out += fmt::format(" {} {}", name, shell_word(value));
  }
  return out + " --records-b default";
}

std::string tune_command(const ModelOptions& options) {
  constexpr std::string_view kNotOfTuning[] = {"--target", "--choose", "--layer-plan", "--dump-ir", "--time-passes"};
  std::string out = fmt::format("kilter tune {} --threads {}{}", shell_word(options.model), options.thread_count(),
                                model_arguments(options));
  for (const auto& [name, value] : options.compile_options_given()) {
    if (std::ranges::find(kNotOfTuning, name) != std::end(kNotOfTuning)) continue;
    if (name == "--records" && value == "default") continue;  // `kilter tune` uses it anyway
    out += fmt::format(" {} {}", name, shell_word(value));
  }
  return out;
}

void tell_records(const std::string& records, const std::string& more) {
  if (!records.empty()) note("records: {}{}\n", printable(records), more);
}

void tell_records_of_program(Session& session) {
  if (session.file_program() == nullptr) tell_records(session.program().records());
}

void tell_absent_threads(const Session& session) {
  if (const std::string absent = absent_threads_text(session.attendance().took_part()); !absent.empty())
    note("{}\n", absent);
}

void print_passes(const Compiled& compiled) {
  say("{}\n", styled(Style::bold, fmt::format("{:<26} {:>10} {:>9}", "pass", "ms", "rewrites")));
  for (const PassTiming& t : compiled.timings) {
    say("{:<26} {:>10.3f} {:>9}\n", t.name, t.ms, t.rewrites);
    for (const auto& [rewrite, times] : t.by_rewrite) say("  {:<35} {:>9}\n", rewrite, times);
  }
  say("{:<26} {:>10.3f}\n", "total", compiled.compile_ms);
}

}  // namespace kilter::tool
