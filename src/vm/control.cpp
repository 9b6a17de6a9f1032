// The operators with regions: If, Loop, Scan, SequenceMap.

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/map_value.h"
#include "base/out_of_memory.h"
#include "ops/support/builder.h"
#include "ops/support/sequences.h"
#include "vm/machine.h"
#include "vm/regions.h"

namespace kilter::vm {
namespace {

const AnyValue& operand(const Instr& instr, size_t i, const std::vector<AnyValue>& registers) {
  static const AnyValue absent;
  const ValueId v = instr.node->input(i);
  return v == kNone ? absent : registers[static_cast<size_t>(v)];
}

/// Tensors of one type that become the slices of one tensor.
class Stack {
 public:
  void add(const OpenNode& node, const AnyValue& value) {
    if (!value.is_tensor())
      node_error(node, fmt::format("a value to be stacked is {}, expected a tensor", text(value)));
    const Tensor& tensor = value.tensor();
    if (!slices_.empty() && (tensor.shape() != slices_[0].shape() || tensor.dtype() != slices_[0].dtype())) {
      node_error(node, fmt::format("iteration {} gives {} to be stacked, earlier ones {}", slices_.size(), text(value),
                                   text(AnyValue(slices_[0]))));
    }
    slices_.push_back(tensor);
    bytes_ += tensor.bytes() + kSliceBytes;
    if (bytes_ >= next_check_) check_memory(node);
  }

  /// Adds slices of zeros until there are `count`.
  void fill(int64_t count, const DeclaredType& declared) {
    const auto [type, shape] = slice_type(declared);
    while (std::ssize(slices_) < count) slices_.emplace_back(type, shape);
  }

  /// Returns the tensor with the slices along a new axis. Without slices, its type is the declared one.
  Tensor join(const OpenNode& node, const DeclaredType& declared, int64_t axis, bool reverse) {
    if (reverse) std::ranges::reverse(slices_);
    const auto [type, shape] = slice_type(declared);
    Shape whole = shape;
    // The rank is unknown if there is neither a slice nor a declared shape.
    const bool unknown = slices_.empty() && !declared.dims;
    axis = unknown ? 0 : normal_axis(node, axis, static_cast<int64_t>(shape.size()) + 1);
    whole.insert(whole.begin() + axis, static_cast<int64_t>(slices_.size()));
    Tensor out(type, whole);
    int64_t outer = 1;
    for (int64_t d = 0; d < axis; ++d) outer *= shape[static_cast<size_t>(d)];
    if (out.elems() == 0) return out;
    const int64_t run = slices_[0].elems() / outer;
    for (size_t i = 0; i < slices_.size(); ++i) {
      for (int64_t o = 0; o < outer; ++o)
        copy_run(slices_[i], o * run, out, (o * static_cast<int64_t>(slices_.size()) + static_cast<int64_t>(i)) * run,
                 run);
    }
    return out;
  }

 private:
  /// Bytes of a slice in addition to its elements, roughly.
  static constexpr int64_t kSliceBytes = 256;

  std::pair<DType, Shape> slice_type(const DeclaredType& declared) const {
    if (!slices_.empty()) return {slices_[0].dtype(), slices_[0].shape()};
    Shape shape = declared.dims.value_or(Shape{});
    for (int64_t& d : shape) d = std::max<int64_t>(d, 0);
    return {declared.dtype.value_or(DType::f32), std::move(shape)};
  }

  /// Throws out_of_memory if there is no longer enough memory to join the slices. The next check is due when their size
  /// has doubled.
  void check_memory(const OpenNode& node) {
    next_check_ = 2 * bytes_;
    if (const int64_t available = free_memory(); bytes_ > available) {
      fail(ErrorKind::out_of_memory,
           "{}: its iterations have produced {} values to be stacked, and {} for all of them together is more than the "
           "{} that is available; run fewer iterations",
           node.label, slices_.size(), memory_text(bytes_), memory_text(available));
    }
  }

