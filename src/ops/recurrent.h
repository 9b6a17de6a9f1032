// What RNN, GRU and LSTM share: extents, directions, activation functions and the walk over time.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "ops/op.h"

namespace kilter {

/// Extents of a recurrent node. x is [steps, batch, input], with layout=1 [batch, steps, input]; weights are
/// [directions, gates * hidden, input or hidden].
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

/// Reads and checks x, w, r, bias, sequence_lens and initial_h. Throws bad_model.
RecurrentShape recurrent_shape(const Node& node, const Shape& x, const Shape& w, const Shape& r, int64_t gates);
/// The shape rule of all three: checks every operand; outputs Y, Y_h and, for LSTM, Y_c.
void infer_recurrent(InferContext& ctx, int64_t gates);

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
};

/// Weights of one direction: w [gates * hidden, input], r [gates * hidden, hidden], biases [gates * hidden] (zeros
/// where left out), peepholes [3 * hidden] (LSTM), and its activation functions.
struct Direction {
  const double* w = nullptr;
  const double* r = nullptr;
  std::vector<double> w_bias;
  std::vector<double> r_bias;
  std::vector<double> peephole;
  std::vector<Activation> f;
  int64_t input = 0;
  int64_t hidden = 0;
  double clip = std::numeric_limits<double>::infinity();  ///< bounds the inputs of the gates' activations

  /// Row `row` of w times x, plus its bias; row of r times h, plus its bias.
  double from_input(int64_t row, const double* x) const;
  double from_state(int64_t row, const double* h) const;
  double clipped(double value) const;
};

/// One time step: reads x, h (and c), writes h (and c). `scratch` keeps its size between calls.
using RecurrentStep =
    std::function<void(const Direction&, const double* x, std::vector<double>& h, std::vector<double>& c)>;
/// Walks all directions, sequences and time steps and writes the outputs that are wanted. `defaults`: the names of the
/// activation functions of one direction.
void run_recurrent(ReferenceContext& ctx, int64_t gates, const std::vector<std::string>& defaults,
                   const RecurrentStep& step);

/// Operations of one run: the two matrix products of every time step.
int64_t recurrent_flops(const OpView& view, int64_t gates);

/// The attributes of all three operators and `more`.
std::vector<AttrSpec> recurrent_attrs(const std::vector<AttrSpec>& more);

}  // namespace kilter
