// kilter device: shows the properties of this machine and its measured peak performance.

#include "measure/device.h"

#include <nlohmann/json.hpp>

#include "base/text.h"
#include "base/ticks.h"
#include "measure/conditions.h"
#include "measure/counters.h"
#include "measure/quiet.h"
#include "terminal.h"
#include "tool.h"

namespace kilter::tool {
namespace {

struct DeviceOptions {
  std::string json;
  bool measure = false;
};

constexpr std::array kLevels = {Level::l1, Level::l2, Level::l3, Level::dram};

std::string rate_text(double rate) { return rate > 0 ? fmt::format("{:.1f}", rate) : "-"; }

void print_rates(const Device& device) {
  std::string head = fmt::format("{:>7} {:>10}", "threads", "GFLOP/s");
  for (const Level level : kLevels) head += fmt::format(" {:>10}", fmt::format("{} GB/s", level_name(level)));
  say("\n{}\n", styled(Style::bold, head + fmt::format(" {:>15}", "DRAM copy GB/s")));
  for (const PeakRow& row : device.peaks) {
    say("{:>7} {:>10.1f}", row.threads, row.gflops);
    for (const Level level : kLevels) say(" {:>10}", rate_text(device.bandwidth_gbs(level, row.threads)));
    say(" {:>15}\n", rate_text(device.copy_gbs(Level::dram, row.threads)));
  }
  say_fitted(
      "\nGFLOP/s: fp32, a multiply-add counts 2. GB/s: 1e9 bytes read per second; a copy counts what it reads and what "
      "it writes. All threads together; the best of many short windows.\n");
}

std::string measured_text(const Device& device) {
  const std::filesystem::path file = device_file();
  std::string text = device.measured;
  if (!file.empty() && std::filesystem::exists(file)) text += fmt::format(", stored in {}", file.string());
  if (!device.disturbed_by.empty()) {
    text += fmt::format("\n              disturbed: {}; `kilter device --measure` measures again", device.disturbed_by);
  }
  return text;
}

nlohmann::json report(const Device& device, const Counters& counters) {
  nlohmann::json json = to_json(device);
  json["fingerprint"] = device.fingerprint();
  json["tick_source"] = tick_source();
  json["ns_per_tick"] = ns_per_tick();
  json["counters"] = counters.available() ? "available" : counters.why_not();
  json["conditions"] = to_json(current_conditions());
  return json;
}

void show_device(const DeviceOptions& options) {
  Progress progress("device");
  const Device device = this_device(options.measure, [&](int done, int all, const std::string& what) {
    progress.show(fmt::format("measuring {} ({}/{})", what, done + 1, all));
  });
  progress.clear();
  const Counters counters;
  if (!options.json.empty()) write_json(options.json, report(device, counters));
  if (options.json == "-") return;
  const Conditions now = current_conditions();
  say_fitted(fmt::format("{}\n\n", device.fingerprint()));
  say_fitted(fmt::format("instructions  {}\n", device.isa.empty() ? "not known" : join(device.isa, " ")));
  say("core          {:.2f} GHz now, {:.2f} GHz when measured\n", core_clock_ghz(), device.clock_ghz);
  say("clock         {}, {:.4f} ns per tick\n", tick_source(), ns_per_tick());
  say_fitted(fmt::format("CPUs          {}\n", now.pinning));
  say_fitted(fmt::format("huge pages    {}\n", now.huge_pages));
  say_fitted(fmt::format("counters      {}\n", counters.available() ? "available" : counters.why_not()));
  say_fitted(fmt::format("measured      {}\n", measured_text(device)));
  print_rates(device);
}

}  // namespace

void add_device(Command app, Context&) {
  auto options = std::make_shared<DeviceOptions>();
  Command sub = app.subcommand("device", "Show this machine and its peak performance");
  sub.group("Look inside");
  sub.flag("--measure", options->measure, "measure again even if there are stored measurements");
  sub.json(options->json, "everything");
  sub.footer(
      "`profile` and `explain` compare layers with these peaks. They are measured once, in a few seconds, and stored "
      "in $XDG_CACHE_HOME/kilter/device.json or ~/.cache/kilter/device.json. Measure again if the machine was busy.");
  sub.example("kilter device --measure", "Measure the peaks again");
  sub.callback([=] { show_device(*options); });
}

}  // namespace kilter::tool
