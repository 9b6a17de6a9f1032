// A case of an operator, compiled.
#pragma once

#include "compile/compile.h"
#include "ops/cases.h"

namespace kilter {

struct CompiledCase {
  OpCase c;
  Compiled compiled;
};
/// Throws unsupported for strings and for what the compiler cannot do.
CompiledCase compile_case(const OpDef& op, const ParsedCase& parsed, CaseText text, const Target& target);

}  // namespace kilter
