#include <llvm/Analysis/TargetTransformInfo.h>
#include <llvm/Config/llvm-config.h>
#include <llvm/IR/DiagnosticHandler.h>
#include <llvm/IR/DiagnosticInfo.h>
#include <llvm/IR/DiagnosticPrinter.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Verifier.h>
#include <llvm/MC/MCSubtargetInfo.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/CommandLine.h>
#include <llvm/Support/ErrorHandling.h>
#include <llvm/Support/SmallVectorMemoryBuffer.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/Transforms/Scalar.h>
#include <llvm/Transforms/Utils.h>

#include <atomic>
#include <map>
#include <mutex>
#include <thread>

#include "base/cpu_info.h"
#include "codegen/llvm/emitter.h"
#include "codegen/llvm/link.h"
#include "codegen/llvm/llvm_backend.h"

namespace kilter::codegen {
namespace {

const char* const kEntry = "kernel";

/// Throws an error when LLVM would otherwise end the process. LLVM's work is left unfinished.
void on_fatal_error(void* /*data*/, const char* reason, bool /*crash*/) {
  throw Error(ErrorKind::internal, fmt::format("LLVM: {}", reason));
}

/// Sets a boolean option of LLVM's back end that has no other interface, unless the program has already set it.
void set_option(const char* name, const char* value) {
  auto& options = llvm::cl::getRegisteredOptions();
  const auto it = options.find(name);
  if (it != options.end() && it->second->getNumOccurrences() == 0) it->second->addOccurrence(0, name, value);
}

void initialise() {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    LLVMInitializeAArch64TargetInfo();
    LLVMInitializeAArch64Target();
    LLVMInitializeAArch64TargetMC();
    LLVMInitializeAArch64AsmPrinter();
    llvm::install_fatal_error_handler(on_fatal_error);
    // Keep the loop IR's order of statements. LLVM's scheduler before register allocation moves loads up until register
    // tiles spill (a 14x2 tile unrolled by 16 drops from 97 % to 46 % of peak), and it made no kernel faster.
    set_option("enable-misched", "false");
    // Loop strength reduction takes up to half of the compile time and has not changed any kernel's speed.
    set_option("disable-lsr", "true");
    // Scheduling again after register allocation takes a tenth of the code generator's time and has not changed any
    // network's speed (speed set on Zen 5: 0.999 of the time on one thread, 0.998 on two).
    set_option("disable-post-ra", "true");
    // Sinking moves sums into the blocks between the checks of a register tile, but their loads cannot follow, so the
    // tile spills (expansions and depthwise layers of MobileNet-v2 in int8 took up to twice as long).
    set_option("disable-machine-sink", "true");
    // Reassociation adds products of i16 to each other before it adds them to their sum, which takes more registers
    // than a register tile has left.
    set_option("x86-machine-combiner", "false");
  });
}

/// Keeps the first error that LLVM reports instead of printing it.
class Diagnostics : public llvm::DiagnosticHandler {
 public:
  explicit Diagnostics(std::string& first) : first_(first) {}
  bool handleDiagnostics(const llvm::DiagnosticInfo& info) override {
    if (info.getSeverity() == llvm::DS_Error && first_.empty()) {
      llvm::raw_string_ostream stream(first_);
      llvm::DiagnosticPrinterRawOStream printer(stream);
      info.print(printer);
    }
    return true;
  }

 private:
  std::string& first_;
};

std::unique_ptr<llvm::TargetMachine> make_machine(const Target& target) {
  initialise();
  std::string error;
  const llvm::Triple triple(llvm_triple(target.arch));
  const llvm::Target* found = llvm::TargetRegistry::lookupTarget(triple, error);
  if (found == nullptr) fail(ErrorKind::internal, "target '{}': {}", target.name, error);
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  std::unique_ptr<llvm::TargetMachine> machine(found->createTargetMachine(triple, target.cpu, target.features, options,
                                                                          llvm::Reloc::PIC_, llvm::CodeModel::Small,
                                                                          llvm::CodeGenOptLevel::Default));
  require(machine != nullptr, "target '{}': LLVM has no code generator for it", target.name);
  return machine;
}

