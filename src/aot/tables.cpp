// The C source with the tables of a network.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <iterator>
#include <map>
#include <set>
#include <vector>

#include "aot/names.h"
#include "aot/source.h"
#include "base/cpu_info.h"
#include "base/error.h"
#include "base/text.h"
#include "exec/plan_check.h"
#include "kilter/version.h"

namespace kilter::embedded {
extern const std::string_view aot_runtime;
}

namespace kilter::aot {
namespace {

/// Rows of one table: "static const struct TYPE NAME[] = {...};". An array cannot be empty, so one without rows gets a
/// row of zeros.
std::string table(std::string_view type, std::string_view name, const std::vector<std::string>& rows) {
  return fmt::format("static const {} {}[] = {{\n  {}\n}};\n", type, name,
                     rows.empty() ? std::string("{0}") : fmt::format("{}", fmt::join(rows, ",\n  ")));
}

std::string_view space(const BufferRef& ref) {
  switch (ref.space) {
    case Space::constant:
      return "SPACE_WEIGHTS";
    case Space::input:
      return "SPACE_INPUT";
    case Space::output:
      return "SPACE_OUTPUT";
    default:
      return "SPACE_ARENA";
  }
}

class Tables {
 public:
  explicit Tables(const Network& network) : network_(network) {
    for (const Step& step : network.plan.steps) add(step);
  }

  std::string text() const {
    const Plan& plan = network_.plan;
    std::string all = sizes_;
    all += table("struct index_operand", "index_operands", operands_);
    all += table("struct halo", "halos", halos_);
    all += table("struct buffer", "buffers", buffers_);
    all += table("struct step", "steps", steps_);
    all += table("struct tensor", "input_tensors", tensors(plan.inputs));
    all += table("struct tensor", "output_tensors", tensors(plan.outputs));
    all += table("struct feature", "features", features());
    all += fmt::format(
        "static const struct model model = {{\n  {}, {}, INT64_C({}), INT64_C({}), INT64_C({}), UINT64_C({}),\n"
        "  steps, buffers, halos, index_operands, input_tensors, output_tensors, features,\n  {}, {}, {}, {}, "
        "{}\n}};\n",
        literal(plan.model), literal(plan.target), plan.arena_bytes, plan.scratch_bytes, plan.constants_bytes,
        network_.weight_hash, plan.steps.size(), buffers_.size(), plan.inputs.size(), plan.outputs.size(),
        plan.required_features.size());
    return all;
  }

 private:
  void add(const Step& step) {
    int64_t at = 0;
    std::string_view kind = "STEP_KERNEL";
    if (step.kind == StepKind::halo) {
      kind = "STEP_HALO", at = std::ssize(halos_);
      const HaloFill& h = step.halo;
      halos_.push_back(fmt::format("{{{}, {}, {}, {}, {}, {}, {}, {}, {}}}", h.planes, h.plane_bytes, h.rows,
                                   h.row_bytes, h.top, h.bottom, h.left_bytes, h.right_bytes, h.value));
    } else if (step.kind == StepKind::copy) {
      kind = "STEP_COPY", at = step.copy_bytes;
    } else {
      at = network_.plan.entries.at(static_cast<size_t>(step.kernel));
    }
    steps_.push_back(fmt::format("{{{}, {}, {}, {}, {}, {}, {}, {}}}", literal(step.name), at, step.extent, kind,
                                 step.max_threads, buffers_.size(), step.args.size(), operand(step)));
    for (const BufferRef& ref : step.args)
      buffers_.push_back(fmt::format("{{{}, {}, {}}}", ref.offset, space(ref), ref.index));
  }

  /// Returns the row of the step's operand with indices; -1 if it has none.
  int64_t operand(const Step& step) {
    const IndexOperand& op = step.indices;
    if (op.arg < 0) return -1;
    int64_t count = 1;
    for (const int64_t d : op.shape) count *= d;
    const size_t row = operands_.size();
    sizes_ += fmt::format("static const int64_t sizes_{}[] = {{{}}};\n", row, fmt::join(op.range.sizes, ", "));
    operands_.push_back(fmt::format("{{sizes_{}, {}, {}, {}, {}, {}}}", row, count, op.range.sizes.size(), op.arg,
                                    op.type == DType::i32 ? 0 : 1, op.range.lengths ? 1 : 0));
    return static_cast<int64_t>(row);
  }

  static std::vector<std::string> tensors(const std::vector<PlanTensor>& list) {
    std::vector<std::string> rows;
    for (const PlanTensor& t : list)
      rows.push_back(fmt::format("{{{}, {}}}", literal(t.name), *tensor_bytes(t.type, t.shape)));
    return rows;
  }

  std::vector<std::string> features() const {
    std::vector<std::string> rows;
    for (const std::string& feature : network_.plan.required_features) {
      const CpuFeatureTest t = cpu_feature_test(network_.plan.arch, feature);
      rows.push_back(fmt::format("{{{}, {:#x}, {}, {}, {}, {:#x}, {:#x}, {:#x}, {}}}", literal(feature), t.leaf,
                                 t.subleaf, t.reg, t.bit, t.state, t.hwcap, t.hwcap2, t.sve_bytes));
    }
    return rows;
  }

