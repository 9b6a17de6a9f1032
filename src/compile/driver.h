// Shared by the drivers of passes and stages: dumps and times.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>

namespace kilter {

/// Writes a file of --dump-ir, and creates its folder if needed. Throws io.
void write_dump(const std::filesystem::path& file, const std::string& text);

/// Milliseconds since `start`.
double ms_since(std::chrono::steady_clock::time_point start);

}  // namespace kilter
