// Compiled files of any kind: of a plan (exec/plan_file.h), of a program (program_file.h), or of one network for
// several targets, of which loading takes the best for the processor.
//
// The container of a file for several targets is that of a plan, with the magic "KILTERM1". The meta section has a row
// for each target: its name, architecture and features, how many bytes it uses of the other sections, the hash of
// these, and the fields of its plan or program. Code and constants are in the other sections; equal ones are stored
// once. Loading reads, and verifies the hash of, only what the chosen target uses. In a small file, which may have one
// target, the constants section has the tensors from which the targets' constants are packed, and a row lists the
// constants with their recipes (packing/recipe.h); loading packs them into memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "exec/file_container.h"
#include "exec/plan.h"
#include "target/target.h"
#include "vm/program_file.h"

namespace kilter::vm {

constexpr uint32_t kTargetsFormatVersion = 2;

using Content = std::variant<Plan, ProgramFile>;

enum class FileSize : uint8_t {
  fast,   ///< packed constants are in the file as kernels read them, and mapped
  small,  ///< where a tensor is smaller than everything that is packed from it, the file contains the tensor instead
};

/// One target of a file for several, or of a small one.
struct TargetPart {
  std::string target;  ///< Target::name
  Arch arch = kThisArch;
  std::vector<std::string> features;  ///< that its code needs
  int64_t code_bytes = 0;
  int64_t constants_bytes = 0;  ///< of the constants that it uses, which other targets may use as well
  int64_t own_bytes = 0;        ///< of these, those that no target before it uses
  bool small = false;
  int64_t memory_bytes = 0;  ///< of a small file: its constants in memory, once they are packed
};

/// What a compiled file contains.
struct CompiledFile {
  Content content;
  std::vector<TargetPart> targets = {};  ///< of a file for several or a small one, in its order; otherwise empty
  size_t chosen = 0;                     ///< index in `targets` of the one that `content` is for
};

/// Writes a file of a plan or a program. Throws what the sink throws.
void save_compiled(const Content& content, const FileSink& to);
/// Writes a network that was compiled for several targets, or for a single one if `size` is small; the plans must then
/// have Plan::recipes. Throws what the sink throws. Returns one TargetPart for each target.
std::vector<TargetPart> save_targets(std::span<const Content> contents, const FileSink& to,
                                     FileSize size = FileSize::fast);

/// Loads a compiled file of any kind. Of several targets, takes the one that choose_target() returns. Throws io when
/// the file cannot be read, bad_input when it is damaged, any field has an illegal value or its signature is wrong, and
/// unsupported if it has several targets and the processor can run none, naming the features that it lacks for each.
CompiledFile load_compiled(const std::filesystem::path& path, const LoadOptions& options = {},
                           const CpuIdentity& cpu = this_cpu());

/// Loads a compiled file of any kind from bytes that `owner` keeps alive, as load_compiled() does. Errors refer to them
/// as `where`. LoadOptions::signed_by is for files only.
CompiledFile parse_compiled(std::span<const std::byte> bytes, std::shared_ptr<void> owner, const std::string& where,
                            const LoadOptions& options = {}, const CpuIdentity& cpu = this_cpu());

/// Returns the index of the best target for a processor, or -1 if it can run none: one that describes the processor
/// (targets_of()), otherwise the one with the most features, and of equal ones the first.
int64_t choose_target(std::span<const TargetPart> targets, const CpuIdentity& cpu);

/// Returns whether a file starts with the magic of a compiled file of any kind; false when it cannot be read.
bool is_compiled_file(const std::filesystem::path& path);

}  // namespace kilter::vm
