// The ranges of a network's values over samples, by running the float network.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "compile/compile.h"
#include "compile/session.h"
#include "quantize/document.h"
#include "quantize/histogram.h"
#include "quantize/samples.h"

namespace kilter::quantize {

/// How networks run while a model is quantised.
struct Runs {
  CompileOptions compile;
  int threads = 0;                                         ///< 0: default_threads()
  std::filesystem::path scratch;                           ///< a file that the runs may overwrite and leave behind
  std::function<void(const std::string& doing)> progress;  ///< may be null
};

/// Writes a document to the scratch file and opens it.
std::unique_ptr<Session> open(const Document& document, const Runs& runs);
/// Runs a network and returns its outputs by name.
std::map<std::string, Tensor> run(Session& session, const std::map<std::string, Tensor>& inputs);
struct Calibration {
  Method method = Method::minmax;
  double percentile = 99.99;
};

/// Returns the range of each of `values`, which are f32. Throws bad_input if a value is not finite, naming it and the
/// sample.
std::map<std::string, Range> calibrate(const Document& document, const std::vector<std::string>& values,
                                       const Samples& samples, const Calibration& how, const Runs& runs);

}  // namespace kilter::quantize
