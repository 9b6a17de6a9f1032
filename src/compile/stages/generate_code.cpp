// Generates the code of the plan's kernels.
#include "codegen/backend.h"
#include "compile/stages/plan_state.h"

namespace kilter {

void generate_code(PlanState& state) {
  const CompileOptions& options = state.options;
  if (options.report.progress) options.report.progress({"generate code of kernels", 0, state.kernels.size()});
  KernelSet::Code generated = state.kernels.generate(options.target, options.threads, state.kernel_store());
  state.owned->code = std::move(generated.code);
  Plan& plan = state.out.plan;
  plan.scratch_bytes = generated.scratch_bytes;
  plan.entries = state.owned->code.entries;
  plan.code = state.owned->code.bytes.data();
  plan.code_bytes = static_cast<int64_t>(state.owned->code.bytes.size());
  if (plan.code_bytes > 0) plan.required_features = features_used(options.target);
}

}  // namespace kilter
