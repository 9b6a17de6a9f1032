#include "schedule/templates/templates.h"

namespace kilter {

std::span<const Template* const> all_templates() {
  static const Template* const kTemplates[] = {
#define KILTER_TEMPLATE(name) &(name),
#include "schedule/templates/templates.inc"
#undef KILTER_TEMPLATE
  };
  return kTemplates;
}

}  // namespace kilter
