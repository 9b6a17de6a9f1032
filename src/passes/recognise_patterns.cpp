#include "passes/pass.h"
namespace kilter {
void recognise_patterns(Graph&, PassContext&) {}
}
