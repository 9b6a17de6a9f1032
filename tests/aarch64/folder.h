// Compiled files that run elsewhere: they are written to a folder with their inputs, run by one process, and their
// outputs are compared.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "../base/scratch_folder.h"
#include "compile/compile.h"
#include "ops/op.h"

namespace kilter {

/// The command that runs a program of runner/ on an AArch64 processor, "qemu-aarch64 ... run_folder"; empty when
/// KILTER_AARCH64_BIN (see run.sh) is not set.
std::string arm_command(const std::string& program);

/// The networks of one test, with their inputs and expected outputs.
class Folder {
 public:
  /// `where` names the network in messages; `want` contains the outputs of the reference kernels.
  void add(std::string where, const Plan& plan, const std::vector<Tensor>& inputs, std::vector<Tensor> want,
           const Tolerance& tolerance);
  size_t size() const { return entries_.size(); }
  /// Runs all of them. Returns one message for each wrong result and for a runner that fails.
  std::vector<std::string> run();

 private:
  struct Entry {
    std::string where;
    std::vector<PlanTensor> outputs;
    std::vector<Tensor> want;
    Tolerance tolerance;
  };
  std::filesystem::path file(size_t i, const char* extension) const;
  std::string check(size_t i) const;

  ScratchFolder scratch_;
  std::vector<Entry> entries_;
};

}  // namespace kilter
