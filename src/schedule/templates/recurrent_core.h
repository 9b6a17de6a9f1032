// The kernel of the template recurrent_steps; see the head of recurrent_steps.cpp.
#pragma once

#include <vector>

#include "base/align.h"
#include "ops/support/recurrent.h"
#include "schedule/emit.h"
#include "schedule/model/register_tile.h"
#include "schedule/templates/weight_stream.h"

namespace kilter {

/// One of RNNSteps, GRUSteps and LSTMSteps.
struct Recurrence {
  RecurrentShape shape;
  RecurrentForm::Cell cell = RecurrentForm::rnn;
  bool reverse = false;              ///< whether a single direction runs backward; of two directions, the second does
  bool coupled = false;              ///< LSTM: the forget gate is 1 - the input gate
  bool linear_before_reset = false;  ///< GRU
  bool lengths = false;              ///< whether sequences have different numbers of steps, given at run time
  /// Whether r consists of integers with scales and is multiplied as bytes, by the digits of h.
  bool bytes = false;
  double clip = 0;                    ///< infinity: no clipping
  std::vector<Activation> functions;  ///< the same in both directions

  /// What is multiplied: f32, or bytes.
  Multiplicands operands() const { return bytes ? Multiplicands::bytes_of_words() : Multiplicands{}; }
  /// The gates that each product with r computes. Later products use results of earlier ones.
  std::vector<std::vector<int64_t>> products() const;
  /// Whether blocks of hidden units may run in parallel: only if there is always a single step and a single product,
  /// since then no block reads another block's result.
  bool parallel_blocks() const { return shape.steps == 1 && products().size() == 1 && !lengths; }
};

/// Digits of 8 bits for an element of h that is multiplied as bytes. They are as precise as f32: elements are rounded
/// to a multiple of 2^-23 of the largest one.
constexpr int64_t kStateDigits = 3;

/// Rows of the batch x vectors of hidden units. All gates of a product stay in registers.
struct RecurrentTile {
  int64_t vectors = 1;
  int64_t rows = 1;
  int64_t prefetch = 0;  ///< for r; see prefetch_knob()

  int64_t width(int32_t lanes) const { return vectors * lanes; }
  int64_t blocks(const Recurrence& q, int32_t lanes) const { return ceil_div(q.shape.hidden, width(lanes)); }
};

/// Emits the whole kernel, parallel over directions, tiles of rows and, where allowed, blocks of hidden units.
void emit_recurrence(Emitter& e, const Recurrence& q, const RecurrentTile& tile, const CpuLimits& limits);

}  // namespace kilter
