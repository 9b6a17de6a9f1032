// Prints the target that Kilter selects for this machine, and the processor features that it detects.
#include <cstdio>

#include "base/error.h"
#include "base/text.h"
#include "target/target.h"

int main() {
  try {
    std::printf("%s: %s: %s\n", kilter::native_target().name.c_str(), kilter::cpu_brand().c_str(),
                kilter::join(kilter::cpu_features(), ",").c_str());
    return 0;
  } catch (const kilter::Error& e) {
    std::fprintf(stderr, "native_target: %s\n", e.what());
    return 1;
  }
}
