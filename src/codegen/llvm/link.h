// Lays out the code and constants of relocatable ELF objects in one position-independent blob.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/cpu_info.h"

namespace kilter::codegen {

struct Object {
  std::string name;   ///< for messages
  std::string entry;  ///< symbol whose offset is returned
  std::span<const char> bytes;
};

struct Linked {
  std::vector<std::byte> bytes;
  std::vector<int64_t> entries;  ///< offset of each object's entry symbol
};

/// Places the code of all objects first, then their constants. Only relocations relative to the patched place, or to
/// its 4096-byte page, are legal (relocate.h), and only against sections of the same object. An undefined symbol,
/// writable data or an absolute address is an internal error that names the object and the symbol or section.
Linked link(std::span<const Object> objects, Arch arch);

}  // namespace kilter::codegen
