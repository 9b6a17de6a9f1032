// Measures what changes of layout cost on this machine, and keeps it.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "compile/compile.h"
#include "tune/graph/transforms.h"
#include "tune/run/runner.h"

namespace kilter::tune {

/// A model of changes between plain images and those in the target's blocks of channels, from 16 copies of images of
/// 30 KiB to 16 MiB, which run in turn as layers of one network. Takes about a second. Throws unsupported when they
/// cannot be measured, and for targets whose layouts have no blocks.
TransformModel measure_transforms(const CompileOptions& compile, RunnerOptions runner, const std::string& device);

/// Beside a file of records: "FILE.transforms-DEVICE.json" with a hash of the device.
std::filesystem::path transforms_file(const std::string& records, const std::string& device);

struct KnownTransforms {
  std::optional<TransformModel> model;  ///< none for targets whose layouts have no blocks
  double seconds = 0;                   ///< that measuring took; 0: they were known
  std::string file;                     ///< empty: not kept
  std::string unusable;                 ///< why what `file` held was not, so that it was replaced; empty: it was sound
};
/// From the file where it is there and holds changes into this target's blocks and back at this number of threads, else
/// measured and kept; a damaged file is replaced. `records` empty: measured and not kept. `anew`: measured in any case,
/// and of what the file held these changes at this number of threads are replaced.
KnownTransforms known_transforms(const CompileOptions& compile, const RunnerOptions& runner, const std::string& device,
                                 const std::string& records, bool anew);

}  // namespace kilter::tune
