// What RNN, GRU and LSTM share: extents, directions, activation functions and the walk over time. Each has a second
// form, RNNSteps, GRUSteps and LSTMSteps, whose x is projected already: what is left when the product with w is a node
// of its own (src/passes/split_recurrent.cpp).
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ops/op.h"

namespace kilter {

/// What the name of a recurrent operator says: its cell, and at which input its operands stand.
struct RecurrentForm {
  enum Cell : uint8_t { rnn, gru, lstm };
  static constexpr size_t kAbsent = std::numeric_limits<size_t>::max();

  std::string_view name;
  Cell cell = rnn;
  int64_t gates = 1;
  std::span<const std::string_view> functions = {};  ///< default activation functions of one direction
  size_t w = kAbsent;                                ///< absent in the forms whose x is projected
  size_t r = kAbsent;
  size_t bias = kAbsent;  ///< [directions, 2 * gates * hidden]: of w, then of r
  size_t lens = kAbsent;
  size_t initial_h = kAbsent;
  size_t initial_c = kAbsent;
  size_t peepholes = kAbsent;
  /// [directions, hidden]: of r for the hidden gate of a GRU with linear_before_reset; projected forms only, whose x
  /// holds all other biases.
  size_t hidden_bias = kAbsent;

  bool projected() const { return w == kAbsent; }
};
/// The form of a node; nullptr for other operators.
const RecurrentForm* find_recurrent_form(const Node& node);
/// The same for nodes that are known to have one.
const RecurrentForm& recurrent_form(const Node& node);

/// Extents of a recurrent node. x is [steps, batch, input], with layout=1 [batch, steps, input]; weights are
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
  /// Element offsets of the rows of one time step.
  int64_t x_at(int64_t step, int64_t b) const;
  int64_t y_at(int64_t step, int64_t direction, int64_t b) const;
  int64_t state_at(int64_t direction, int64_t b) const;
};

/// Reads and checks x, w (nullptr where x is projected) and r. Throws bad_model.
RecurrentShape recurrent_shape(const Node& node, const Shape& x, const Shape* w, const Shape& r);
RecurrentShape recurrent_shape(const OpView& view);
/// The shape rule of all: checks every operand; outputs Y, Y_h and, for LSTM, Y_c.
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
  Expr operator()(const Expr& x) const;  ///< x is a name, not computed: it may be read several times
  bool operator==(const Activation&) const = default;
};
/// The activation functions of all directions, in order. Alphas and betas go, in order, to the functions that take one.
/// Throws bad_model.
std::vector<Activation> recurrent_activations(const Node& node, int64_t directions);
/// What clip bounds the inputs of the gates' activations to; infinity without it.
double recurrent_clip(const Node& node);

/// Weights of one direction: w [gates * hidden, input] (nullptr where x is projected), r [gates * hidden, hidden],
/// biases [gates * hidden] (zeros where left out), peepholes [3 * hidden] (LSTM), and its activation functions.
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

  /// Row `row` of w times x, plus its bias (element `row` of a projected x); row of r times h, plus its bias.
  double from_input(int64_t row, const double* x) const;
  double from_state(int64_t row, const double* h) const;
  double clipped(double value) const;
};

/// One time step: reads x, h (and c), writes h (and c). `scratch` keeps its size between calls.
using RecurrentStep =
    std::function<void(const Direction&, const double* x, std::vector<double>& h, std::vector<double>& c)>;
/// Walks all directions, sequences and time steps and writes the outputs that are wanted.
void run_recurrent(ReferenceContext& ctx, const RecurrentStep& step);

/// Operations of one run: the matrix products of every time step.
int64_t recurrent_flops(const OpView& view);

/// Why the product with w cannot be taken out of a recurrent node and the rest run as a kernel; nullopt when it can.
std::optional<Rejected> recurrent_refusal(const OpView& view);

/// The attributes of all operators and `more`.
std::vector<AttrSpec> recurrent_attrs(const std::vector<AttrSpec>& more);

}  // namespace kilter
