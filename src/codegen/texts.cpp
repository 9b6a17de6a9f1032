#include "codegen/texts.h"

namespace kilter::codegen {

MachineCode link_texts(std::span<const KernelObject* const> objects, const Target& /*target*/) {
  MachineCode code;
  for (const KernelObject* object : objects) {
    code.entries.push_back(std::ssize(code.bytes));
    const std::span<const std::byte> text = std::as_bytes(std::span(object->bytes));
    code.bytes.insert(code.bytes.end(), text.begin(), text.end());
    code.bytes.push_back(std::byte{0});
  }
  return code;
}

std::string_view linked_text(const Plan& plan, size_t kernel) {
  const std::string_view code(reinterpret_cast<const char*>(plan.code), static_cast<size_t>(plan.code_bytes));
  const std::string_view rest = code.substr(static_cast<size_t>(plan.entries.at(kernel)));
  return rest.substr(0, rest.find('\0'));
}

std::vector<bool> kernels_on(const Plan& plan, int32_t device) {
  std::vector<bool> wanted(plan.entries.size());
  for (const Step& step : plan.steps) {
    if (step.kind == StepKind::kernel && step.device == device) wanted.at(static_cast<size_t>(step.kernel)) = true;
  }
  return wanted;
}

}  // namespace kilter::codegen
