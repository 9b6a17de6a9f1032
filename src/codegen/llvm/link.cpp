#include "codegen/llvm/link.h"

#include <elf.h>

#include <cstring>
#include <string_view>

#include "base/align.h"
#include "base/error.h"
#include "codegen/llvm/relocate.h"

namespace kilter::codegen {
namespace {

/// Reads the tables of one object. Checks every offset against the object's size.
class Reader {
 public:
  Reader(const Object& object, Arch arch) : object_(object) {
    const auto header = read<Elf64_Ehdr>(0);
    const int machine = arch == Arch::x86_64 ? EM_X86_64 : EM_AARCH64;
    if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_machine != machine || header.e_type != ET_REL) {
      broken(fmt::format("not a relocatable {} object", kilter::name(arch)));
    }
    for (uint64_t i = 0; i < header.e_shnum; ++i) {
      sections.push_back(read<Elf64_Shdr>(header.e_shoff + i * header.e_shentsize));
    }
    names_ = header.e_shstrndx;
  }

  std::vector<Elf64_Shdr> sections;

  template <class T>
  T read(uint64_t at) const {
    T value;
    std::memcpy(&value, bytes(at, sizeof value), sizeof value);
    return value;
  }
  const char* bytes(uint64_t at, uint64_t size) const {
    if (at > object_.bytes.size() || size > object_.bytes.size() - at) broken("a table reaches beyond the end");
    return object_.bytes.data() + at;
  }
  std::string_view name(const Elf64_Shdr& section) const { return string(names_, section.sh_name); }
  std::string_view string(uint64_t table, uint64_t at) const {
    const Elf64_Shdr& strings = sections.at(table);
    if (at >= strings.sh_size) broken("a name is outside its table");
    const char* start = bytes(strings.sh_offset + at, strings.sh_size - at);
    return {start, strnlen(start, strings.sh_size - at)};
  }
  template <class T>
  std::vector<T> table(const Elf64_Shdr& section) const {
    std::vector<T> rows;
    for (uint64_t at = 0; at + sizeof(T) <= section.sh_size; at += sizeof(T)) {
      rows.push_back(read<T>(section.sh_offset + at));
    }
    return rows;
  }
  [[noreturn]] void broken(std::string_view what) const {
    fail(ErrorKind::internal, "linking '{}': {}", object_.name, what);
  }

 private:
  const Object& object_;
  uint64_t names_ = 0;
};

constexpr int64_t kNotPlaced = -1;
/// Fills the space between functions: a jump there traps immediately (int3; udf #0).
constexpr std::byte trap(Arch arch) { return arch == Arch::x86_64 ? std::byte{0xcc} : std::byte{0}; }

class Linker {
 public:
  Linker(std::span<const Object> objects, Arch arch) : objects_(objects), arch_(arch) {
    for (const Object& o : objects) {
      readers_.emplace_back(o, arch);
      places_.emplace_back(readers_.back().sections.size(), kNotPlaced);
    }
  }

  Linked run() {
    for (const bool code : {true, false}) {
      for (size_t i = 0; i < objects_.size(); ++i) place(i, code);
    }
    for (size_t i = 0; i < objects_.size(); ++i) {
      relocate(i);
      result_.entries.push_back(entry(i));
    }
    return std::move(result_);
  }

 private:
  void place(size_t object, bool code) {
    const Reader& r = readers_[object];
    for (size_t s = 0; s < r.sections.size(); ++s) {
      const Elf64_Shdr& section = r.sections[s];
      if ((section.sh_flags & SHF_ALLOC) == 0 || section.sh_size == 0) continue;
      if (section.sh_type != SHT_PROGBITS) continue;  // unwind tables have a type of their own
      if ((section.sh_flags & (SHF_WRITE | SHF_TLS)) != 0) {
        r.broken(fmt::format("section '{}' is writable data, which kernels must not have", r.name(section)));
      }
      if (((section.sh_flags & SHF_EXECINSTR) != 0) != code) continue;
      const uint64_t align = section.sh_addralign > 1 ? section.sh_addralign : 1;
      const size_t at = round_up(result_.bytes.size(), align);
      result_.bytes.resize(at, code ? trap(arch_) : std::byte{0});
      const auto* from = reinterpret_cast<const std::byte*>(r.bytes(section.sh_offset, section.sh_size));
      result_.bytes.insert(result_.bytes.end(), from, from + section.sh_size);
      places_[object][s] = static_cast<int64_t>(at);
    }
  }

  /// Returns the blob offset of a symbol that the object itself defines.
  int64_t address(size_t object, const Elf64_Sym& symbol, std::string_view symbol_name) const {
    const Reader& r = readers_[object];
    if (symbol.st_shndx == SHN_UNDEF) {
      r.broken(fmt::format("undefined symbol '{}': kernels must not call functions", symbol_name));
    }
    if (symbol.st_shndx >= r.sections.size() || places_[object][symbol.st_shndx] == kNotPlaced) {
      r.broken(fmt::format("symbol '{}' is not in a section of code or constants", symbol_name));
    }
    return places_[object][symbol.st_shndx] + static_cast<int64_t>(symbol.st_value);
  }

  void relocate(size_t object) {
    const Reader& r = readers_[object];
    for (const Elf64_Shdr& section : r.sections) {
      if (section.sh_type != SHT_RELA) continue;
      const int64_t target = places_[object].at(section.sh_info);
      if (target == kNotPlaced) continue;
      const Elf64_Shdr& table = r.sections.at(section.sh_link);
      const std::vector<Elf64_Sym> symbols = r.table<Elf64_Sym>(table);
      for (const Elf64_Rela& rela : r.table<Elf64_Rela>(section)) {
        const Elf64_Sym& symbol = symbols.at(ELF64_R_SYM(rela.r_info));
        const std::string_view name = r.string(table.sh_link, symbol.st_name);
        const int64_t place = target + static_cast<int64_t>(rela.r_offset);
        const int64_t to = address(object, symbol, name) + rela.r_addend;
        const std::string wrong = apply(arch_, ELF64_R_TYPE(rela.r_info), result_.bytes, place, to);
        if (!wrong.empty()) r.broken(fmt::format("'{}': {}", name, wrong));
      }
    }
  }

  int64_t entry(size_t object) const {
    const Reader& r = readers_[object];
    for (const Elf64_Shdr& section : r.sections) {
      if (section.sh_type != SHT_SYMTAB) continue;
      for (const Elf64_Sym& symbol : r.table<Elf64_Sym>(section)) {
        const std::string_view name = r.string(section.sh_link, symbol.st_name);
        if (name == objects_[object].entry) return address(object, symbol, name);
      }
    }
    r.broken(fmt::format("no symbol '{}'", objects_[object].entry));
  }

  std::span<const Object> objects_;
  Arch arch_;
  std::vector<Reader> readers_;
  std::vector<std::vector<int64_t>> places_;  ///< offset in the blob, by object and section
  Linked result_;
};

}  // namespace

Linked link(std::span<const Object> objects, Arch arch) { return Linker(objects, arch).run(); }

}  // namespace kilter::codegen
