// Damaged models: parsing, and binding with every unknown dimension set to 2, must either succeed or throw an Error
// that is not internal, and so must dividing a network that is not one static graph into a program. The inputs are
// models of a few nodes that cover every operator, mutated as bytes and as models.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>

#include "base/error.h"
#include "fuzz_onnx_seeds.h"
#include "model_mutator.h"
#include "onnx/model.h"
#include "ops/support/builder.h"
#include "vm/program.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  const unsigned choice = seed % 16;
  std::string made;
  if (size < 2 || choice == 0) {
    made = kilter::onnx::seed_model(seed / 16);
  } else if (choice < 12) {
    made = kilter::onnx::mutate_model(std::string(reinterpret_cast<const char*>(data), size), seed / 16);
  }
  if (made.empty() || made.size() > max_size) return LLVMFuzzerMutate(data, size, max_size);
  std::memcpy(data, made.data(), made.size());
  return made.size();
}

namespace {

using kilter::onnx::Model;

void bind(const Model& model) {
  Model::Shapes shapes;
  for (const auto& port : model.inputs()) {
    kilter::Shape& shape = shapes[port.name];
    for (const auto& dim : port.dims.value_or(std::vector<kilter::onnx::Dim>(2))) shape.push_back(dim.size.value_or(2));
  }
  Model::Values values;
  for (int round = 0; round < 3; ++round) {
    const auto needed = model.value_inputs(shapes, values);
    if (needed.empty()) break;
    for (const auto& port : model.inputs()) {
      if (std::find(needed.begin(), needed.end(), port.name) == needed.end()) continue;
      values[port.name] = kilter::Tensor(port.type, shapes.at(port.name));
    }
  }
  kilter::verify(model.bind(shapes, values));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const auto model = Model::parse(std::as_bytes(std::span(data, size)), "fuzz.onnx");
    model->missing();
    try {
      bind(*model);
    } catch (const kilter::NeedsProgram&) {
      kilter::vm::text(kilter::vm::make_program(model->open_graph()));
    }
  } catch (const kilter::Error& error) {
    if (error.kind() == kilter::ErrorKind::internal) {
      std::fprintf(stderr, "internal error: %s\n", error.what());
      std::abort();
    }
  }
  return 0;
}
