#include "console.h"

#include <unistd.h>

namespace kilter::tool {

bool Console::redraws() const { return !progress && isatty(fileno(err)) != 0; }

Console& console() {
  thread_local Console own;
  return own;
}

}  // namespace kilter::tool
