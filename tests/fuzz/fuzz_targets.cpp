// Damaged compiled files for several targets: loading one and setting up the plan or program of its target must either
// succeed or throw an Error. The first byte of an input selects what the other bytes are: a whole file, or the meta
// section of an otherwise valid file.
#include <memory>
#include <variant>
#include <vector>

#include "../base/scratch_folder.h"
#include "file_parts.h"
#include "run_checked.h"
#include "set_up_program.h"
#include "test_plans.h"
#include "vm/compiled_file.h"

namespace {

kilter::Plan plan_for(kilter::Plan plan, const char* target) {
  plan.target = target;
  return plan;
}

/// A program without instructions, which returns its input.
kilter::vm::ProgramFile passing_on(const char* target) {
  auto graph = std::make_shared<kilter::OpenGraph>();
  kilter::vm::ProgramFile file;
  file.model = graph->name = "passing_on";
  file.target = target;
  file.inputs = {{.name = "x", .dims = kilter::Shape{-1}}};
  file.outputs = {{.name = "y", .dims = kilter::Shape{-1}}};
  graph->values.push_back({"x", std::nullopt});
  graph->inputs.push_back(0);
  graph->own_inputs = 1;
  graph->outputs.push_back({"y", 0, {kilter::DeclaredType::Kind::tensor, kilter::DType::f32, kilter::Shape{-1}}});
  file.program = {graph, {{graph.get(), {}, {}}}, {}};
  return file;
}

/// The plan, with the constants at offset 0 computed from those after the first, which is zero.
kilter::Plan with_recipes(kilter::Plan plan) {
  for (const kilter::Step& step : plan.steps) {
    for (const kilter::BufferRef& ref : step.args) {
      if (ref.space != kilter::Space::constant || ref.offset != 0 || ref.bytes % 4 != 0) continue;
      const int64_t count = ref.bytes / 4;
      kilter::Tensor source(kilter::DType::f32, {count - 1});
      std::copy_n(plan.constants + 4, source.bytes(), source.raw());
      const kilter::Gather gather{{{count - 1, 1, -1}, {1, 0}}, {{1, 1, 1}, {count, 0, 1}}};
      plan.recipes.push_back({0, ref.bytes, kilter::DType::f32, gather, source});
    }
  }
  kilter::require(!plan.recipes.empty(), "'{}' has no constants at offset 0", plan.model);
  return plan;
}

std::string file_of(const std::vector<kilter::vm::Content>& contents,
                    kilter::vm::FileSize size = kilter::vm::FileSize::fast) {
  const kilter::ScratchFolder folder;
  kilter::vm::save_targets(contents, folder.path() / "p", size);
  return kilter::read_file(folder.path() / "p");
}

std::span<const std::string> seeds() {
  using kilter::arithmetic_plan;
  using kilter::steps_plan;
  static const std::string files[] = {
      file_of({plan_for(steps_plan(), "x86-64-v2"), plan_for(arithmetic_plan(16), "x86-64-v3")}),
      file_of({plan_for(arithmetic_plan(16), "neoverse-n1"), plan_for(arithmetic_plan(16), "x86-64-v2")}),
      file_of({with_recipes(plan_for(arithmetic_plan(16), "x86-64-v2"))}, kilter::vm::FileSize::small),
      file_of({passing_on("x86-64-v2"), passing_on("neoverse-n1"), plan_for(steps_plan(), "haswell")}),
  };
  return files;
}

void set_up(const std::string& file) {
  try {
    const kilter::LoadOptions forged{.verify = false, .check_meta_hash = false};
    auto loaded =
        kilter::vm::parse_compiled(std::as_bytes(std::span(file.data(), file.size())), nullptr, "fuzz", forged);
    if (auto* plan = std::get_if<kilter::Plan>(&loaded.content)) {
      kilter::run_checked(std::move(*plan));
      return;
    }
    kilter::set_up_program(std::move(std::get<kilter::vm::ProgramFile>(loaded.content)));
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
