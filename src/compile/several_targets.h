// Compiled files of one network for several targets (vm/compiled_file.h).
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "compile/session.h"

namespace kilter {

/// Parses targets for parse_target() with commas between them, or one target with options of its back end. Throws usage
/// if a name is missing or there twice.
std::vector<Target> parse_targets(std::string_view text);

struct SavedTargets {
  std::vector<vm::TargetPart> parts;  ///< what each target takes in the file
  std::vector<Session::Saved> saved;
};
/// Compiles the sessions' network, which have it for a target each, and writes one file, which is small if they have
/// CompileContents::recipes. Throws what the sink throws.
SavedTargets save_targets(std::span<const std::unique_ptr<Session>> sessions, const FileSink& to);
/// Parses "fast" or "small". Throws usage for others.
vm::FileSize parse_file_size(std::string_view text);

}  // namespace kilter
