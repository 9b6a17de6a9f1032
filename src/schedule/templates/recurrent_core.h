// The kernel behind recurrent_steps, whose head says what it computes.
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
  bool reverse = false;               ///< of one direction; with two the second runs backward
  bool coupled = false;               ///< LSTM: the forget gate is 1 - the input gate
  bool linear_before_reset = false;   ///< GRU
  double clip = 0;                    ///< infinity: none
  std::vector<Activation> functions;  ///< the same in both directions

  /// The gates that each product with r makes, product by product: what a later one multiplies depends on the results
  /// of an earlier one.
  std::vector<std::vector<int64_t>> products() const;
  /// Whether blocks of hidden units may run beside each other: in a single step, in which none reads another's result.
  bool parallel_blocks() const { return shape.steps == 1 && products().size() == 1; }
};

/// Rows of the batch by vectors of hidden units; all gates of a product are kept in registers.
struct RecurrentTile {
  int64_t vectors = 1;
  int64_t rows = 1;
  int64_t prefetch = 0;  ///< of r: see prefetch_knob()

  int64_t width(int32_t lanes) const { return vectors * lanes; }
  int64_t blocks(const Recurrence& q, int32_t lanes) const { return ceil_div(q.shape.hidden, width(lanes)); }
};

/// Emits the whole kernel: parallel over directions, tiles of rows and, where they may be, blocks of hidden units.
void emit_recurrence(Emitter& e, const Recurrence& q, const RecurrentTile& tile, int32_t lanes);

}  // namespace kilter
