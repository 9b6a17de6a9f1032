// The time steps of RNN, GRU and LSTM over inputs that have already been projected. One kernel walks through all steps.
// Each step processes one block of hidden units after another:
//
//   sums[rows][gates][block]   h times the block's columns of r, with all gates in registers
//   c, h of the block          gates and their functions, from x + sums, vector by vector
//
// r is packed in the order in which the blocks stream it. A GRU that applies the reset gate before the product needs
// two products: h times r for update and reset, then (reset * h) times r. Directions and tiles of batch rows run in
// parallel. Blocks of hidden units do so only if there is a single step, since a step needs all of h from the previous
// one.
//
// If r consists of bytes with scales and the target multiplies bytes, h is split into three digits of 8 bits before
// each step, and each of them is multiplied by the bytes of r. The sums are exact, so the result is as precise as in
// f32.
//
// With sequence lengths, a tile of rows runs as many steps as its longest sequence has. Rows whose sequences have ended
// keep their states; zeros after the ends and the last states are written after all steps.

#include <algorithm>

#include "base/align.h"
#include "ops/support/builder.h"
#include "schedule/templates/recurrent_core.h"
#include "schedule/templates/templates.h"

namespace kilter {
namespace {

constexpr int64_t kMaxVectors = 8;

/// Whether r consists of integers that i8 can represent, and their sums with the digits of h fit in i32.
bool multiplies_bytes(const Task& task, const RecurrentForm& form, const RecurrentShape& shape,
                      const CpuLimits& limits) {
  constexpr int64_t kMostHidden = 1 << 15;
  const Node& node = task.node();
  if (node.input(form.r_scale) == kNone || shape.hidden > kMostHidden) return false;
  return limits.has_dot(DType::u8, DType::i8, lanes_of(limits)) && fit_i8(*task.operand(node.inputs[form.r]).constant);
}

Result<Recurrence> analyse(const Task& task, const CpuLimits& limits) {
  const Node& node = task.node();
  const RecurrentForm* form = find_recurrent_form(node);
  if (form == nullptr) return not_for("operator", "LSTM, GRU, RNN", node.op->name);
  const OpView seen = view(*task.graph, node);
  if (auto rejected = recurrent_refusal(seen)) return *rejected;
  if (!form->projected())
    return Rejected{"operator", fmt::format("{}Steps, which the pass split_recurrent creates", form->name),
                    std::string(node.op->name)};
  if (!task.prologue.empty()) return Rejected{"prologue", "none", std::to_string(task.prologue.size()) + " nodes"};
  if (auto rejected = check_elementwise(task)) return *rejected;
  for (const auto* list : {&task.inputs, &task.outputs}) {
    for (const Operand& o : *list) {
      if (o.type.layout.block != 1) return Rejected{"layout of the operands", "plain", "blocked"};
    }
  }
  Recurrence q;
  q.shape = recurrent_shape(seen);
  q.cell = form->cell;
  q.reverse = node.string_attr("direction", "forward") == "reverse";
  q.coupled = node.int_attr("input_forget", 0) != 0;
  q.linear_before_reset = node.int_attr("linear_before_reset", 0) != 0;
  q.lengths = node.input(form->lens) != kNone;
  q.bytes = multiplies_bytes(task, *form, q.shape, limits);
  q.clip = recurrent_clip(node);
  q.functions = recurrent_activations(node, q.shape.directions);
  const auto second = q.functions.begin() + static_cast<int64_t>(form->functions.size());
  if (!std::equal(second, q.functions.end(), q.functions.begin()))
    return Rejected{"activation functions", "the same in both directions", "different ones in the second"};
  q.functions.erase(second, q.functions.end());
  return q;
}

/// The largest number of gates that one product computes.
int64_t most_gates(const Recurrence& q) {
  size_t most = 0;
  for (const auto& gates : q.products()) most = std::max(most, gates.size());
  return static_cast<int64_t>(most);
}

/// Rows of the batch that fit in registers. A single row uses r as a memory operand; several rows also need registers
/// for its vectors. Rows of bytes also need registers for the digits of an element.
int64_t most_rows(const Recurrence& q, int64_t vectors, const CpuLimits& limits) {
  const int64_t all = most_gates(q) * vectors;
  if (q.bytes) return (limits.vector_registers - 1) / (kStateDigits * (all + 1));
  const int64_t one = all + (limits.fma ? 2 : 3) <= limits.vector_registers ? 1 : 0;
  return std::max(register_rows(all, limits), one);
}

std::vector<Knob> knobs(const Recurrence& q, const CpuLimits& limits) {
  Knob vectors{"vectors", {}}, rows{"rows", {}};
  const int64_t most = std::min(kMaxVectors, ceil_div(q.shape.hidden, lanes_of(limits)));
  for (int64_t v = 1; v <= most && most_rows(q, v, limits) > 0; ++v) vectors.values.push_back(v);
  for (int64_t r = 1; r <= std::min(q.shape.batch, most_rows(q, 1, limits)); ++r) rows.values.push_back(r);
  return {vectors, rows, prefetch_knob()};
}

/// Bytes of r that one direction streams per step.
int64_t streamed_bytes(const Recurrence& q) {
  return q.shape.gates * q.shape.hidden * q.shape.hidden * (q.bytes ? 1 : 4);
}

/// Cycles of all steps for a tile.
double cycles(const Recurrence& q, const RecurrentTile& tile, const CpuLimits& limits) {
  constexpr double kFunction = 12;  // cycles per vector and activation function
  constexpr double kSlack = 0.5;    // cycles per element of h: more sums hide more of the latency of r (measured)
  const double rate = streamed_bytes(q) <= limits.l1_bytes / 2 ? limits.l1_peak_rate : limits.l2_peak_rate;
  const int64_t blocks = tile.blocks(q, lanes_of(limits));
  const auto rows_cycles = [&](int64_t rows) {
    if (rows == 0) return 0.0;
    double all = 0;
    for (const auto& gates : q.products()) {
      const auto vectors = static_cast<int64_t>(gates.size()) * tile.vectors;
      const double stream = static_cast<double>(vectors * limits.vector_bytes) / rate;
      const double step = q.bytes ? step_cycles(kStateDigits * rows, vectors, q.operands().limits(limits))
                                  : step_cycles(rows, vectors, limits);
      all += static_cast<double>(blocks * ceil_div(q.shape.hidden, q.operands().group)) *
             (std::max(step, stream) + kSlack);
    }
    const int64_t functions = q.shape.gates + (q.cell == RecurrentForm::lstm ? 1 : 0);
    return all + static_cast<double>(rows * blocks * tile.vectors * functions) * kFunction;
  };
  const double one =
      static_cast<double>(q.shape.batch / tile.rows) * rows_cycles(tile.rows) + rows_cycles(q.shape.batch % tile.rows);
  return one * static_cast<double>(q.shape.steps * q.shape.directions);
}

Schedule schedule_of(const RecurrentTile& tile) {
  return {"recurrent_steps", {{"vectors", tile.vectors}, {"rows", tile.rows}, {"prefetch", tile.prefetch}}};
}

/// For each number of vectors: as many rows as fit, or fewer that divide the batch more evenly.
std::vector<RecurrentTile> tiles(const Recurrence& q, const CpuLimits& limits) {
  std::vector<RecurrentTile> all;
  // Every step rereads r. If r fits in L2, prefetching costs 5 to 15 % (measured).
  const int64_t prefetch = streamed_bytes(q) > limits.l2_bytes ? limits.prefetch_bytes : 0;
  const std::vector<Knob> legal = knobs(q, limits);
  for (const int64_t vectors : legal[0].values) {
    const int64_t most = std::min(most_rows(q, vectors, limits), q.shape.batch);
    const int64_t even = ceil_div(q.shape.batch, ceil_div(q.shape.batch, most));
    for (const int64_t rows : {most, even}) all.push_back({vectors, rows, prefetch});
  }
  return all;
}

class RecurrentSteps final : public Analysed {
 public:
  RecurrentSteps(const Task& task, const CpuLimits& limits, Recurrence recurrence)
      : Analysed(task, limits), q_(std::move(recurrence)) {}

