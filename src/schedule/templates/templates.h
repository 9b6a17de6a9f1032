// The templates of this folder.
#pragma once

#include "schedule/schedule.h"

namespace kilter {

#define KILTER_TEMPLATE(name) extern const Template name;
#include "schedule/templates/templates.inc"
#undef KILTER_TEMPLATE

}  // namespace kilter
