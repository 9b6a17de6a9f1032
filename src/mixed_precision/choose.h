// Chooses the precision of a network and the layers that stay in f32: the fastest mix whose outputs stay within a
// tolerance on samples.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "compile/session.h"
#include "measure/stats.h"
#include "mixed_precision/layers.h"

namespace kilter::mixed {

struct Request {
  std::string model;         ///< for Session::open()
  Session::Options session;  ///< with Precision::declared
  double tolerance = 0.01;   ///< of error()
  std::vector<Sample> samples;
  double seconds = 10;                                          ///< to compare the times
  std::function<void(const std::string& doing)> progress = {};  ///< may be null
};

/// A precision and the nodes that stay in f32.
struct Mix {
  Precision precision = Precision::declared;
  std::set<std::string> keep_float;
  size_t kept = 0, layers = 0;  ///< layers that stay in f32, and layers that could
  double error = 0;             ///< error() against the declared precision, the worst of the samples
  bool within = true;           ///< the error is within the tolerance
  double ms = 0;
  Ratio ratio;  ///< its time over that of the declared precision
};

/// A mix that was compiled in search of one within the tolerance.
struct Attempt {
  size_t kept = 0;  ///< layers in f32
  double expected = 0, error = 0;
};

/// What is known about a narrow precision for the whole network.
struct Gear {
  Precision precision = Precision::bf16;
  std::string refused;  ///< why the target has no such precision; the rest is then empty
  std::vector<LayerCost> layers;
  std::vector<Attempt> attempts;
  std::set<std::string> kept;  ///< layers that the mix keeps in f32
};

struct Result {
  std::vector<Gear> gears;
  std::vector<Mix> mixes;  ///< the declared precision, each whole gear, and each gear's mix, if it differs from both
  size_t chosen = 0;       ///< the fastest mix within the tolerance
  int compilations = 0;
  size_t samples = 0;
  int64_t rounds = 0, disturbed = 0;  ///< of the comparison of times; those that the machine disturbed
  std::string target;
};

/// Throws usage if the target has no narrow precision, or if only networks in f32 throughout are within the tolerance.
Result choose_precision(const Request& request);

/// Layers that layers_to_keep() prefers.
enum class KeepFirst : uint8_t {
  cheapest,  ///< those with much error for the time that f32 costs: the fastest mix
  worst,     ///< those with the largest errors: the mix with the fewest layers in f32, whatever the times
};

/// Chooses layers to keep in f32 so that the others' errors stay within the tolerance. Errors of layers are taken to be
/// independent: together they make `scale` times the root of the sum of their squares. Returns the layers' names.
std::set<std::string> layers_to_keep(std::span<const LayerCost> layers, double scale, double tolerance,
                                     KeepFirst first = KeepFirst::cheapest);

}  // namespace kilter::mixed
