// Measures the cost of layout changes on the machine of the runners, and stores it.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "compile/compile.h"
#include "tune/graph/transforms.h"
#include "tune/run/runner.h"

namespace kilter::tune {

/// Measures a model of changes between plain images and the target's blocks of channels: 16 copies of images from 30
/// KiB to 16 MiB that run one after another as layers of one network. Takes about a second. Throws unsupported if they
/// cannot be measured or the target's layouts have no blocks.
TransformModel measure_transforms(const CompileOptions& compile, RunnerOptions runner, const std::string& device);

/// Returns "FILE.transforms-DEVICE.json" next to the records file FILE, with a hash of the device. For a server,
/// beside() takes the place of FILE.
std::filesystem::path transforms_file(const std::string& records, const std::string& device);

struct KnownTransforms {
  std::optional<TransformModel> model;  ///< none if the target's layouts have no blocks
  double seconds = 0;                   ///< measuring time; 0: the costs were known
  std::string file;                     ///< empty: not kept
  /// The reason why the contents of `file` were unusable and replaced; empty: they were sound.
  std::string unusable;
};
/// Reads the model from the file if it contains changes into this target's blocks and back for this number of threads.
/// Otherwise measures it and stores it. A damaged file is replaced. `records` empty: measures without storing. `anew`:
/// always measures, and replaces these changes for this number of threads in the file.
KnownTransforms known_transforms(const CompileOptions& compile, const RunnerOptions& runner, const std::string& device,
                                 const std::string& records, bool anew);

}  // namespace kilter::tune
