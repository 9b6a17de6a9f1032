// Damaged compiled files of programs: loading one and setting up a runner must either succeed or throw an Error. The
// first byte of an input selects what the other bytes are: a whole file, or the meta section of an otherwise valid
// file.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>

#include "../base/scratch_folder.h"
#include "../vm/program_models.h"
#include "base/error.h"
#include "exec/thread_pool.h"
#include "vm/file_runner.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace {

constexpr size_t kHeaderBytes = 64;
constexpr size_t kMetaAt = kHeaderBytes + 72;
constexpr size_t kPage = 4096;

void put(std::string& out, size_t at, uint64_t value, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) out[at + i] = static_cast<char>(value >> (8 * i) & 0xff);
}

uint64_t get(const std::string& from, size_t at) {
  uint64_t value = 0;
  for (size_t i = 0; i < 8; ++i) value |= uint64_t{static_cast<unsigned char>(from[at + i])} << (8 * i);
  return value;
}

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

const std::string& seed_file(unsigned seed) {
  static const std::string files[] = {file_of(kilter::onnx::doubling_loop()),  file_of(kilter::onnx::choosing_model()),
                                      file_of(kilter::onnx::scanning_model()), file_of(kilter::onnx::splitting_model()),
                                      file_of(kilter::onnx::picking_model()),  file_of(kilter::onnx::joining_model())};
  return files[seed % std::size(files)];
}

/// The seed's file with another meta section.
std::string file_around(std::string_view meta, unsigned seed) {
  const std::string& whole = seed_file(seed);
  const std::string constants = whole.substr(get(whole, kHeaderBytes + 56));
  const size_t code_at = (kMetaAt + meta.size() + kPage - 1) / kPage * kPage;
  std::string file = whole.substr(0, kMetaAt);
  put(file, 16, code_at + constants.size(), 8);
  put(file, kHeaderBytes + 16, meta.size(), 8);
  put(file, kHeaderBytes + 32, code_at, 8);
  put(file, kHeaderBytes + 40, 0, 8);  // no code
  put(file, kHeaderBytes + 56, code_at, 8);
  file += meta;
  file.resize(code_at, '\0');
  return file + constants;
}

void set_up(const std::string& file) {
  try {
    const kilter::LoadOptions forged{.verify = false, .check_meta_hash = false};
    auto program =
        kilter::vm::parse_program(std::as_bytes(std::span(file.data(), file.size())), nullptr, "fuzz", forged);
    constexpr int64_t kMostBytes = 1 << 20;
    for (const auto& segment : program.segments) {
      for (const kilter::Plan& plan : segment.plans) {
        if (std::max(plan.arena_bytes, plan.scratch_bytes) > kMostBytes) return;
      }
    }
    kilter::vm::FileRunner(std::make_shared<kilter::vm::FileProgram>(std::move(program)),
                           std::make_shared<kilter::ThreadPool>(1));
  } catch (const kilter::Error&) {
    return;
  }
}

}  // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  if (size >= 2) return LLVMFuzzerMutate(data, size, max_size);
  const std::string& whole = seed_file(seed);
  const auto kind = static_cast<char>(seed % 4 == 0 ? 0 : 1 + seed % 6);
  const std::string start = kind + (kind == 0 ? whole : whole.substr(kMetaAt, get(whole, kHeaderBytes + 16)));
  const size_t taken = std::min(start.size(), max_size);
  std::memcpy(data, start.data(), taken);
  return taken;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  const std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  set_up(data[0] == 0 ? std::string(rest) : file_around(rest, data[0] - 1U));
  return 0;
}
