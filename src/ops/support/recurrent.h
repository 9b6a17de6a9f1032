// Shared by RNN, GRU and LSTM: extents, directions, activation functions and the loop over time. Each has a second form
// (RNNSteps, GRUSteps, LSTMSteps) whose x is already projected. This form remains when the product with w becomes a
// separate node (src/passes/split_recurrent.cpp).
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/index_fault.h"
#include "ops/op.h"

namespace kilter {

/// The properties that follow from the name of a recurrent operator: its cell, and the input index of each operand.
struct RecurrentForm {
  enum Cell : uint8_t { rnn, gru, lstm };
  static constexpr size_t kAbsent = std::numeric_limits<size_t>::max();

  std::string_view name;
  Cell cell = rnn;
  int64_t gates = 1;
  std::span<const std::string_view> functions = {};  ///< default activation functions of one direction
  size_t w = kAbsent;                                ///< kAbsent in the forms whose x is projected
  size_t r = kAbsent;
  size_t bias = kAbsent;  ///< [directions, 2 * gates * hidden]: for w, then for r
  size_t lens = kAbsent;
  size_t initial_h = kAbsent;
  size_t initial_c = kAbsent;
  size_t peepholes = kAbsent;
  /// [directions, hidden]: bias of r for the hidden gate of a GRU with linear_before_reset. Only in projected forms,
  /// whose x contains all other biases.
  size_t hidden_bias = kAbsent;
  /// [directions, gates * hidden]: factors of the rows of r, which are then integers.
  size_t r_scale = kAbsent;

  bool projected() const { return w == kAbsent; }
};
/// Returns the form of a node, or nullptr for other operators.
const RecurrentForm* find_recurrent_form(const Node& node);
/// Returns the form of a node that is known to have one.
const RecurrentForm& recurrent_form(const Node& node);

/// Extents of a recurrent node. x is [steps, batch, input], or [batch, steps, input] with layout=1. Weights are
/// [directions, gates * hidden, input or hidden]. A projected x has an input of directions * gates * hidden.
struct RecurrentShape {
  int64_t steps = 0;
  int64_t batch = 0;
  int64_t input = 0;
  int64_t hidden = 0;
  int64_t directions = 1;
  int64_t gates = 1;
  bool batch_first = false;

  Shape all_states() const;   ///< of output Y
  Shape last_states() const;  ///< of initial and final states
  /// Return the element offsets of the rows of one time step.
  int64_t x_at(int64_t step, int64_t b) const;
  int64_t y_at(int64_t step, int64_t direction, int64_t b) const;
  int64_t state_at(int64_t direction, int64_t b) const;
};

/// The lengths that sequences may have.
inline IndexRange length_range(const RecurrentShape& shape) { return {0, {shape.steps + 1}, true}; }

/// Reads and checks x, w (nullptr if x is projected) and r. Throws bad_model.
RecurrentShape recurrent_shape(const Node& node, const Shape& x, const Shape* w, const Shape& r);
RecurrentShape recurrent_shape(const OpView& view);
/// The shape rule of all recurrent operators. Checks every operand; the outputs are Y, Y_h and, for LSTM, Y_c.
void infer_recurrent(InferContext& ctx);

/// One of the activation functions that the ONNX recurrent operators name, with its alpha and beta.
struct Activation {
  enum class Kind {
    relu,
    tanh,
    sigmoid,
    affine,
    leaky_relu,
    thresholded_relu,
    scaled_tanh,
    hard_sigmoid,
    elu,
    softsign,
    softplus
  };
  Kind kind = Kind::tanh;
  double alpha = 0;
  double beta = 0;

  double operator()(double x) const;
  Expr operator()(const Expr& x) const;  ///< x must be a name, not a computation, since it may be read several times
  bool operator==(const Activation&) const = default;
};
/// Returns the activation functions of all directions, in order. Alphas and betas are assigned, in order, to the
/// functions that have such a parameter. Throws bad_model.
std::vector<Activation> recurrent_activations(const Node& node, int64_t directions);
/// Returns the bound that clip sets for the inputs of the gates' activations, or infinity without it.
double recurrent_clip(const Node& node);

/// The weights of one direction: w [gates * hidden, input] (nullptr if x is projected), r [gates * hidden, hidden],
/// biases [gates * hidden] (zeros if omitted), peepholes [3 * hidden] (LSTM), and the activation functions.
struct Direction {
  const double* w = nullptr;
  const double* r = nullptr;
  std::vector<double> w_bias;
  std::vector<double> r_bias;
  std::vector<double> peephole;
  std::vector<Activation> f;
  int64_t input = 0;
  int64_t hidden = 0;
  double clip = std::numeric_limits<double>::infinity();  ///< see recurrent_clip()

  /// Return row `row` of w times x plus its bias (or element `row` of a projected x), and row `row` of r times h plus
  /// its bias.
  double from_input(int64_t row, const double* x) const;
  double from_state(int64_t row, const double* h) const;
  double clipped(double value) const;
};

/// One time step: reads x, h (and c), writes h (and c). `scratch` keeps its size between calls.
using RecurrentStep =
    std::function<void(const Direction&, const double* x, std::vector<double>& h, std::vector<double>& c)>;
/// Runs all directions, sequences and time steps, and writes the requested outputs.
void run_recurrent(ReferenceContext& ctx, const RecurrentStep& step);

/// Returns the operations of one run: the matrix products of every time step.
int64_t recurrent_flops(const OpView& view);

/// Returns why a recurrent node cannot be split into the product with w and a kernel for the rest, or nullopt if it
/// can.
std::optional<Rejected> recurrent_refusal(const OpView& view);
/// Whether every sequence is known to have all steps: sequence_lens is omitted, or constant and always that number.
bool runs_all_steps(const OpView& view);

/// Returns the attributes common to all these operators, plus `more`.
std::vector<AttrSpec> recurrent_attrs(const std::vector<AttrSpec>& more);

}  // namespace kilter
