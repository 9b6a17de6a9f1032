// Moves the product with the inputs out of recurrent nodes: one matrix product for all time steps instead of one for
// each.
//
//   LSTM(x, w, r, b, lens, h, c, p)   =>   LSTMSteps(Gemm(x, w', b), r, h, c, p, lens)      GRU, RNN likewise
//
// The product adds the biases of w and r, except the bias that a GRU with linear_before_reset multiplies by its reset
// gate. It also computes the steps after the end of a sequence, which nothing reads. Lengths are omitted if they are
// known to be all steps. Legal unless recurrent_refusal() objects.

#include <string>

#include "graph/values.h"
#include "ops/support/builder.h"
#include "ops/support/recurrent.h"
#include "passes/pass.h"

namespace kilter {
namespace {

/// The sums of the biases of w and r, and the part of r's bias that stays separate.
struct Biases {
  Tensor projected;  ///< [directions * gates * hidden]
  Tensor hidden;     ///< [directions, hidden]; undefined if nothing stays separate
};

Biases split_biases(const Tensor& bias, const RecurrentShape& s, bool keep_hidden) {
  const int64_t rows = s.gates * s.hidden;
  Biases out{Tensor(DType::f32, {s.directions * rows}), {}};
  if (keep_hidden) out.hidden = Tensor(DType::f32, {s.directions, s.hidden});
  for (int64_t d = 0; d < s.directions; ++d) {
    const float* of_w = bias.data<float>() + 2 * d * rows;
    const float* of_r = of_w + rows;
    for (int64_t row = 0; row < rows; ++row) {
      const bool kept = keep_hidden && row >= rows - s.hidden;
      out.projected.data<float>()[d * rows + row] = of_w[row] + (kept ? 0.0F : of_r[row]);
      if (kept) out.hidden.data<float>()[d * s.hidden + row - (rows - s.hidden)] = of_r[row];
    }
  }
  return out;
}

class Splitter {
 public:
  Splitter(Graph& graph, PassContext& context) : graph_(graph), context_(context), b_(graph) {}

  void run() {
    for (NodeId id : std::vector<NodeId>(graph_.order())) {
      const Node& node = graph_.node(id);
      const RecurrentForm* form = find_recurrent_form(node);
      if (node.dead || form == nullptr || form->projected()) continue;
      if (recurrent_refusal(view(graph_, node)) || !context_.take()) continue;
      split(id, node, *form);
    }
    graph_.sort();
    graph_.remove_dead();
  }

 private:
  ValueId reshaped(ValueId x, const Shape& shape, const std::string& name) {
    return b_.add("Reshape", {x, b_.list(shape)}, {}, name);
  }

  /// The product for all steps: [.., .., directions * gates * hidden], with the leading extents of x.
  ValueId project(const Node& node, const RecurrentForm& form, const RecurrentShape& s, const Tensor* bias) {
    const ValueId w = node.inputs[form.w];
    const int64_t columns = s.directions * s.gates * s.hidden;
    const std::string name = node.name + ".input";
    std::vector<ValueId> operands = {
        reshaped(node.inputs[0], {s.steps * s.batch, s.input}, name + ".rows"),
        b_.constant(constant_of(graph_, w)->reshaped({columns, s.input}), graph_.value(w).name)};
    if (bias != nullptr) operands.push_back(b_.constant(*bias, name + ".bias"));
    const ValueId y = b_.add("Gemm", operands, {{"transB", int64_t{1}}}, name);
    Shape shape = graph_.type(node.inputs[0]).shape;
    shape.back() = columns;
    return reshaped(y, shape, name + ".steps");
  }

  void split(NodeId id, const Node& node, const RecurrentForm& form) {
    const OpView seen = view(graph_, node);
    const RecurrentShape s = recurrent_shape(seen);
    const bool keep_hidden = form.cell == RecurrentForm::gru && node.int_attr("linear_before_reset", 0) != 0;
    Biases biases;
    if (const Tensor* bias = constant_of(graph_, node.input(form.bias))) biases = split_biases(*bias, s, keep_hidden);
    const Tensor* added = biases.projected.defined() ? &biases.projected : nullptr;
    std::vector<ValueId> inputs = {project(node, form, s, added), node.inputs[form.r], node.input(form.initial_h)};
    if (form.cell == RecurrentForm::lstm) {
      inputs.push_back(node.input(form.initial_c));
      inputs.push_back(node.input(form.peepholes));
    } else if (biases.hidden.defined()) {
      inputs.push_back(b_.constant(biases.hidden, node.name + ".hidden_bias"));
    }
    const ValueId lens = runs_all_steps(seen) ? kNone : node.inputs[form.lens];
    Node& left = graph_.change_node(id);
    left.op = find_op("kilter", std::string(form.name) + "Steps", 1);
    left.opset = 1;
    if (lens != kNone) {
      inputs.resize(recurrent_form(left).lens, kNone);
      inputs.push_back(lens);
    }
    left.attrs.erase("hidden_size");
    left.inputs = std::move(inputs);
  }

  Graph& graph_;
  PassContext& context_;
  GraphBuilder b_;
};

}  // namespace

void split_recurrent(Graph& graph, PassContext& context) { Splitter(graph, context).run(); }

}  // namespace kilter
