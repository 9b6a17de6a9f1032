// Compiled files of one network for several targets (vm/compiled_file.h).
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "compile/session.h"

namespace kilter {

/// Parses a list of targets for parse_target(), separated by commas, or one target with options of its back end. Throws
/// usage if a name is missing or given twice.
std::vector<Target> parse_targets(std::string_view text);

struct SavedTargets {
  std::vector<vm::TargetPart> parts;  ///< the part of the file that belongs to each target
  std::vector<Session::Saved> saved;
};
/// Compiles a network for several targets and writes one file. Each session holds the network for one target. The file
/// is small if the sessions have CompileContents::recipes. Exceptions of the sink propagate.
SavedTargets save_targets(std::span<const std::unique_ptr<Session>> sessions, const FileSink& to);
/// Parses "fast" or "small". Throws usage for any other text.
vm::FileSize parse_file_size(std::string_view text);

}  // namespace kilter
