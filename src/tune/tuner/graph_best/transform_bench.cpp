#include "tune/tuner/graph_best/transform_bench.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/hash.h"
#include "measure/caches.h"
#include "measure/clock.h"
#include "ops/op.h"
#include "tune/records/place.h"
#include "tune/records/store.h"
#include "tune/tuner/graph_best/layer_network.h"
#include "tune/tuner/network_bench.h"
#include "tune/tuner/race/lap_times.h"
#include "tune/tuner/step_values.h"

namespace kilter::tune {
namespace {

/// Side lengths in pixels of images with 64 channels: 30 KiB to 16 MiB in each layout.
constexpr int64_t kSides[] = {11, 16, 28, 56, 80, 112, 160, 256};
constexpr int64_t kChannels = 64;
constexpr double kSeconds = 0.6;

/// Builds a graph in which each image is copied into blocks and back. Several images are copied in turn, so that each
/// copy finds its input where a previous copy left it.
Graph transforms_graph(int32_t block) {
  Graph graph;
  graph.name = "layout changes";
  const OpDef* relayout = find_op("kilter", "Relayout", 1);
  for (const int64_t side : kSides) {
    const std::string name = "image" + std::to_string(side);
    const TensorType plain{DType::f32, {1, kChannels, side, side}, {}};
    const TensorType blocked{DType::f32, plain.shape, {block, {}}};
    const ValueId in = graph.add_input(name, plain);
    const NodeId there = graph.add_node(relayout, name + ".in", 1, {}, {in}, {blocked}, {name + ".in"});
    const NodeId back =
        graph.add_node(relayout, name + ".out", 1, {}, {graph.node(there).outputs[0]}, {plain}, {name + ".out"});
    graph.add_output(graph.node(back).outputs[0], name + ".out");
  }
  graph.sort();
  return graph;
}

std::vector<MemoryLevel> levels_of(const CacheSizes& sizes) {
  std::vector<MemoryLevel> levels;
  const auto add = [&](const char* name, int64_t bytes, bool shared) {
    if (bytes > 0 && (levels.empty() || static_cast<double>(bytes) > levels.back().bytes))
      levels.push_back({name, static_cast<double>(bytes), shared});
  };
  add("L1", sizes.l1_bytes, false);
  add("L2", sizes.l2_bytes, false);
  add("L3", sizes.l3_bytes, true);
  levels.push_back({"memory", std::numeric_limits<double>::infinity(), true});
  return levels;
}

std::vector<TransformSample> samples(const Compiled& compiled, const Laps& laps, int32_t block, int threads) {
  std::vector<TransformSample> out;
  for (size_t s = 0; s < compiled.plan.steps.size(); ++s) {
    const Step& step = compiled.plan.steps[s];
    if (step.kind != StepKind::kernel) continue;
    const bool in = step.name.ends_with(".in");
    out.push_back({in ? transform_kind(1, block) : transform_kind(block, 1), threads, static_cast<double>(step.bytes),
                   usual_ms(laps.laps.front(), {s})});
  }
  return out;
}

/// The result of one measurement: changes into blocks and back for one number of threads.
struct Wanted {
  std::string in, out;
  int threads = 1;

  bool has(const TransformSample& s) const { return s.threads == threads && (s.kind == in || s.kind == out); }
  bool held_by(const TransformModel& model) const {
    const auto any = [&](const std::string& kind) {
      return std::ranges::any_of(model.samples(),
                                 [&](const auto& s) { return s.threads == threads && s.kind == kind; });
    };
    return any(in) && any(out);
  }
};

/// Loads the model from the file; empty if there is no file. If the file is unusable but measuring can replace it,
/// returns nothing and sets `unusable` to the reason.
std::optional<TransformModel> load(const std::filesystem::path& file, const std::string& device, bool anew,
                                   std::string& unusable) {
  if (file.empty() || !std::filesystem::exists(file)) return std::nullopt;
  try {
    return TransformModel::load(file, device);
  } catch (const Error& e) {
    if (!anew && e.kind() != ErrorKind::bad_input && e.kind() != ErrorKind::out_of_memory) throw;
    unusable = e.message();
    return std::nullopt;
  }
}

}  // namespace

TransformModel measure_transforms(const CompileOptions& compile, RunnerOptions options, const std::string& device) {
  const int32_t block = compile.target.limits.preferred_block();
  if (block == 1)
    fail(ErrorKind::unsupported, "layout changes: {} has no vectors, so its layouts have no blocks",
         compile.target.name);
  CompileOptions plainly;
  plainly.target = compile.target;
  plainly.threads = compile.threads;
  plainly.debug.stop_after = "simplify";
  const Graph graph = transforms_graph(block);
  options.inputs.clear();
  for (const ValueId in : graph.inputs()) options.inputs.emplace_back(DType::f32, graph.type(in).shape);
  const int threads = options.threads;
  const CacheSizes caches = options.machine ? options.machine->caches : cache_sizes();
  const std::unique_ptr<Runner> runner = make_runner(std::move(options));
  const Compiled compiled = compile_passed({graph, {}, {}}, plainly);
  const Loaded loaded = runner->load(compiled.plan, step_values(compiled));
  if (!loaded.id) fail(ErrorKind::unsupported, "layout changes cannot be measured here: the copies do not run");
  MeasureOptions how;
  how.rounds = 40, how.max_ms = kSeconds * 1e3;
  const Laps laps = runner->measure({&*loaded.id, 1}, how);
  if (laps.laps[0].empty()) fail(ErrorKind::unsupported, "layout changes cannot be measured here: {}", reasons(laps));
  return {device, levels_of(caches), samples(compiled, laps, block, threads)};
}

std::filesystem::path transforms_file(const std::string& records, const std::string& device) {
  return fmt::format("{}.transforms-{:08x}.json", beside(records), hash_text(device) & 0xffffffffU);
}

KnownTransforms known_transforms(const CompileOptions& compile, const RunnerOptions& runner, const std::string& device,
                                 const std::string& records, bool anew) {
  const std::filesystem::path file = records.empty() ? std::filesystem::path() : transforms_file(records, device);
  const int32_t block = compile.target.limits.preferred_block();
  const Wanted wanted{transform_kind(1, block), transform_kind(block, 1), runner.threads};
  std::string unusable;
  std::optional<TransformModel> known = load(file, device, anew, unusable);
  if (known && !anew && wanted.held_by(*known)) return {std::move(*known), 0, file.string(), {}};
  const double start = now_ms();
  TransformModel model = measure_transforms(compile, runner, device);
  if (known) {
    std::vector<TransformSample> others = known->samples();
    std::erase_if(others, [&](const TransformSample& s) { return wanted.has(s); });
    model = model.with(others);
  }
  if (!records.empty()) {
    make_default_folder(file);
    model.save(file);
  }
  return {std::move(model), (now_ms() - start) / 1e3, file.string(), std::move(unusable)};
}

}  // namespace kilter::tune