  std::vector<Knob> space() const override { return knobs(q_, limits()); }
  Result<Schedule> pick() const override {
    RecurrentTile best;
    double least = -1;
    for (const RecurrentTile& tile : tiles(q_, limits())) {
      const double c = cycles(q_, tile, limits());
      if (least < 0 || c < least * 0.99) least = c, best = tile;
    }
    return schedule_of(best);
  }
  std::vector<Schedule> candidates() const override {
    std::vector<Schedule> all;
    for (const RecurrentTile& tile : tiles(q_, limits())) all.push_back(schedule_of(tile));
    return all;
  }

 private:
  static RecurrentTile tile_of(const Schedule& schedule) {
    return {schedule.knob("vectors"), schedule.knob("rows"), schedule.knob("prefetch")};
  }
  std::optional<Rejected> conflict(const Schedule& schedule) const override {
    const RecurrentTile tile = tile_of(schedule);
    const int64_t most = most_rows(q_, tile.vectors, limits());
    if (tile.rows <= most) return std::nullopt;
    return Rejected{fmt::format("register tile (rows with {} vectors of {} gates each)", tile.vectors, most_gates(q_)),
                    std::to_string(most), std::to_string(tile.rows)};
  }

  Estimate model(const Schedule& schedule) const override {
    const RecurrentTile tile = tile_of(schedule);
    const double all = cycles(q_, tile, limits());
    Recurrence full = q_;  // whole tiles only
    full.shape.batch = ceil_div(q_.shape.batch, tile.rows) * tile.rows;
    const int64_t units = tile.blocks(q_, lanes_of(limits())) * tile.width(lanes_of(limits()));
    const double used =
        static_cast<double>(q_.shape.batch * q_.shape.hidden) / static_cast<double>(full.shape.batch * units);
    return {all, std::max(0.0, 1 - cycles(full, tile, limits()) * used / all)};
  }

  Lowered emit(const Schedule& schedule) const override {
    Emitter e(task(), "recurrent_steps");
    emit_recurrence(e, q_, tile_of(schedule), limits());
    return e.finish();
  }

  const Recurrence q_;
};

}  // namespace

const Template recurrent_steps{"recurrent_steps",
                               "time steps of LSTM, GRU and RNN in one kernel, all gates in registers",
                               analyse_as<RecurrentSteps, analyse>};

}  // namespace kilter