/// One function on its way through LLVM. Members are destroyed in the order that LLVM requires.
struct Job {
  explicit Job(const LoopFunc& func, const Target& target, llvm::TargetMachine& machine) : module(func.name, context) {
    context.setDiagnosticHandler(std::make_unique<Diagnostics>(error));
    module.setTargetTriple(machine.getTargetTriple());
    module.setDataLayout(machine.createDataLayout());
    module.setPICLevel(llvm::PICLevel::SmallPIC);
    Emitter(module, func, target).emit(kEntry);
    passes.add(llvm::createTargetTransformInfoWrapperPass(machine.getTargetIRAnalysis()));
    passes.add(llvm::createPromoteMemoryToRegisterPass());
    passes.add(llvm::createEarlyCSEPass());
  }

  std::string error;
  llvm::LLVMContext context;
  llvm::Module module;
  llvm::SmallVector<char, 0> object;
  llvm::raw_svector_ostream stream{object};
  llvm::legacy::PassManager passes;
};

/// Runs `work` on a new job. After an error inside LLVM, neither the job nor the machine may be touched again, not even
/// to destroy it: both are abandoned.
template <class F>
auto with_job(const LoopFunc& func, const Target& target, std::unique_ptr<llvm::TargetMachine>& machine, F work) {
  if (machine == nullptr) machine = make_machine(target);
  std::unique_ptr<Job> job;
  try {
    job = std::make_unique<Job>(func, target, *machine);
    return work(*job);
  } catch (Error& e) {
    static_cast<void>(job.release());
    static_cast<void>(machine.release());
    if (e.message().find("'" + func.name + "'") != std::string::npos) throw;
    throw Error(e.kind(), fmt::format("code generation of '{}' for {}: {}", func.name, target.name, e.message()));
  }
}

/// Compiles one function to an object file or to assembly.
std::vector<char> compile_one(const LoopFunc& func, const Target& target, std::unique_ptr<llvm::TargetMachine>& machine,
                              llvm::CodeGenFileType type) {
  return with_job(func, target, machine, [&](Job& job) {
    const bool cannot = machine->addPassesToEmitFile(job.passes, job.stream, nullptr, type);
    require(!cannot, "this target cannot emit files");
    job.passes.run(job.module);
    require(job.error.empty(), "{}", job.error);
    return std::vector<char>(job.object.begin(), job.object.end());
  });
}

/// Returns a target machine owned by this thread; creating one costs more than compiling a small kernel.
std::unique_ptr<llvm::TargetMachine>& machine_of_thread(const Target& target) {
  thread_local std::map<std::string, std::unique_ptr<llvm::TargetMachine>> machines;
  return machines[fmt::format("{}|{}|{}", name(target.arch), target.cpu, target.features)];
}

std::vector<std::vector<char>> compile_all(std::span<const LoopFunc> funcs, const Target& target, int threads) {
  std::vector<std::vector<char>> objects(funcs.size());
  std::vector<std::exception_ptr> errors(funcs.size());
  std::atomic<size_t> next = 0;
  const auto worker = [&] {
    for (size_t i = next++; i < funcs.size(); i = next++) {
      try {
        objects[i] = compile_one(funcs[i], target, machine_of_thread(target), llvm::CodeGenFileType::ObjectFile);
      } catch (...) {
        errors[i] = std::current_exception();
      }
    }
  };
  {
    std::vector<std::jthread> helpers;
    for (size_t t = 1; t < std::min(funcs.size(), static_cast<size_t>(std::max(threads, 1))); ++t) {
      helpers.emplace_back(worker);
    }
    worker();
  }
  for (const std::exception_ptr& e : errors) {
    if (e != nullptr) std::rethrow_exception(e);
  }
  return objects;
}

std::vector<KernelObject> compile_objects(std::span<const LoopFunc> funcs, const Target& target, int threads) {
  initialise();
  std::vector<std::vector<char>> bytes = compile_all(funcs, target, threads);
  std::vector<KernelObject> objects;
  for (size_t i = 0; i < funcs.size(); ++i) objects.push_back({funcs[i].name, std::move(bytes[i])});
  return objects;
}

