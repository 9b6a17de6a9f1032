#include "codegen/opencl/source.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <vector>

#include "base/text.h"

namespace kilter::codegen {
namespace {

constexpr std::string_view kMark = "opencl";

}  // namespace

std::string to_text(const OpenClKernel& k) {
  return fmt::format("{} {} {} {} {:d} {:d} {:d} {:d}\n{}", kMark, k.buffers, fmt::join(k.groups, " "),
                     fmt::join(k.threads, " "), k.bound, k.scratch, k.checked, k.doubles, k.source);
}

OpenClKernel parse_opencl_kernel(std::string_view text) {
  const size_t end = text.find('\n');
  const std::vector<std::string_view> words = split_words(text.substr(0, end));
  std::vector<int64_t> numbers;
  for (const std::string_view word : words) {
    int64_t number = 0;
    const auto [at, error] = std::from_chars(word.data(), word.data() + word.size(), number);
    if (error == std::errc() && at == word.data() + word.size()) numbers.push_back(number);
  }
  constexpr size_t kNumbers = 11;
  require(end != std::string_view::npos && words.size() == kNumbers + 1 && words.front() == kMark &&
              numbers.size() == kNumbers,
          "damaged code: expected a line of facts about an OpenCL kernel, got '{}'", text.substr(0, end));
  OpenClKernel k;
  k.buffers = static_cast<int32_t>(numbers[0]);
  k.groups = {numbers[1], numbers[2], numbers[3]};
  k.threads = {numbers[4], numbers[5], numbers[6]};
  k.bound = numbers[7] != 0;
  k.scratch = numbers[8] != 0;
  k.checked = numbers[9] != 0;
  k.doubles = numbers[10] != 0;
  k.source = text.substr(end + 1);
  return k;
}

}  // namespace kilter::codegen
