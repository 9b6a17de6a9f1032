// What quantisation costs: the error of each layer and of the whole network on samples.
#pragma once

#include <string>
#include <vector>

#include "quantize/calibrate.h"
#include "quantize/plan.h"
#include "quantize/writer.h"

namespace kilter::quantize {

/// The squares of a value of the float network, and of the error of its counterpart, summed over elements and samples.
struct Error2 {
  double signal = 0;
  double noise = 0;
  /// Returns 10 log10(signal / noise); infinite without noise.
  double db() const;
};

struct LayerError {
  std::string node;
  std::string op;
  std::string output;  ///< the value that is compared
  bool quantised_output = false;
  Range range;    ///< of the output, as chosen by calibration; empty if the output stays float
  Affine affine;  ///< of the output
  Error2 alone;   ///< with exact operands: the layer is the only one that is quantised
  Error2 in_network;
};

struct OutputError {
  std::string name;
  Error2 error;
  /// The number of rows in which the largest element is in the same place, and of all rows; 0 of 0 for an output
  /// without classes, that is one with other than 2 dimensions of which the second is 2 or more.
  int64_t same_class = 0, rows = 0;
};

struct Measured {
  std::vector<LayerError> layers;  ///< those that compute, the worst alone first
  std::vector<OutputError> outputs;
};

/// Runs the float network and the quantised one on every sample.
Measured measure(const Document& document, const Plan& plan, const Scales& scales,
                 const std::map<std::string, Range>& ranges, const Samples& samples, const Runs& runs);

}  // namespace kilter::quantize
