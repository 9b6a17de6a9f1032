#include "zoo/zoo.h"

namespace kilter::zoo {

std::span<const Row> all() { return {}; }
const Row* find(std::string_view) { return nullptr; }
Graph build(std::string_view name, const Options&) {
  fail(ErrorKind::usage, "zoo: no network '{}'", name);
}

}  // namespace kilter::zoo
