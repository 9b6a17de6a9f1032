// Opens the files from which a compilation takes schedules: tuning records with the plans next to them, and layer
// plans.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tune/records/record.h"
#include "tune/tuner/plans/use_tuned.h"

namespace kilter::tune {

struct RecordsUse {
  std::string file;  ///< or the URL of a server (tune/records/place.h)
  int threads = 1;   ///< the number of threads with which the network will run
  Choose choose = Choose::accepted;
  std::string tune = {};  ///< ApplyOptions::tune
  bool shipped = false;   ///< ApplyOptions::shipped
  /// Changes the records before they are used. May be empty.
  std::function<void(std::vector<Record>&)> edit = {};
  /// Receives a line for each fact about the file that the user must know, and TunedSource::notice. May be empty.
  std::function<void(const std::string&)> notice = {};
};

/// Chooses schedules from a file of records. Throws io or bad_input if the file cannot be read.
std::shared_ptr<const Chooser> use_records(const RecordsUse& use);

/// Adds the settings of a layer plan to `options`, whose own choices stay. Returns the chooser that describes the plan,
/// or null if it sets the precision alone. Throws io or bad_input if the file cannot be read, and usage if it sets a
/// precision other than that of `options`.
///   `threads`: the number of threads with which the network will run
///   `shipped`: words about the choices name the file without its folder
std::shared_ptr<const Chooser> use_layer_plan(const std::string& file, int threads, CompileOptions& options,
                                              bool shipped = false);

}  // namespace kilter::tune
