#include "graph/open_graph.h"

#include <algorithm>

namespace kilter {

const Region* OpenNode::region(std::string_view attribute) const {
  const auto found =
      std::find_if(regions.begin(), regions.end(), [&](const Region& r) { return r.attribute == attribute; });
  return found == regions.end() ? nullptr : &*found;
}

}  // namespace kilter
