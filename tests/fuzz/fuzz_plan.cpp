// Damaged compiled files: loading one and setting up an executor must either succeed or throw an Error. The first byte
// of an input selects what the other bytes are: a whole file, or the meta section of an otherwise valid file.
#include "../base/scratch_folder.h"
#include "exec/plan_file.h"
#include "file_parts.h"
#include "run_checked.h"
#include "test_plans.h"

namespace {

std::string file_of(const kilter::Plan& plan) {
  const kilter::ScratchFolder folder;
  kilter::save_plan(plan, folder.path() / "p");
  return kilter::read_file(folder.path() / "p");
}

std::span<const std::string> seeds() {
  static const std::string files[] = {file_of(kilter::steps_plan()), file_of(kilter::arithmetic_plan(16))};
  return files;
}

}  // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  return kilter::mutate(data, size, max_size, seed, seeds());
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  const std::string file = kilter::file_of_input(data, size, seeds());
  kilter::run_checked(std::as_bytes(std::span(file.data(), file.size())));
  return 0;
}
