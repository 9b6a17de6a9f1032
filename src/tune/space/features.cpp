#include "tune/space/features.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "schedule/model/register_tile.h"
#include "tune/space/task_dims.h"

namespace kilter::tune {
namespace {

/// Every knob of every template. A knob missing here is invisible to learned models; a test checks the list.
constexpr std::string_view kKnobs[] = {"vectors",      "rows",  "tile",     "m",     "count",       "split",
                                       "prefetch",     "keys",  "out_rows", "item",  "out_vectors", "unroll",
                                       "accumulators", "joint", "parts",    "band",  "sums",        "outputs",
                                       "tiles",        "lines", "columns",  "walks", "rows_outside"};

float log2_of(double value) { return static_cast<float>(std::log2(1 + std::max(value, 0.0))); }
/// log2 of a ratio of two positive numbers; 0 if one of them is missing.
float log2_ratio(double a, double b) { return a > 0 && b > 0 ? static_cast<float>(std::log2(a / b)) : 0; }

std::vector<Feature> make_features() {
  std::vector<Feature> all;
  const auto add = [&](std::string name, std::string meaning) { all.push_back({std::move(name), std::move(meaning)}); };
  const auto derive = [&](std::string name, std::string meaning) {
    all.push_back({std::move(name), std::move(meaning), true});
  };
  add("task.flops", "log2(1 + x) of the task's operations, as its operators define them");
  add("task.bytes", "log2(1 + x) of the bytes of the task's operands, each counted once");
  add("task.intensity", "log2 of operations per byte");
  add("task.weight_bytes", "log2(1 + x) of the bytes of the task's constant operands");
  for (const TaskDim& dim : all_task_dims())
    add("dim." + std::string(dim.name), "log2(1 + x): " + std::string(dim.meaning));
  add("machine.threads", "log2 of the number of threads");
  add("machine.vector_bytes", "log2 of the bytes of a vector register");
  add("machine.registers", "log2 of the number of vector registers");
  for (const Template* t : all_templates())
    add("template." + std::string(t->name), "1 for points of this template, otherwise 0");
  for (const std::string_view knob : kKnobs)
    add("knob." + std::string(knob), "log2(1 + x) of the knob's value, -1 if the template has no such knob");
  derive("model.cycles", "log2 of the cycles that the template's model predicts");
  derive("model.over_best", "log2 of these cycles over those of the best point of the space");
  derive("model.over_own_best", "log2 of these cycles over those of the best point of the template");
  derive("model.tail", "share of the cycles lost in tiles that are not full");
  derive("tile.registers", "accumulators of the register tile over vector registers");
  derive("tile.loads", "loads per multiply-add of the register tile");
  derive("tile.latency", "accumulators over those that hide the latency of two multiply-adds a cycle, at most 1");
  derive("tile.width_rest", "share of a row's last tile that is not filled");
  derive("tile.columns_rest", "share of the last panel of columns that is not filled");
  derive("tile.count", "log2 of the number of register tiles per thread");
  derive("panel.l1", "log2 of the bytes of one panel of weights over L1");
  derive("weights.l2", "log2 of the bytes of all packed weights over L2");
  derive("weights.l3", "log2 of the bytes of all packed weights over L3");
  return all;
}

}  // namespace

const std::vector<Feature>& all_features() {
  static const std::vector<Feature> kFeatures = make_features();
  return kFeatures;
}

Featurizer::Featurizer(const Space& space, int threads) : space_(&space), threads_(threads) {
  const Task& task = space.task();
  for (const Operand& o : task.inputs)
    weight_bytes_ += o.constant == nullptr ? 0 : static_cast<double>(o.constant->bytes());
  const auto flops = static_cast<double>(task.flops()), bytes = static_cast<double>(task.bytes());
  task_ = {log2_of(flops), log2_of(bytes), log2_ratio(flops, bytes), log2_of(weight_bytes_)};
  const TaskDims dims = task_dims(task);
  for (const TaskDim& dim : all_task_dims()) task_.push_back(log2_of(dims.*dim.member));
  rows_ = dims.batch * dims.rows, columns_ = dims.columns, reduction_ = dims.reduction, width_ = dims.width;
  const CpuLimits& limits = space.limits();
  task_.push_back(log2_ratio(threads, 1));
  task_.push_back(log2_ratio(limits.vector_bytes, 1));
  task_.push_back(log2_ratio(limits.vector_registers, 1));
  least_of_part_.assign(space.parts().size(), 0);
  const auto take = [](double& least, double cycles) { least = least == 0 ? cycles : std::min(least, cycles); };
  for (const LegalPoint& l : space.legal()) {
    take(least_cycles_, l.estimate.cycles);
    take(least_of_part_[l.point.part], l.estimate.cycles);
  }
}

void Featurizer::add_point(const LegalPoint& at, std::vector<float>& row) const {
  const Part& part = space_->parts()[at.point.part];
  for (const Template* t : all_templates()) row.push_back(t == part.from ? 1.0F : 0.0F);
  for (const std::string_view name : kKnobs) {
    const auto knob = std::ranges::find(part.knobs, name, &Knob::name);
    const auto k = static_cast<size_t>(knob - part.knobs.begin());
    row.push_back(knob == part.knobs.end() ? -1 : log2_of(static_cast<double>(knob->values[at.point.at[k]])));
  }
  const double cycles = at.estimate.cycles;
  row.push_back(log2_ratio(cycles, 1));
  row.push_back(log2_ratio(cycles, least_cycles_));
  row.push_back(log2_ratio(cycles, least_of_part_[at.point.part]));
  row.push_back(static_cast<float>(at.estimate.tail));
}

void Featurizer::add_tile(const LegalPoint& at, std::vector<float>& row) const {
  const Part& part = space_->parts()[at.point.part];
  const auto knob = [&](std::string_view name, double without) {
    const auto it = std::ranges::find(part.knobs, name, &Knob::name);
    if (it == part.knobs.end()) return without;
    return static_cast<double>(it->values[at.point.at[static_cast<size_t>(it - part.knobs.begin())]]);
  };
  const CpuLimits& limits = space_->limits();
  const double vectors = knob("vectors", 1), width = knob("tile", 1), pixels = knob("rows", 1) * width;
  const double accumulators = vectors * pixels, columns = vectors * limits.lanes_f32();
  constexpr double kLatencyTimesPorts = 8;
  const auto rest = [](double extent, double size) { return std::ceil(extent / size) * size / extent - 1; };
  row.push_back(static_cast<float>(accumulators / limits.vector_registers));
  row.push_back(static_cast<float>((vectors + pixels) / accumulators));
  row.push_back(static_cast<float>(std::min(1.0, accumulators / kLatencyTimesPorts)));
  row.push_back(static_cast<float>(rest(width_, width)));
  row.push_back(static_cast<float>(rest(columns_, columns)));
  row.push_back(log2_of(std::ceil(rows_ / pixels) * std::ceil(columns_ / columns) / threads_));
  row.push_back(log2_ratio(columns * reduction_ * 4, static_cast<double>(limits.l1_bytes)));
  const double packed =
      at.estimate.constant_bytes > 0 ? static_cast<double>(at.estimate.constant_bytes) : weight_bytes_;
  row.push_back(log2_ratio(packed, static_cast<double>(limits.l2_bytes)));
  row.push_back(log2_ratio(packed, static_cast<double>(limits.l3_bytes)));
}

std::vector<float> Featurizer::row(const Point& point) const {
  const auto index = space_->index_of(point);
  require(index.has_value(), "features of a point that is not in the space");
  const LegalPoint& at = space_->legal()[*index];
  std::vector<float> row = task_;
  row.reserve(width());
  add_point(at, row);
  add_tile(at, row);
  require(row.size() == width(), "a row of {} features; expected {}", row.size(), width());
  return row;
}

FeatureRows Featurizer::rows(std::span<const Point> points) const {
  FeatureRows out{width(), {}};
  out.values.reserve(points.size() * width());
  for (const Point& p : points) out.append(row(p));
  return out;
}

}  // namespace kilter::tune
