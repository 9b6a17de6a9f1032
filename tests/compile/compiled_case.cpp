#include "compiled_case.h"

#include <algorithm>

#include "base/error.h"
#include "guarded_run.h"

namespace kilter {

bool has_strings(const Graph& graph) {
  for (size_t v = 0; v < graph.value_count(); ++v) {
    if (graph.type(static_cast<ValueId>(v)).dtype == DType::string) return true;
  }
  return false;
}

CompiledCase compile_case(const OpDef& op, const ParsedCase& parsed, CaseText text, const Target& target) {
  OpCase c = make_case(op, parsed, text);
  if (has_strings(c.graph)) fail(ErrorKind::unsupported, "strings");
  Compiled compiled = compile_for(c.graph, target);
  return {std::move(c), std::move(compiled)};
}

std::string target_as_name(const testing::TestParamInfo<const char*>& param) {
  std::string name = param.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

}  // namespace kilter
