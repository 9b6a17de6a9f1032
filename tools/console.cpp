#include "console.h"

#include <unistd.h>

#include <cstdlib>
#include <string_view>

namespace kilter::tool {

bool Console::redraws() const { return !progress && detail != Detail::quiet && isatty(fileno(err)) != 0; }

bool Console::colours(std::FILE* file) const {
  if (colour != Colour::automatic) return colour == Colour::always;
  const auto given = [](const char* variable) {
    const char* value = std::getenv(variable);
    return std::string_view(value == nullptr ? "" : value);
  };
  return given("NO_COLOR").empty() && given("TERM") != "dumb" && isatty(fileno(file)) != 0;
}

Console& console() {
  thread_local Console own;
  return own;
}

}  // namespace kilter::tool
