#include "codegen/disassemble.h"

#include <fmt/format.h>
#include <llvm/MC/MCAsmInfo.h>
#include <llvm/MC/MCContext.h>
#include <llvm/MC/MCDisassembler/MCDisassembler.h>
#include <llvm/MC/MCInst.h>
#include <llvm/MC/MCInstPrinter.h>
#include <llvm/MC/MCInstrAnalysis.h>
#include <llvm/MC/MCInstrInfo.h>
#include <llvm/MC/MCRegisterInfo.h>
#include <llvm/MC/MCSubtargetInfo.h>
#include <llvm/MC/MCTargetOptions.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/raw_ostream.h>

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <set>

#include "base/error.h"
#include "codegen/llvm/llvm_backend.h"

namespace kilter {
namespace {

void initialise() {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86Disassembler();
    LLVMInitializeAArch64TargetInfo();
    LLVMInitializeAArch64TargetMC();
    LLVMInitializeAArch64Disassembler();
  });
}

/// LLVM's tables for one target.
class Decoder {
 public:
  explicit Decoder(const Target& target) : triple_(codegen::llvm_triple(target.arch)) {
    initialise();
    std::string error;
    const llvm::Target* found = llvm::TargetRegistry::lookupTarget(triple_, error);
    if (found == nullptr) fail(ErrorKind::internal, "target '{}': {}", target.name, error);
    registers_.reset(found->createMCRegInfo(triple_));
    info_.reset(found->createMCAsmInfo(*registers_, triple_, llvm::MCTargetOptions()));
    subtarget_.reset(found->createMCSubtargetInfo(triple_, target.cpu, target.features));
    instructions_.reset(found->createMCInstrInfo());
    analysis_.reset(found->createMCInstrAnalysis(instructions_.get()));
    context_ = std::make_unique<llvm::MCContext>(triple_, info_.get(), registers_.get(), subtarget_.get());
    disassembler_.reset(found->createMCDisassembler(*subtarget_, *context_));
    const unsigned syntax = triple_.isX86() ? 1 : info_->getAssemblerDialect();  // x86: Intel's
    printer_.reset(found->createMCInstPrinter(triple_, syntax, *info_, *instructions_, *registers_));
    require(disassembler_ != nullptr && printer_ != nullptr, "target '{}': LLVM has no disassembler for it",
            target.name);
  }

  Instruction decode(std::span<const std::byte> code, int64_t offset) {
    const llvm::ArrayRef<uint8_t> bytes(reinterpret_cast<const uint8_t*>(code.data()) + offset,
                                        code.size() - static_cast<size_t>(offset));
    llvm::MCInst inst;
    uint64_t size = 0;
    const auto at = static_cast<uint64_t>(offset);
    const auto status = disassembler_->getInstruction(inst, size, bytes, at, llvm::nulls());
    require(status == llvm::MCDisassembler::Success, "the bytes at offset {:#x} are not an instruction of this target",
            offset);
    Instruction out{.offset = offset, .bytes = static_cast<int32_t>(size), .text = text_of(inst, at)};
    const llvm::MCInstrDesc& desc = instructions_->get(inst.getOpcode());
    out.ends = desc.isReturn() || desc.isUnconditionalBranch();
    out.loads = desc.mayLoad(), out.stores = desc.mayStore();
    uint64_t target = 0;
    if (desc.isBranch()) {
      require(analysis_->evaluateBranch(inst, at, size, target), "the branch at offset {:#x} has no fixed target",
              offset);
      out.target = static_cast<int64_t>(target);
    }
    for (const llvm::MCOperand& operand : inst) {
      if (!operand.isReg() || !is_vector(operand.getReg())) continue;
      out.registers.push_back(registers_->getEncodingValue(operand.getReg()));
    }
    return out;
  }

 private:
  bool is_vector(llvm::MCRegister reg) const {
    const std::string_view name = reg.isValid() ? registers_->getName(reg) : "";
    if (triple_.isX86()) return name.starts_with("XMM") || name.starts_with("YMM") || name.starts_with("ZMM");
    return name.starts_with("Q") || name.starts_with("D") || name.starts_with("V");
  }

  std::string text_of(const llvm::MCInst& inst, uint64_t address) {
    std::string text;
    llvm::raw_string_ostream stream(text);
    printer_->printInst(&inst, address, "", *subtarget_, stream);
    std::string out;
    for (char c : text) {
      if (c == '\t') c = ' ';
      if (c != ' ' || (!out.empty() && out.back() != ' ')) out += c;
    }
    return out;
  }