  const Network& network_;
  std::string sizes_;
  std::vector<std::string> operands_, halos_, buffers_, steps_;
};

/// A file that the assembler includes in a section, at the symbol NAME_WHAT.
std::string blob(const Network& network, std::string_view what, std::string_view section, std::string_view flags,
                 const std::string& file, const std::string& symbols = "") {
  return fmt::format(
      "__asm__(\n  \".pushsection {2}.{0},\\\"{3}\\\",%progbits\\n\"\n  \".balign 4096\\n\"\n"
      "  \".globl {0}_{1}\\n.hidden {0}_{1}\\n{0}_{1}:\\n\"\n  \".incbin \\\"{4}\\\"\\n\"\n{5}"
      "  \".popsection\\n\");\n"
      "extern const unsigned char {0}_{1}[] __attribute__((visibility(\"hidden\")));\n",
      network.name, what, section, flags, file, symbols);
}

/// Symbols of the kernels, each with the name of its first layer, for debuggers and profilers.
std::string kernel_symbols(const Network& network) {
  const Plan& plan = network.plan;
  std::map<int64_t, std::string> kernels;  // by offset
  for (const Step& step : plan.steps) {
    if (step.kind == StepKind::kernel) kernels.emplace(plan.entries.at(static_cast<size_t>(step.kernel)), step.name);
  }
  std::string text;
  std::set<std::string> taken;
  for (auto at = kernels.begin(); at != kernels.end(); ++at) {
    const int64_t end = std::next(at) != kernels.end() ? std::next(at)->first : plan.code_bytes;
    const std::string symbol = fmt::format("{}_kernel_{}", network.name, identifier(at->second, taken));
    text += fmt::format("  \".set {0}, {1}_code + {2}\\n.type {0}, %function\\n.size {0}, {3}\\n\"\n", symbol,
                        network.name, at->first, end - at->first);
  }
  return text;
}

/// The machine code, and the weights that are not in a file.
std::string blobs(const Network& network, const std::string& code, const std::string& weights) {
  std::string text = blob(network, "code", ".text", "ax", code, kernel_symbols(network));
  if (network.has_weights_inside()) text += blob(network, "weights", ".rodata", "a", weights);
  return text;
}

/// The runtime part in one file: without the includes of its own header.
std::string runtime_part() {
  std::string text;
  for (const std::string_view line : split(embedded::aot_runtime, '\n')) {
    if (!line.starts_with("#include \"")) text.append(line).append("\n");
  }
  return text;
}

/// The arguments of a function of the source: "in0, in1". The names of the header may be those of macros and functions
/// that the source uses.
std::string numbered(std::string_view name, size_t count) {
  std::vector<std::string> names;
  for (size_t i = 0; i < count; ++i) names.push_back(fmt::format("{}{}", name, i));
  if (names.empty()) names.emplace_back("NULL");
  return join(names, ", ");
}

/// Text that stops compilers for other architectures.
std::string architecture(Arch arch) {
  const std::string_view macro = arch == Arch::x86_64 ? "__x86_64__" : "__aarch64__";
  return fmt::format(
      "#if !defined({0}) || defined(__ILP32__) || !defined(__linux__)\n"
      "#error \"the kernels are for 64-bit {1} Linux: use a C compiler for it\"\n#endif\n",
      macro, name(arch));
}

std::string functions(const Network& network) {
  std::string parameters;
  for (size_t i = 0; i < network.inputs.size(); ++i)
    parameters += fmt::format(", const {} *in{}", network.inputs[i].type, i);
  for (size_t i = 0; i < network.outputs.size(); ++i)
    parameters += fmt::format(", {} *out{}", network.outputs[i].type, i);
  const bool none = !network.file_weights && !network.has_weights_inside();
  const std::string weights = none ? "model_without_weights" : network.name + "_weights";
  std::string text = none ? "static const unsigned char model_without_weights[1];\n" : "";
  text += network.file_weights
              ? fmt::format(
                    "API {0}_net *{0}_create(const char *weights, int threads) {{\n"
                    "  return ({0}_net *)(void *)instance_create_from(&model, {0}_code, weights, threads);\n}}\n",
                    network.name)
              : fmt::format(
                    "API {0}_net *{0}_create(int threads) {{\n"
                    "  return ({0}_net *)(void *)instance_create(&model, {0}_code, {1}, threads);\n}}\n",
                    network.name, weights);
  text += fmt::format(
      "API int {0}_run({0}_net *net{1}) {{\n  const void *const inputs[] = {{{2}}};\n  void *const outputs[] = "
      "{{{3}}};\n"
      "  return instance_run((struct instance *)(void *)net, inputs, outputs);\n}}\n"
      "API void {0}_free({0}_net *net) {{ instance_free((struct instance *)(void *)net); }}\n"
      "API const char *{0}_error(void) {{ return last_error; }}\n",
      network.name, parameters, numbered("in", network.inputs.size()), numbered("out", network.outputs.size()));
  return text;
}

}  // namespace

std::string source_text(const Network& network, const std::string& header, const std::string& code,
                        const std::string& weights) {
  std::string text =
      fmt::format("/* The network '{}'. Generated by Kilter {}; see {}. For GCC and Clang on Linux. */\n",
                  comment(network.plan.model), KILTER_VERSION_STRING, header);
  text += architecture(network.plan.arch);
  text += "#ifndef _GNU_SOURCE\n#define _GNU_SOURCE\n#endif\n";
  if (network.file_weights) text += "#define WITH_FILE_WEIGHTS\n";
  text += fmt::format("#include \"{}\"\n#define API __attribute__((visibility(\"default\")))\n", header);
  text += runtime_part() + "\n/* The tables of this network. */\n" + Tables(network).text();
  return text + blobs(network, code, weights) + functions(network);
}

}  // namespace kilter::aot
