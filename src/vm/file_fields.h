// Shared by the kinds of compiled files: pools of code and constants, and plans and programs as fields. Used by this
// folder only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "exec/fields.h"
#include "exec/file_container.h"
#include "vm/program_file.h"
#include "vm/small_file.h"

namespace kilter::vm {

/// Code or constants of a file that is being written. Equal bytes are stored once.
class Pool {
 public:
  /// Returns the offset of the bytes, a multiple of 64.
  int64_t put(std::span<const std::byte> bytes);
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
  std::multimap<uint64_t, std::pair<int64_t, size_t>> places_;  ///< by hash: offset, size
};

struct FilePools {
  Pool code, constants;
};

/// The parts of a file's sections that one network uses, as offset and size.
struct UsedBytes {
  std::set<std::pair<int64_t, int64_t>> code, constants;

  /// The hash of all of them.
  uint64_t hash(std::span<const std::byte> code_section, std::span<const std::byte> constants_section) const;
  static int64_t total(const std::set<std::pair<int64_t, int64_t>>& parts);
};

struct Writer : FieldWriter {
  explicit Writer(FilePools& file) : pools(file) {}

  /// Writes where code or constants are.
  void code(std::span<const std::byte> data, const char* what);
  void constants(std::span<const std::byte> data, const char* what);
  /// Adds constants and returns their offset.
  int64_t put_constants(std::span<const std::byte> data);

  FilePools& pools;
  UsedBytes used;
  /// The tensors that a small file stores in place of constants of plans. Null: the file is not small.
  const Sources* sources = nullptr;
  MemoryLayout layout;                 ///< of a small file
  std::vector<StoredConstant> stored;  ///< of a small file: the constants of plans
};

struct Reader : FieldReader {
  Reader(const FileSections& of, std::shared_ptr<void> keeper, std::string_view file)
      : FieldReader(of.meta, file), sections(of), owner(std::move(keeper)), where(file) {}

  std::span<const std::byte> code(const char* what) { return bytes(sections.code, used.code, what); }
  std::span<const std::byte> constants(const char* what) { return bytes(sections.constants, used.constants, what); }

  FileSections sections;
  std::optional<Unpacked> unpacked = {};  ///< of a small file: the constants of plans
  std::shared_ptr<void> owner;
  std::string_view where;
  UsedBytes used;

 private:
  std::span<const std::byte> bytes(std::span<const std::byte> section, std::set<std::pair<int64_t, int64_t>>& parts,
                                   const char* what);
};

/// A plan whose code and constants are in the file's sections.
void plan_fields(Writer& io, const Plan& plan);
void plan_fields(Reader& io, Plan& plan);

/// A program; reading checks it.
void program_fields(Writer& io, const ProgramFile& file);
ProgramFile program_fields(Reader& io);

}  // namespace kilter::vm
