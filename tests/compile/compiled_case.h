// A case of an operator, compiled.
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
/// Throws unsupported for strings and for what the compiler cannot do.
CompiledCase compile_case(const OpDef& op, const ParsedCase& parsed, CaseText text, const Target& target);

/// A target as the name of a parametrised test, "neoverse_n1".
std::string target_as_name(const testing::TestParamInfo<const char*>& param);

}  // namespace kilter
