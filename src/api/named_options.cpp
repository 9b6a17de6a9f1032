#include "api/named_options.h"

#include <algorithm>
#include <charconv>
#include <vector>

#include "base/error.h"
#include "base/nearest.h"
#include "base/text.h"
#include "compile/several_targets.h"
#include "tune/records/place.h"
#include "tune/records/store.h"
#include "tune/tuner/plans/sources.h"

namespace kilter {
namespace {

/// The lines of a value that are not empty.
std::vector<std::string> lines(const std::string& value) {
  std::vector<std::string> all;
  for (const std::string_view line : split(value, '\n')) {
    if (!trim(line).empty()) all.emplace_back(trim(line));
  }
  return all;
}

constexpr NamedOption kOptions[] = {
    {"target", "native",
     "CPU to generate code for; `kilter targets` lists them; native: this machine's. With several, such as "
     "'x86-64-v3,znver4,neoverse-n1', loading selects the best one for the processor",
     [](const std::string& value, GivenOptions& given) {
       given.targets = parse_targets(value);
       given.session.compile.target = given.targets.front();
     }},
    {"size", "fast",
     "fast: a file has the packed weights, which are mapped; small: the weights that take less room before they are "
     "packed, which loading then does",
     [](const std::string& value, GivenOptions& given) {
       given.session.compile.contents.recipes = parse_file_size(value) == vm::FileSize::small;
     }},
    {"shapes", "",
     "sizes that inputs may have, one NAME=SHAPE per line: 'x=1x3x224x224', or with ranges for dimensions, such as "
     "'x={1,2,4}x3x{320..960:32}x{w=64..800}' (doc/dynamic_shapes.md)",
     [](const std::string& value, GivenOptions& given) { given.session.ranges = ShapeRanges::parse(lines(value)); }},
    {"max-shapes", "64", "the largest number of shapes, 1 or more; each gets a plan, and more are an error",
     [](const std::string& value, GivenOptions& given) {
       given.session.max_shapes = parse_int(value, "max-shapes", 1, int64_t{1} << 30);
     }},
    {"precision", "declared",
     "declared: the types of the model; bf16 or fp16: values between layers in this type (doc/precision.md)",
     [](const std::string& value, GivenOptions& given) { given.session.compile.precision = parse_precision(value); }},
    {"keep-float", "", "nodes and operators that `precision` leaves in f32, one per line",
     [](const std::string& value, GivenOptions& given) {
       const std::vector<std::string> names = lines(value);
       given.session.compile.keep_float = {names.begin(), names.end()};
     }},
    {"accuracy", "default", "strict: no approximating kernels (Winograd convolutions); default: allows them",
     [](const std::string& value, GivenOptions& given) { given.session.compile.accuracy = parse_accuracy(value); }},
    {"memory", "",
     "memory limit for packed weights and arena, such as 200MB or 1GiB; empty: packed weights up to 2.5 times the "
     "parameters, or 64 MiB",
     [](const std::string& value, GivenOptions& given) {
       given.session.compile.budget.memory.reset();
       if (!value.empty()) given.session.compile.budget.memory = parse_size(value, "memory");
     }},
    {"records", "",
     "tuning records to take schedules from: a file, postgresql://USER@HOST/DATABASE, or default (the file of `kilter "
     "tune`); empty: none",
     [](const std::string& value, GivenOptions& given) { given.sources.records = value; }},
    {"choose", "accepted",
     "how to use records. accepted: the plan that tuning accepted for exactly this network, or history-best without "
     "one; history-best: the best record of each layer; graph-best: the accepted plan, or the best combination of "
     "records",
     [](const std::string& value, GivenOptions& given) { given.sources.choose = tune::parse_choose(value); }},
    {"layer-plan", "", "file to take schedules of layers from, as `kilter tune --write-plan` writes it; empty: none",
     [](const std::string& value, GivenOptions& given) { given.sources.layer_plan = value; }},
    {"run-threads", "0",
     "threads that will run the network, 0 to 1024: records and plans are chosen for this number; 0: as many as runs "
     "have by "
     "default",
     [](const std::string& value, GivenOptions& given) {
       given.sources.threads = static_cast<int>(parse_int(value, "run-threads", 0, 1024));
     }},
    {"threads", "0", "threads that compile, 1 to 1024; 0: one per CPU, at most 16. Runs have threads of their own",
     [](const std::string& value, GivenOptions& given) {
       const auto threads = static_cast<int>(parse_int(value, "threads", 0, 1024));
       given.session.compile.threads = threads > 0 ? threads : std::max(1, std::min(default_threads(), 16));
     }},
};

}  // namespace

void add_sources(const ScheduleSources& sources, const std::function<void(const std::string&)>& notice,
                 Session::Options& options) {
  const int threads = sources.threads > 0 ? sources.threads : default_threads();
  std::shared_ptr<const Chooser> plan;
  if (!sources.layer_plan.empty()) plan = tune::use_layer_plan(sources.layer_plan, threads, options.compile, true);
  if (plan != nullptr && !sources.records.empty()) {
    fail(ErrorKind::usage, "records {} and layer plan {}: give only one of them", tune::shown(sources.records),
         sources.layer_plan);
  }
  if (!sources.records.empty()) {
    const bool usual = sources.records == "default";
    plan = tune::use_records({.file = usual ? tune::default_records_file().string() : sources.records,
                              .threads = threads,
                              .choose = sources.choose,
                              .shipped = true,  // the network may be saved
                              .notice = notice});
  }
  options.chooser = std::move(plan);
}

std::vector<std::unique_ptr<Session>> open_for_targets(const std::string& model, const Session::Options& options,
                                                       std::span<const Target> targets) {
  std::vector<std::unique_ptr<Session>> sessions;
  for (const Target& target : targets) {
    Session::Options one = options;
    one.compile.target = target;
    sessions.push_back(Session::open(model, std::move(one)));
  }
  return sessions;
}

Precision parse_precision(std::string_view text) {
  for (const Precision precision : kPrecisions) {
    if (text == name(precision)) return precision;
  }
  fail(ErrorKind::usage, "precision '{}': expected declared, bf16 or fp16", text);
}

Accuracy parse_accuracy(std::string_view text) {
  if (text == "default") return Accuracy::normal;
  if (text == "strict") return Accuracy::strict;
  fail(ErrorKind::usage, "accuracy '{}': expected default or strict", text);
}

int64_t parse_size(std::string_view text, std::string_view what) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view unit(end, static_cast<size_t>(text.data() + text.size() - end));
  constexpr std::pair<std::string_view, double> kUnits[] = {
      {"", 1}, {"B", 1}, {"kB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"KiB", 1024}, {"MiB", 1 << 20}, {"GiB", 1 << 30}};
  for (const auto& [name, bytes] : kUnits) {
    if (error == std::errc{} && unit == name && number * bytes >= 1 && number * bytes < 1e18)
      return static_cast<int64_t>(number * bytes);
  }
  fail(ErrorKind::usage, "{} {}: expected a size of at least 1 byte in B, kB, MB, GB, KiB, MiB or GiB, such as 1.5GiB",
       what, text);
}

std::span<const NamedOption> named_options() { return kOptions; }

const NamedOption& named_option(std::string_view name) {
  std::vector<std::string> legal;
  for (const NamedOption& option : kOptions) {
    if (option.name == name) return option;
    legal.emplace_back(option.name);
  }
  fail(ErrorKind::usage, "there is no option '{}'{} legal options are {}", printable(name), did_you_mean(name, legal),
       join(legal, ", "));
}

}  // namespace kilter
