// Damaged compiled files of programs: loading one and setting up a runner must either succeed or throw an Error. The
// first byte of an input selects what the other bytes are: a whole file, or the meta section of an otherwise valid
// file.
#include <memory>
#include <span>
#include <string>

#include "../base/scratch_folder.h"
#include "../vm/program_models.h"
#include "base/error.h"
#include "file_parts.h"
#include "set_up_program.h"

namespace {

/// A file of a program whose segments have their graphs.
std::string file_of(const kilter::onnx::ModelMaker& maker) {
  kilter::vm::ProgramFile file;
  file.program = kilter::vm::make_program(maker.parse()->open_graph());
  const kilter::OpenGraph& graph = *file.program.graph;
  for (const kilter::ValueId v : graph.inputs) {
    if (!graph.values[static_cast<size_t>(v)].constant)
      file.inputs.push_back({.name = graph.values[static_cast<size_t>(v)].name, .dims = {}});
  }
  for (const auto& output : graph.outputs) file.outputs.push_back({.name = output.name, .dims = {}});
  for (size_t i = 0; i < file.program.segments.size(); ++i)
    file.segments.push_back({.name = "segment", .has_graph = true, .plans = {}});
  const kilter::ScratchFolder folder;
  kilter::vm::save_program(file, folder.path() / "p");
  return kilter::read_file(folder.path() / "p");
}

std::span<const std::string> seeds() {
  static const std::string files[] = {file_of(kilter::onnx::doubling_loop()),  file_of(kilter::onnx::choosing_model()),
                                      file_of(kilter::onnx::scanning_model()), file_of(kilter::onnx::splitting_model()),
                                      file_of(kilter::onnx::picking_model()),  file_of(kilter::onnx::joining_model())};
  return files;
}

void set_up(const std::string& file) {
  try {
    const kilter::LoadOptions forged{.verify = false, .check_meta_hash = false};
    kilter::set_up_program(
        kilter::vm::parse_program(std::as_bytes(std::span(file.data(), file.size())), nullptr, "fuzz", forged));
  } catch (const kilter::Error&) {
    return;
  }
}

}  // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  return kilter::mutate(data, size, max_size, seed, seeds());
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  set_up(kilter::file_of_input(data, size, seeds()));
  return 0;
}
