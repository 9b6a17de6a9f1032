// The loop nest of the template attention_rows; see the head of attention_rows.cpp.
#pragma once

#include "schedule/emit.h"
#include "schedule/templates/attention_problem.h"
#include "schedule/templates/tile_split.h"

namespace kilter {

/// Emits the whole kernel, parallel over batch dimensions and blocks of queries. The schedule's knobs must be legal.
void emit_attention(Emitter& e, const AttentionProblem& heads, const Schedule& schedule, int32_t lanes);

}  // namespace kilter