  static void copy_run(const Tensor& from, int64_t at, const Tensor& to, int64_t place, int64_t count) {
    if (from.dtype() == DType::string) {
      std::copy_n(from.strings().begin() + at, count, to.strings().begin() + place);
      return;
    }
    const int64_t size = size_bytes(from.dtype());
    std::memcpy(to.raw() + place * size, from.raw() + at * size, static_cast<size_t>(count * size));
  }

  std::vector<Tensor> slices_;
  int64_t bytes_ = 0;
  int64_t next_check_ = int64_t{64} << 20;
};

/// Returns element `at` along an axis, without the axis.
Tensor slice(const Tensor& tensor, int64_t axis, int64_t at) {
  Shape shape = tensor.shape();
  shape.erase(shape.begin() + axis);
  if (axis == 0 && tensor.dtype() != DType::string) {  // a view
    const auto whole = std::make_shared<Tensor>(tensor);
    const int64_t bytes = elems(shape) * size_bytes(tensor.dtype());
    if (bytes % 64 == 0) return {tensor.dtype(), std::move(shape), tensor.raw() + at * bytes, whole};
  }
  return part_along(tensor, axis, at, 1).reshaped(std::move(shape));
}

/// Empties the registers that only the node itself reads for the last time, not its regions, so that the first
/// iteration may change sequences in place.
void release(const Instr& instr, std::vector<AnyValue>& registers) {
  for (const ValueId v : instr.dead) {
    const bool captured = std::ranges::any_of(instr.node->regions, [&](const Region& region) {
      return std::ranges::find(region.captures, v) != region.captures.end();
    });
    if (!captured) registers[static_cast<size_t>(v)] = {};
  }
}

}  // namespace

void Machine::begin_iteration() const {
  if (interrupt_) interrupt_();
  if (observer_ != nullptr) observer_->iteration();
}

std::vector<AnyValue> Machine::control(const Instr& instr, Registers& registers) const {
  switch (instr.node->op->control) {
    case Control::branch:
      return branch(instr, registers);
    case Control::loop:
      return loop(instr, registers);
    case Control::scan:
      return scan(instr, registers);
    case Control::map:
      return map(instr, registers);
    case Control::none:
      break;
  }
  node_error(*instr.node, "has graphs inside it, but its operator runs none");
}

std::vector<AnyValue> Machine::call_region(const Instr& instr, size_t region, std::vector<AnyValue> inputs,
                                           const Registers& registers) const {
  for (const ValueId v : instr.node->regions[region].captures) inputs.push_back(registers[static_cast<size_t>(v)]);
  return call(instr.functions[region], std::move(inputs));
}

std::vector<AnyValue> Machine::branch(const Instr& instr, Registers& registers) const {
  const OpenNode& node = *instr.node;
  return call_region(instr, chosen_branch(node, operand(instr, 0, registers)), {}, registers);
}

std::vector<AnyValue> Machine::loop(const Instr& instr, Registers& registers) const {
  const OpenNode& node = *instr.node;
  const size_t states = std::max<size_t>(node.inputs.size(), 2) - 2;
  const size_t body = region_of(node, "body", 2 + states, 1 + std::max(states, node.outputs.size()));
  const OpenGraph& graph = *node.regions[body].graph;
  const AnyValue& count = operand(instr, 0, registers);
  const AnyValue& start = operand(instr, 1, registers);
  int64_t most = std::numeric_limits<int64_t>::max();
  if (!count.absent()) {
    if (!count.is_tensor() || count.tensor().elems() != 1 || count.tensor().dtype() != DType::i64)
      node_error(node, fmt::format("the trip count is {}, expected one i64", text(count)));
    most = count.tensor().as_int(0);
  }
  bool goes_on = start.absent() || truth(node, start, "the condition");
  std::vector<AnyValue> state;
  for (size_t i = 0; i < states; ++i) state.push_back(operand(instr, 2 + i, registers));
  release(instr, registers);
  std::vector<Stack> stacks(graph.outputs.size() - 1 - states);
  for (int64_t i = 0; i < most && goes_on; ++i) {
    begin_iteration();
    std::vector<AnyValue> inputs{Tensor::scalar(i), Tensor::scalar(goes_on)};
    std::ranges::move(state, std::back_inserter(inputs));
    std::vector<AnyValue> made = call_region(instr, body, std::move(inputs), registers);
    goes_on = truth(node, made[0], "the condition that its body returns");
    std::move(made.begin() + 1, made.begin() + 1 + static_cast<std::ptrdiff_t>(states), state.begin());
    for (size_t s = 0; s < stacks.size(); ++s) stacks[s].add(node, made[1 + states + s]);
  }
  for (size_t s = 0; s < stacks.size(); ++s)
    state.emplace_back(stacks[s].join(node, graph.outputs[1 + states + s].declared, 0, false));
  return state;
}

std::vector<AnyValue> Machine::scan_once(const Instr& instr, std::vector<AnyValue> inputs, Registers& registers,
                                         std::optional<int64_t> most) const {
  const OpenNode& node = *instr.node;
  const auto scans = static_cast<size_t>(node.int_attr("num_scan_inputs", 1));
  const size_t states = inputs.size() - scans;
  const size_t body = region_of(node, "body", inputs.size(), std::max(states, node.outputs.size()));
  const OpenGraph& graph = *node.regions[body].graph;
  const bool batched = node.opset < 9;
  const auto attr = [&](std::string_view name, size_t i) {
    const std::vector<int64_t> all = node.ints_attr(name);
    return i < all.size() ? all[i] : 0;
  };
  int64_t count = -1;
  std::vector<int64_t> axes(scans);
  for (size_t i = 0; i < scans; ++i) {
    if (!inputs[states + i].is_tensor())
      node_error(node, fmt::format("input {} is {}, expected a tensor", states + i, text(inputs[states + i])));
    const Tensor& tensor = inputs[states + i].tensor();
    axes[i] = normal_axis(node, attr("scan_input_axes", i), tensor.rank());
    const int64_t extent = tensor.shape()[static_cast<size_t>(axes[i])];
    if (count >= 0 && extent != count)
      node_error(node,
                 fmt::format("scans {} elements of one input and {} of another; expected equal counts", count, extent));
    count = extent;
  }
  const int64_t whole = count;
  count = std::min(count, most.value_or(count));
  std::vector<AnyValue> state(std::make_move_iterator(inputs.begin()),
                              std::make_move_iterator(inputs.begin() + static_cast<std::ptrdiff_t>(states)));
  std::vector<Stack> stacks(graph.outputs.size() - states);
  for (int64_t i = 0; i < count; ++i) {
    begin_iteration();
    std::vector<AnyValue> given = std::move(state);
    for (size_t s = 0; s < scans; ++s) {
      const bool backward = attr(batched ? "directions" : "scan_input_directions", s) != 0;
      given.emplace_back(slice(inputs[states + s].tensor(), axes[s], backward ? count - 1 - i : i));
    }
    std::vector<AnyValue> made = call_region(instr, body, std::move(given), registers);
    for (size_t s = 0; s < stacks.size(); ++s) stacks[s].add(node, made[states + s]);
    made.resize(states);
    state = std::move(made);
  }
  for (size_t s = 0; s < stacks.size(); ++s) {
    const DeclaredType& declared = graph.outputs[states + s].declared;
    stacks[s].fill(whole, declared);
    state.emplace_back(
        stacks[s].join(node, declared, attr("scan_output_axes", s), attr("scan_output_directions", s) != 0));
  }
  return state;
}

namespace {

/// Returns the lengths of the sequences of a batch, or none if all of them have the full length.
std::vector<int64_t> sequence_lengths(const OpenNode& node, const AnyValue& value, int64_t batch) {
  if (value.absent()) return {};
  if (!value.is_tensor() || value.tensor().dtype() != DType::i64 || value.tensor().shape() != Shape{batch})
    node_error(node, fmt::format("the lengths of the sequences are {}, expected i64[{}]", text(value), batch));
  std::vector<int64_t> lengths = value.tensor().ints();
  for (const int64_t length : lengths) {
    if (length < 0) node_error(node, fmt::format("the length of a sequence is {}, expected 0 or more", length));
  }
  return lengths;
}

}  // namespace

/// Until opset 8, the first input has the lengths of the sequences of a batch, and all others have the batch as their
/// first axis. Stacked outputs are zero after the end of a sequence.
std::vector<AnyValue> Machine::scan(const Instr& instr, Registers& registers) const {
  const OpenNode& node = *instr.node;
  const bool batched = node.opset < 9;
  std::vector<AnyValue> inputs;
  for (size_t i = batched ? 1 : 0; i < node.inputs.size(); ++i) inputs.push_back(operand(instr, i, registers));
  const int64_t scans = node.int_attr("num_scan_inputs", 1);
  if (scans < 1 || scans > static_cast<int64_t>(inputs.size())) {
    node_error(node, fmt::format("num_scan_inputs is {}; legal values are 1 to {}, the number of inputs", scans,
                                 inputs.size()));
  }
  if (!batched) return scan_once(instr, std::move(inputs), registers);
  for (const AnyValue& input : inputs) {
    if (!input.is_tensor() || input.tensor().rank() == 0)
      node_error(node, fmt::format("an input is {}, expected a tensor with a batch as its first axis", text(input)));
  }
  const int64_t batch = inputs[0].tensor().shape()[0];
  const std::vector<int64_t> lengths = sequence_lengths(node, operand(instr, 0, registers), batch);
  std::vector<Stack> stacks(node.outputs.size());
  for (int64_t b = 0; b < batch; ++b) {
    std::vector<AnyValue> one;
    for (const AnyValue& input : inputs) {
      if (input.tensor().shape()[0] != batch)
        node_error(node, fmt::format("an input is {}, expected a batch of {}", text(input), batch));
      one.emplace_back(slice(input.tensor(), 0, b));
    }
    std::optional<int64_t> most;
    if (!lengths.empty()) most = lengths[static_cast<size_t>(b)];
    const std::vector<AnyValue> made = scan_once(instr, std::move(one), registers, most);
    for (size_t i = 0; i < stacks.size(); ++i) stacks[i].add(node, made[i]);
  }
  std::vector<AnyValue> outputs;
  for (Stack& stack : stacks) outputs.emplace_back(stack.join(node, {}, 0, false));
  return outputs;
}

std::vector<AnyValue> Machine::map(const Instr& instr, Registers& registers) const {
  const OpenNode& node = *instr.node;
  const size_t body = region_of(node, "body", node.inputs.size(), node.outputs.size());
  const AnyValue& first = operand(instr, 0, registers);
  if (!is_list(first)) node_error(node, fmt::format("input 0 is {}, expected a sequence", text(first)));
  const size_t count = first.elements().size();
  std::vector<std::vector<AnyValue>> results(node.outputs.size());
  for (size_t i = 0; i < count; ++i) {
    begin_iteration();
    std::vector<AnyValue> inputs;
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      const AnyValue& input = operand(instr, k, registers);
      if (is_list(input) && input.elements().size() != count) {
        node_error(node, fmt::format("input {} is {}, expected a sequence of {} elements like input 0", k, text(input),
                                     count));
      }
      inputs.push_back(is_list(input) ? input.elements()[i] : input);
    }
    std::vector<AnyValue> made = call_region(instr, body, std::move(inputs), registers);
    for (size_t k = 0; k < results.size(); ++k) {
      if (!made[k].is_tensor())
        node_error(node, fmt::format("output {} of its body is {}, expected a tensor", k, text(made[k])));
      results[k].push_back(std::move(made[k]));
    }
  }
  std::vector<AnyValue> outputs;
  for (auto& elements : results) outputs.push_back(AnyValue::sequence(std::move(elements)));
  return outputs;
}

}  // namespace kilter::vm
