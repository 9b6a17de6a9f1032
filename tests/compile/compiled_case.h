// A compiled operator case.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "compile/compile.h"
#include "ops/support/cases.h"

namespace kilter {

struct CompiledCase {
  OpCase c;
  Compiled compiled;
};
/// Returns whether any value of the graph is a tensor of strings.
bool has_strings(const Graph& graph);
/// Compiles a case. Throws unsupported for strings and for anything else that the compiler cannot do.
CompiledCase compile_case(const OpDef& op, const ParsedCase& parsed, CaseText text, const Target& target);

/// A target's name in the form that parametrised tests need: "neoverse_n1".
std::string target_as_name(const testing::TestParamInfo<const char*>& param);

}  // namespace kilter
