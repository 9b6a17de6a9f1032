// Code of back ends whose devices read text.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/backend.h"
#include "exec/plan.h"

namespace kilter::codegen {

/// Returns an object whose bytes are a text.
inline KernelObject text_object(const LoopFunc& func, std::string_view text) {
  return {func.name, {text.begin(), text.end()}};
}

/// Concatenates the texts of objects, each terminated by a zero.
MachineCode link_texts(std::span<const KernelObject* const> objects, const Target& target);

/// Returns the text at entry `kernel` of a plan's code.
std::string_view linked_text(const Plan& plan, size_t kernel);
/// Returns for each entry of a plan's code whether a step on the device runs it.
std::vector<bool> kernels_on(const Plan& plan, int32_t device);

}  // namespace kilter::codegen
