// The meta section of a compiled file of any kind (exec/file_container.h), and replacing it with a different one.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace kilter {

constexpr size_t kFileHeaderBytes = 64;

/// A row of the table after the header.
struct SectionRow {
  uint64_t id = 0, at = 0, bytes = 0;
};
using SectionTable = std::array<SectionRow, 3>;  ///< meta, code, constants
constexpr size_t kMetaAt = kFileHeaderBytes + sizeof(SectionTable);

inline SectionTable sections_of(const std::string& file) {
  SectionTable table;
  std::memcpy(&table, file.data() + kFileHeaderBytes, sizeof(table));
  return table;
}

inline std::string meta_of(const std::string& file) { return file.substr(kMetaAt, sections_of(file)[0].bytes); }

/// Moves the code and the constants to the end of a meta section of a different size. Hashes do not change, and are
/// then wrong.
inline std::string with_meta(const std::string& file, std::string_view meta) {
  constexpr size_t kPage = 4096;
  constexpr size_t kFileBytesAt = 16;
  SectionTable table = sections_of(file);
  const SectionTable old = table;
  const auto page = [](uint64_t bytes) { return (bytes + kPage - 1) / kPage * kPage; };
  table[0].bytes = meta.size();
  table[1].at = page(kMetaAt + meta.size());
  table[2].at = page(table[1].at + table[1].bytes);
  std::string made = file.substr(0, kMetaAt);
  const uint64_t bytes = table[2].at + table[2].bytes;
  std::memcpy(made.data() + kFileBytesAt, &bytes, sizeof(bytes));
  std::memcpy(made.data() + kFileHeaderBytes, &table, sizeof(table));
  made += meta;
  for (const size_t section : {1U, 2U}) {
    made.resize(table[section].at, '\0');
    made.append(file, old[section].at, old[section].bytes);
  }
  return made;
}

/// The custom mutator for inputs whose first byte is 0 for a whole file, and otherwise selects a seed: the other bytes
/// are then the meta section, and the code and constants are those of the seed. An input of less than two bytes becomes
/// a seed, or its meta section.
inline size_t mutate(uint8_t* data, size_t size, size_t max_size, unsigned seed, std::span<const std::string> seeds) {
  if (size >= 2) return LLVMFuzzerMutate(data, size, max_size);
  const size_t index = seed % seeds.size();
  const bool whole = seed % 4 == 0;
  std::string start(1, static_cast<char>(whole ? 0 : 1 + index));
  start += whole ? seeds[index] : meta_of(seeds[index]);
  const size_t taken = std::min(start.size(), max_size);
  std::memcpy(data, start.data(), taken);
  return taken;
}

/// The file that an input describes.
inline std::string file_of_input(const uint8_t* data, size_t size, std::span<const std::string> seeds) {
  const std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  return data[0] == 0 ? std::string(rest) : with_meta(seeds[(data[0] - 1U) % seeds.size()], rest);
}

}  // namespace kilter
