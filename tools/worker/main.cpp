// kilter-worker: runs the candidates of a tuner. The tuner starts it; it is of no use by itself.
#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <vector>

#include "tune/run/worker.h"
#include "vm/reference_steps.h"

int main(int argc, char** argv) {
  try {
    kilter::install_reference_kernels();  // for steps that no template accepts
    const std::vector<const char*> arguments(argv + 1, argv + argc);
    const int code = kilter::tune::worker_main(arguments);
    if (code != 0) fmt::print(stderr, "kilter-worker: is started by a tuner (kilter tune), not by hand\n");
    return code;
  } catch (const std::exception& e) {
    fmt::print(stderr, "kilter-worker: {}\n", e.what());
    return 4;
  }
}
