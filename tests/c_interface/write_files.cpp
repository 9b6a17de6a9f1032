// Writes the compiled files that the C programs of this folder run: plan.kilter, long.kilter, double.kilter,
// program.kilter and maps.kilter, and a signature of the first.
// usage: c_interface_files FOLDER
#include <cstdio>
#include <filesystem>

#include "../exec/test_plans.h"
#include "base/error.h"
#include "exec/plan_file.h"
#include "exec/signature.h"
#include "vm/program_file.h"

namespace kilter {
namespace {

/// A program without instructions, which returns its inputs.
vm::ProgramFile passing_on(std::vector<vm::FilePort> inputs) {
  auto graph = std::make_shared<OpenGraph>();
  graph->name = "passing_on";
  vm::ProgramFile file;
  file.model = graph->name;
  file.inputs = std::move(inputs);
  file.outputs = file.inputs;
  for (vm::FilePort& port : file.outputs) {
    const auto value = static_cast<ValueId>(graph->values.size());
    graph->values.push_back({port.name, std::nullopt});
    graph->inputs.push_back(value);
    graph->outputs.push_back({port.name, value, {port.kind, port.type, port.dims}});
    port.name += "_out";
  }
  graph->own_inputs = graph->inputs.size();
  file.program = {graph, {{graph.get(), {}, {}}}, {}};
  return file;
}

using Kind = DeclaredType::Kind;

vm::ProgramFile passing_values() {
  return passing_on({{"texts", Kind::tensor, false, DType::string, Shape{-1}},
                     {"list", Kind::sequence, false, DType::f32, std::nullopt},
                     {"maybe", Kind::optional, false, DType::f32, Shape{2}}});
}

vm::ProgramFile passing_maps() {
  vm::FilePort scores{"scores", Kind::map, false, DType::f32, Shape{}};
  vm::FilePort rows{"rows", Kind::sequence, false, DType::f32, Shape{}};
  scores.key = DType::string, rows.key = DType::i64;
  return passing_on({scores, rows});
}

/// y = 2 * x on 4 floats.
Plan doubling() {
  Plan plan = test_plan();
  plan.inputs = {{"x", DType::f32, {4}}};
  plan.outputs = {{"y", DType::f32, {4}}};
  plan.steps = {kernel_step(kDouble, {input(0, 16), output(0, 16)}, 4)};
  return plan;
}

/// Signs a file with a new key, whose public part is "signer.public", if libsodium is installed.
void sign_with_new_key(const std::filesystem::path& file) {
  const std::filesystem::path secret = file.parent_path() / "signer.secret", key = file.parent_path() / "signer.public";
  std::filesystem::remove(secret);
  std::filesystem::remove(key);
  try {
    write_keys(secret, key);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::unsupported) throw;
    return;
  }
  sign_file(file, read_secret_key(secret));
}

}  // namespace
}  // namespace kilter

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  try {
    const std::filesystem::path folder = argv[1];
    kilter::save_plan(kilter::arithmetic_plan(100), folder / "plan.kilter");
    kilter::sign_with_new_key(folder / "plan.kilter");
    kilter::save_plan(kilter::arithmetic_plan(100000), folder / "long.kilter");
    kilter::save_plan(kilter::doubling(), folder / "double.kilter");
    kilter::vm::save_program(kilter::passing_values(), folder / "program.kilter");
    kilter::vm::save_program(kilter::passing_maps(), folder / "maps.kilter");
  } catch (const kilter::Error& error) {
    std::fprintf(stderr, "c_interface_files: %s\n", error.what());
    return 1;
  }
  return 0;
}
