// The compiled file: a plan, its machine code and its packed constants, to be mapped and run without recompiling.
//
// Little-endian. Header of 64 bytes: magic "KILTERC1", u32 format version, u32 number of sections, u64 file size, u64
// hash of section table and meta section, u64 hash of every other byte of the file (file_hash.h), zeros. Then one row
// of {u32 kind, u32 zero, u64 offset, u64 bytes} for each section: meta (the plan's fields in the order of plan.h),
// code and constants (each at a multiple of 4096). Bytes between sections are 0. Equal plans give equal bytes.
//
// A compiled file is machine code: running one from a stranger is running a stranger's program. The hash detects damage
// (flipped bits, lost pages, bytes cut off or added), not malice. Beyond that, the loader promises that no forged file
// crashes it or the set-up of an executor. The file is mapped, so it must not be truncated or overwritten in place
// while it is in use; save_plan() writes a new file and renames it.
#pragma once

#include <filesystem>
#include <memory>
#include <span>

#include "exec/file_container.h"
#include "exec/plan.h"

namespace kilter {

constexpr uint32_t kPlanFormatVersion = 12;

/// Writes a plan to a file. Throws what the sink throws, and internal for a plan that breaks an invariant
/// (plan_check.h).
void save_plan(const Plan& plan, const FileSink& to);

/// Maps a file. The plan's code and constants are the bytes of the mapping. Throws io when the file cannot be read, and
/// bad_input when it is damaged or any field has an illegal value (naming the field, its place, the expected and the
/// actual value).
Plan load_plan(const std::filesystem::path& path, LoadOptions options = {});

/// Loads a plan from bytes that `owner` keeps alive. Errors refer to them as `where`. Constants that do not start at a
/// 64-byte boundary in memory are copied.
Plan parse_plan(std::span<const std::byte> bytes, std::shared_ptr<void> owner, std::string_view where,
                LoadOptions options = {});

/// Returns whether a file starts with the magic of a compiled file; false when it cannot be read.
bool is_plan_file(const std::filesystem::path& path);

}  // namespace kilter