MachineCode link_objects(std::span<const KernelObject* const> objects, const Target& target) {
  std::vector<Object> all;
  for (const KernelObject* object : objects) all.push_back({object->name, kEntry, object->bytes});
  Linked linked = link(all, target.arch);
  return {std::move(linked.bytes), std::move(linked.entries)};
}

std::vector<std::string> features_used(const Target& target) {
  std::unique_ptr<llvm::TargetMachine>& machine = machine_of_thread(target);
  if (machine == nullptr) machine = make_machine(target);
  const auto has = [&](const std::string& feature) {
    if (feature == sve_length(32) || feature == sve_length(64))
      return feature == sve_length(target.limits.vector_bytes);
    return machine->getMCSubtargetInfo()->checkFeatures("+" + feature);
  };
  std::vector<std::string> used;
  for (const std::string& feature : known_cpu_features(target.arch)) {
    if (has(feature)) used.push_back(feature);
  }
  return used;
}

std::string print_assembly(const LoopFunc& func, const Target& target) {
  initialise();
  const std::vector<char> text =
      compile_one(func, target, machine_of_thread(target), llvm::CodeGenFileType::AssemblyFile);
  return {text.begin(), text.end()};
}

std::string version() { return fmt::format("LLVM {}", LLVM_VERSION_STRING); }

/// Returns the first statement for which no code can be generated for a CPU; nullopt if there is none.
std::optional<Rejected> refuse(const LoopFunc& func, const std::vector<Stmt>& stmts, const CpuLimits& limits) {
  for (const Stmt& s : stmts) {
    if (s->kind == StmtKind::loop && is_bound(s->loop)) {
      return Rejected{"loops", "serial, unrolled and vector",
                      fmt::format("'{}' bound to {}", func.vars.at(static_cast<size_t>(s->id)).name, name(s->loop))};
    }
    if (s->kind == StmtKind::barrier) return Rejected{"barriers", "none", "one"};
    if (is_tile(s->kind) && !limits.bf16_tiles && !limits.byte_tiles)
      return Rejected{"tile registers", "none on a target without AMX", "some"};
    if (s->kind == StmtKind::tile_dot) {
      const bool bf16 = func.tiles.at(static_cast<size_t>(s->tiles.at(1))).type == DType::bf16;
      if (bf16 ? !limits.bf16_tiles : !limits.byte_tiles)
        return Rejected{"products of tile registers", bf16 ? "bytes (AMX-INT8)" : "bf16 (AMX-BF16)",
                        bf16 ? "bf16" : "bytes"};
    }
    for (const std::vector<Stmt>* inner : {&s->body, &s->other}) {
      if (auto rejected = refuse(func, *inner, limits)) return rejected;
    }
  }
  return std::nullopt;
}

std::optional<Rejected> accepts(const LoopFunc& func, const Target& target) {
  for (const Buffer& b : func.buffers) {
    if (b.space != MemorySpace::global)
      return Rejected{"memory of buffers", "global", fmt::format("'{}' in {} memory", b.name, name(b.space))};
  }
  return refuse(func, func.body, target.limits);
}

}  // namespace

const Backend kLlvmBackend = {.name = "llvm",
                              .device = "cpu",
                              .version = version,
                              .revision = 2,
                              .accepts = accepts,
                              .compile = compile_objects,
                              .link = link_objects,
                              .source = print_assembly,
                              .features = features_used};

const char* llvm_triple(Arch arch) {
  return arch == Arch::x86_64 ? "x86_64-unknown-linux-gnu" : "aarch64-unknown-linux-gnu";
}

std::string print_llvm(const LoopFunc& func, const Target& target) {
  return with_job(func, target, machine_of_thread(target), [&](Job& job) {
    std::string text;
    llvm::raw_string_ostream stream(text);
    if (llvm::verifyModule(job.module, &stream)) fail(ErrorKind::internal, "invalid LLVM IR: {}", text);
    job.passes.run(job.module);
    job.module.print(stream, nullptr);
    return text;
  });
}

}  // namespace kilter::codegen
