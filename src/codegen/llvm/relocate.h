// The relocations that position-independent kernels need, by architecture. Used by this folder only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/cpu_info.h"

namespace kilter::codegen {

/// Patches the field at byte `place` of `blob` so that it refers to byte `to`. The blob will be placed at a 4096-byte
/// boundary, so page-relative relocations are legal. Returns "" on success, otherwise the reason: a type that depends
/// on where the blob is placed, or a distance that the field cannot hold.
std::string apply(Arch arch, uint64_t type, std::span<std::byte> blob, int64_t place, int64_t to);

}  // namespace kilter::codegen
