// What the processor that this runs on can do.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kilter {

/// The instruction set extensions that Kilter tells apart, by LLVM's names, in a fixed order: sse3, ssse3, sse4.1,
/// sse4.2, popcnt, avx, f16c, fma, avx2, bmi, bmi2, lzcnt, movbe, avx512f, avx512bw, avx512cd, avx512dq, avx512vl,
/// avx512vnni, avx512bf16, avx512vbmi, avxvnni, avx512fp16. Empty when not x86-64.
const std::vector<std::string>& known_cpu_features();
/// Those that the processor has and whose registers the operating system saves, in the same order.
const std::vector<std::string>& cpu_features();
bool cpu_has(std::string_view feature);
/// The features of `required` that this processor lacks, or whose names are unknown.
std::vector<std::string> missing_cpu_features(const std::vector<std::string>& required);
/// "AMD EPYC 9R14", "unknown CPU" when the processor does not say.
const std::string& cpu_brand();

}  // namespace kilter
