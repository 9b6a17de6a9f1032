// kilter kernels: times the convolutions and matrix products of networks, and other problems, one by one.

#include "profile/kernels.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>

#include "base/files.h"
#include "profile/profile.h"
#include "terminal.h"
#include "tool.h"

namespace kilter::tool {
namespace {

constexpr double kLeastFlops = 10e6;  ///< below this, a kernel's start and end dominate and its share says little

struct KernelsOptions {
  std::vector<std::string> what;
  std::string target = "native", only, json, write, expected;
  int threads = 0;
  double seconds = 0.5, touched_mb = 0;
};

struct Measured {
  profile::KernelLine line;
  profile::KernelFigures figures;
};
struct Network {
  profile::KernelList list;
  std::vector<Measured> measured;
};

bool is_problem(const std::string& what) { return what.find_first_of(" (") != std::string::npos; }

/// Opens a file of problems, a single problem, or a model.
profile::KernelList open_list(const std::string& what, const KernelsOptions& options) {
  if (what.ends_with(".txt")) {
    profile::KernelList list = profile::parse_kernel_list(read_file(what), what);
    list.network = std::filesystem::path(what).stem().string();
    return list;
  }
  if (is_problem(what)) return {"given", 0, {{1, what, {}}}};
  ModelOptions model;
  model.model = what;
  if (!vm::is_compiled_file(what)) model.target = options.target;  // a compiled file's problems are fixed
  model.threads = 1;
  const auto session = model.open();
  profile::KernelList list = profile::kernels_of(session->compile().plan());
  list.network = what.starts_with("zoo:") ? session->name() : std::filesystem::path(what).stem().string();
  return list;
}

void write_lists(const KernelsOptions& options) {
  std::error_code error;
  std::filesystem::create_directories(options.write, error);
  for (const std::string& what : options.what) {
    const profile::KernelList list = open_list(what, options);
    const auto path = std::filesystem::path(options.write) / (list.network + ".txt");
    const std::string made = fmt::format(
        "# Convolutions and matrix products of {}: layers | problem | names. Made by `kilter kernels {} --write "
        "DIR`.\n",
        list.network, what);
    write_text("--write", path.string(), made + text(list));
    say("{}: {} problems\n", path.string(), list.lines.size());
  }
}

std::vector<Network> open_all(const KernelsOptions& options) {
  std::optional<std::regex> only;
  try {
    if (!options.only.empty()) only.emplace(options.only);
  } catch (const std::regex_error&) {
    fail(ErrorKind::usage, "--only '{}': expected a regular expression (ECMAScript), such as 'r3 s3'", options.only);
  }
  std::vector<Network> all;
  size_t lines = 0;
  for (const std::string& what : options.what) {
    Network network{open_list(what, options), {}};
    if (only) {
      std::erase_if(network.list.lines, [&](const profile::KernelLine& line) {
        const auto hit = [&](const std::string& text) { return std::regex_search(text, *only); };
        return !hit(line.problem) && std::none_of(line.layers.begin(), line.layers.end(), hit);
      });
    }
    lines += network.list.lines.size();
    all.push_back(std::move(network));
  }
  if (lines == 0)
    fail(ErrorKind::usage, "{}: no problem is left to measure", only ? "--only " + options.only : options.what.front());
  return all;
}

void measure_all(std::vector<Network>& all, const Peaks& peaks, const KernelsOptions& options, int threads) {
  Progress progress("kernels");
  size_t total = 0, done = 0;
  for (const Network& n : all) total += n.list.lines.size();
  for (Network& n : all) {
    for (const profile::KernelLine& line : n.list.lines) {
      progress.show(fmt::format("{} of {}: {}", ++done, total, line.problem));
      profile::KernelOptions how{parse_target(options.target), threads, n.list.touched_bytes, options.seconds};
      if (options.touched_mb > 0) how.touched_bytes = static_cast<int64_t>(options.touched_mb * 1e6);
      n.measured.push_back({line, profile::measure_kernel(line.problem, peaks, how)});
    }
  }
}

double peak_share(const profile::KernelTime& t, const Peaks& peaks, int threads) {
  return t.gflops() / peaks.rate_of(t.multiplies, threads);
}

void print_rows(const Network& network, const Peaks& peaks, int threads) {
  TextTable table({{.title = "count", .width = 5},
                   {.title = "us cold", .width = 9},
                   {.title = "us warm", .width = 9, .rank = 3},
                   {.title = "GFLOP/s", .width = 8},
                   {.title = "effective", .width = 9, .rank = 5},
                   {.title = "peak", .width = 5},
                   {.title = "MB", .width = 8, .rank = 4},
                   {.title = "GB/s", .width = 6, .rank = 2},
                   {.title = "from", .width = 5, .rank = 7},
                   {.title = "of", .width = 4, .rank = 6},
                   {.title = "bound", .width = 8, .rank = 1},
                   {.title = "Winograd", .width = 9, .rank = 8},
                   {.title = "problem | schedule", .left = true, .least = 30, .gap = 2}});
  for (const auto& [line, f] : network.measured) {
    const profile::KernelTime& t = f.chosen;
    table.add({std::to_string(line.count), fmt::format("{:.1f}", t.cold_ms.value * 1e3),
               fmt::format("{:.1f}", f.warm_ms * 1e3), fmt::format("{:.1f}", t.gflops()),
               fmt::format("{:.1f}", t.effective_gflops()), fmt::format("{:.0f}%", 100 * peak_share(t, peaks, threads)),
               fmt::format("{:.3f}", static_cast<double>(t.bytes) * 1e-6), fmt::format("{:.1f}", t.gbps()),
               std::string(t.memory.level), fmt::format("{:.0f}%", 100 * t.memory_share()),
               std::string(profile::name(t.bound.kind)), f.direct ? fmt::format("{:.2f}x", f.gain.value) : "-",
               fmt::format("{} | {}", line.problem, t.schedule)});
  }
  say("{}\n{}", network.list.network, table.text(table_style(), "--json has them"));
}

struct Summary {
  profile::Shares compute, memory, movement;
  double ms = 0;  ///< of all layers
  size_t problems = 0;
};

Summary summary_of(const std::vector<const Measured*>& all, const Peaks& peaks, int threads) {
  Summary s;
  std::vector<double> compute, memory, movement;
  for (const Measured* m : all) {
    const profile::KernelTime& chosen = m->figures.chosen;
    s.ms += chosen.cold_ms.value * static_cast<double>(m->line.count);
    const profile::KernelTime& exact = m->figures.direct.value_or(chosen);
    if (exact.bound.kind == profile::Bound::memory) (exact.moves ? movement : memory).push_back(exact.memory_share());
    if (exact.bound.kind == profile::Bound::compute && static_cast<double>(exact.flops) >= kLeastFlops)
      compute.push_back(peak_share(exact, peaks, threads));
  }
  s.problems = all.size();
  s.compute = profile::shares(compute), s.memory = profile::shares(memory);
  s.movement = profile::shares(movement);
  return s;
}

std::string shares_text(const profile::Shares& s) {
  return s.count == 0 ? "none"
                      : fmt::format("median {:.0f} %, worst {:.0f} % of {}", 100 * s.median, 100 * s.worst, s.count);
}

void print_summary(const std::string& network, const Summary& s) {
  say("{}: {} problems, {:.3f} ms for all layers\n  exact kernels of 10 MFLOP or more that are bound by compute, share "
      "of the FMA peak: {}\n  kernels bound by memory, share of the bandwidth: {}\n",
      network, s.problems, s.ms, shares_text(s.compute), shares_text(s.memory));
  if (s.movement.count > 0) say("  movement bound by memory, share of the bandwidth: {}\n", shares_text(s.movement));
}

/// Prints the speed-ups of Winograd next to those that `expected` gives for the same convolution.
void print_gains(const std::vector<const Measured*>& all, const std::vector<profile::ExpectedGain>& expected) {
  std::vector<double> gains;
  for (const Measured* m : all) {
    if (m->figures.direct) gains.push_back(m->figures.gain.value);
  }
  if (gains.empty()) return;
  say("Winograd over direct: median {:.2f}x, worst {:.2f}x of {} problems\n", median(gains),
      profile::shares(gains).worst, gains.size());
  std::map<std::string, std::string> seen;
  for (const Measured* m : all) {
    const std::string bare = m->line.problem.substr(0, m->line.problem.find(" +"));
    for (const profile::ExpectedGain& e : expected) {
      if (!m->figures.direct || e.problem != bare) continue;
      const Ratio& g = m->figures.gain;
      seen.emplace(bare, fmt::format("  {:<48} {:.2f}x ({:.2f} to {:.2f}), expected {:.2f}x: {:.0f} %", bare, g.value,
                                     g.low, g.high, e.gain, 100 * g.value / e.gain));
    }
  }
  for (const auto& [problem, line] : seen) say("{}\n", line);
}

nlohmann::json to_json(const profile::KernelTime& t, const Peaks& peaks, int threads) {
  return {{"schedule", t.schedule},
          {"ms", t.cold_ms.value},
          {"ms_low", t.cold_ms.low},
          {"ms_high", t.cold_ms.high},
          {"flops", t.flops},
          {"effective_flops", t.effective_flops},
          {"bytes", t.bytes},
          {"moves", t.moves},
          {"gflops", t.gflops()},
          {"share_of_peak", peak_share(t, peaks, threads)},
          {"gbps", t.gbps()},
          {"level", t.memory.level},
          {"share_of_level", t.memory_share()},
          {"read_ms", t.read_ms},
          {"bound", std::string(profile::name(t.bound.kind))},
          {"bound_ms", t.bound.ms}};
}

nlohmann::json to_json(const std::vector<Network>& all, const Peaks& peaks, int threads) {
  nlohmann::json out{{"threads", threads},
                     {"peak_gflops", peaks.at(peaks.gflops, threads)},
                     {"peak_bf16_gflops", peaks.at(peaks.bf16_gflops, threads)},
                     {"peak_byte_gops", peaks.at(peaks.byte_gops, threads)},
                     {"l2_gbps", peaks.at(peaks.l2_gbps, threads)},
                     {"l3_gbps", peaks.at(peaks.l3_gbps, threads)},
                     {"dram_gbps", peaks.at(peaks.dram_gbps, threads)},
                     {"program", version_text()},
                     {"networks", nlohmann::json::array()}};
  Conditions conditions = current_conditions();
  conditions.threads = threads;
  conditions.program = version_text();
  out["conditions"] = to_json(conditions);
  for (const Network& n : all) {
    nlohmann::json rows = nlohmann::json::array();
    for (const auto& [line, f] : n.measured) {
      nlohmann::json row{{"problem", line.problem}, {"count", line.count},
                         {"layers", line.layers},   {"weights", f.weights},
                         {"warm_ms", f.warm_ms},    {"chosen", to_json(f.chosen, peaks, threads)}};
      if (f.direct) {
        row["direct"] = to_json(*f.direct, peaks, threads);
        row["winograd_gain"] = {{"value", f.gain.value}, {"low", f.gain.low}, {"high", f.gain.high}};
      }
      rows.push_back(std::move(row));
    }
    out["networks"].push_back(
        {{"network", n.list.network}, {"touched_bytes", n.list.touched_bytes}, {"kernels", rows}});
  }
  return out;
}

void print_all(const std::vector<Network>& all, const Peaks& peaks, const KernelsOptions& options, int threads) {
  std::string narrow;
  for (const auto& [type, rate] : {std::pair("bf16", peaks.at(peaks.bf16_gflops, threads)),
                                   std::pair("int8", peaks.at(peaks.byte_gops, threads))}) {
    if (rate > 0) narrow += fmt::format(", {} {:.0f}", type, rate);
  }
  say("{} thread{}; peaks now: {:.0f} GFLOP/s{}; reads from L2 {:.0f}, L3 {:.0f}, DRAM {:.0f} GB/s\n", threads,
      threads == 1 ? "" : "s", peaks.at(peaks.gflops, threads), narrow, peaks.at(peaks.l2_gbps, threads),
      peaks.at(peaks.l3_gbps, threads), peaks.at(peaks.dram_gbps, threads));
  std::vector<const Measured*> together;
  for (const Network& n : all) {
    if (!n.measured.empty()) print_rows(n, peaks, threads);
    for (const Measured& m : n.measured) together.push_back(&m);
  }
  for (const Network& n : all) {
    std::vector<const Measured*> own;
    for (const Measured& m : n.measured) own.push_back(&m);
    if (!own.empty()) print_summary(n.list.network, summary_of(own, peaks, threads));
  }
  if (all.size() > 1) print_summary("all", summary_of(together, peaks, threads));
  std::vector<profile::ExpectedGain> expected;
  if (!options.expected.empty())
    expected = profile::parse_expected_gains(read_file(options.expected), options.expected);
  print_gains(together, expected);
}

void kernels(const KernelsOptions& options) {
  if (!options.write.empty()) return write_lists(options);
  check_writable("--json", options.json);
  std::vector<Network> all = open_all(options);
  const int threads = options.threads > 0 ? options.threads : default_threads();
  const Peaks peaks = measure_peaks(threads);
  measure_all(all, peaks, options, threads);
  if (!options.json.empty()) write_json(options.json, to_json(all, peaks, threads));
  if (options.json != "-") print_all(all, peaks, options, threads);
}

}  // namespace

void add_kernels(Command app, Context&) {
  auto options = std::make_shared<KernelsOptions>();
  Command sub =
      app.subcommand("kernels", "Time the convolutions and matrix products of networks, each compiled separately");
  sub.group("Measure and explain");
  sub.option("WHAT", options->what,
             "problem files (.txt, as written by --write), problems, or models (.onnx, zoo:NAME)")
      .file("WHAT")
      .required();
  sub.option("--write", options->write, "write DIR/NETWORK.txt with the problems of each model instead of measuring")
      .folder();
  sub.option("--only", options->only, "only problems or layers that match this regular expression").value("REGEX");
  sub.option("--target", options->target, "CPU to generate code for; `kilter targets` lists them")
      .value("CPU")
      .suggests(target_names())
      .shows_default();
  sub.heading("Measuring");
  sub.option("--threads", options->threads,
             "number of threads (default: KILTER_NUM_THREADS, else the CPUs this process may use)")
      .range(1, 1024);
  sub.option("--seconds", options->seconds, "how long to measure each problem, in seconds")
      .range(0.01, 3600.0)
      .shows_default();
  sub.option(
         "--touched-mb", options->touched_mb,
         "memory that a run of the network touches, over which cold weights rotate (default: the value in the file)")
      .positive();
  sub.heading("Output");
  sub.option("--expected", options->expected, "file of expected Winograd speed-ups to print next to the measured ones")
      .file();
  sub.json(options->json, "the figures");
  sub.footer(
      "Cold: packed weights rotate through as much memory as a run of the network touches. \"of\" is the share of the "
      "bandwidth of the level that most operands come from; if memory is the bound, it is the share of the rate of a "
      "plain read of the operands, interleaved with the kernel. \"Winograd\" is the gain over the default exact "
      "kernel, with both interleaved. \"TASK in PROBLEM\" times one task of a problem's graph, such as the layout "
      "change before a convolution.");
  sub.example("kilter kernels zoo:squeezenet1_1 --only fire2 --threads 1", "The convolutions of some layers");
  sub.example("kilter kernels zoo:squeezenet1_1 --write problems", "Their problems as a file");
  sub.callback([=] { kernels(*options); });
}

}  // namespace kilter::tool