  llvm::Triple triple_;
  std::unique_ptr<llvm::MCRegisterInfo> registers_;
  std::unique_ptr<llvm::MCAsmInfo> info_;
  std::unique_ptr<llvm::MCSubtargetInfo> subtarget_;
  std::unique_ptr<llvm::MCInstrInfo> instructions_;
  std::unique_ptr<llvm::MCInstrAnalysis> analysis_;
  std::unique_ptr<llvm::MCContext> context_;
  std::unique_ptr<llvm::MCDisassembler> disassembler_;
  std::unique_ptr<llvm::MCInstPrinter> printer_;
};

bool starts_with_any(std::string_view text, std::initializer_list<std::string_view> starts) {
  return std::any_of(starts.begin(), starts.end(), [&](std::string_view s) { return text.starts_with(s); });
}

/// Separate multiplications and additions, counted for machines without multiply-add instructions.
struct Products {
  int32_t products = 0, sums = 0;
};

void count(InnerLoop& loop, Products& apart, const Instruction& i) {
  ++loop.instructions;
  if (starts_with_any(i.text, {"prefetch", "prfm"})) {
    ++loop.prefetches;
    return;
  }
  const bool stack = i.text.find("[rsp") != std::string::npos || i.text.find("[sp") != std::string::npos;
  loop.fmas += starts_with_any(i.text, {"vfmadd", "vfmsub", "vfnmadd", "vfnmsub", "fmla", "fmadd", "vdpbf16",
                                        "vpdpbusd", "tdp", "bfdot", "usdot"})
                   ? 1
                   : 0;
  apart.products += starts_with_any(i.text, {"mulps", "mulss"}) ? 1 : 0;
  apart.sums += starts_with_any(i.text, {"addps", "addss"}) ? 1 : 0;
  loop.loads += i.loads ? 1 : 0;
  loop.stores += i.stores ? 1 : 0;
  loop.stack += stack ? 1 : 0;
  const bool spread = i.text.find("{1to") != std::string::npos || starts_with_any(i.text, {"vbroadcast", "ld1r"});
  loop.broadcasts += spread && i.loads ? 1 : 0;
}

std::map<int64_t, std::string> labels(const std::vector<Instruction>& code) {
  std::map<int64_t, std::string> all;
  for (const Instruction& i : code) {
    if (i.target) all[*i.target];
  }
  size_t number = 0;
  for (auto& [offset, label] : all) label = fmt::format(".L{}", number++);
  return all;
}

}  // namespace

std::vector<Instruction> disassemble(std::span<const std::byte> code, int64_t entry, const Target& target) {
  Decoder decoder(target);
  std::map<int64_t, Instruction> found;
  std::vector<int64_t> starts{entry};
  while (!starts.empty()) {
    int64_t at = starts.back();
    starts.pop_back();
    while (!found.contains(at)) {
      require(at >= 0 && at < static_cast<int64_t>(code.size()),
              "code runs on to offset {:#x}, beyond its end at {:#x}", at, code.size());
      const Instruction& i = found.emplace(at, decoder.decode(code, at)).first->second;
      if (i.target) starts.push_back(*i.target);
      if (i.ends) break;
      at += i.bytes;
    }
  }
  std::vector<Instruction> all;
  for (auto& [offset, instruction] : found) all.push_back(std::move(instruction));
  return all;
}

std::vector<InnerLoop> inner_loops(const std::vector<Instruction>& code) {
  std::vector<InnerLoop> all;
  for (const Instruction& i : code) {
    if (!i.target || *i.target > i.offset) continue;
    const auto inside = [&](const Instruction& other) {
      return other.target && *other.target <= other.offset && other.offset < i.offset && *other.target >= *i.target;
    };
    if (std::any_of(code.begin(), code.end(), inside)) continue;
    all.push_back({.begin = *i.target, .end = i.offset});
  }
  for (InnerLoop& loop : all) {
    std::set<int32_t> registers;
    Products apart;
    for (const Instruction& i : code) {
      if (i.offset < loop.begin || i.offset > loop.end) continue;
      count(loop, apart, i);
      registers.insert(i.registers.begin(), i.registers.end());
    }
    if (loop.fmas == 0) loop.fmas = std::min(apart.products, apart.sums);
    loop.registers = static_cast<int32_t>(registers.size());
  }
  return all;
}

std::string listing(const std::vector<Instruction>& code) {
  const std::map<int64_t, std::string> names = labels(code);
  std::string out;
  for (const Instruction& i : code) {
    if (const auto label = names.find(i.offset); label != names.end()) out += label->second + ":\n";
    const std::string text = i.target ? i.text.substr(0, i.text.find(' ')) + " " + names.at(*i.target) : i.text;
    out += fmt::format("  {:6x}  {}\n", i.offset, text);
  }
  return out;
}

}  // namespace kilter
