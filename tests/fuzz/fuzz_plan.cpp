// Damaged compiled files: loading one and setting up an executor must either succeed or throw an Error. The first byte
// of an input selects what the other bytes are: a whole file, or the meta section of an otherwise valid file.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>

#include "exec/plan_meta.h"
#include "run_checked.h"
#include "test_plans.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace {

constexpr size_t kHeaderBytes = 64;
constexpr size_t kTableBytes = 72;
constexpr size_t kPage = 4096;

void put(std::string& out, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i) & 0xff);
}

/// A compiled file with the given meta section, the test plan's code and 256 bytes of constants.
std::string file_around(std::string_view meta) {
  const kilter::Plan plan = kilter::steps_plan();
  const size_t meta_at = kHeaderBytes + kTableBytes;
  const size_t code_at = (meta_at + meta.size() + kPage - 1) / kPage * kPage;
  const size_t constants_at = code_at + kPage;
  const auto constants_bytes = static_cast<size_t>(plan.constants_bytes);
  std::string file = "KILTERC1";
  put(file, kilter::kPlanFormatVersion, 4);
  put(file, 3, 4);
  put(file, constants_at + constants_bytes, 8);
  file.resize(kHeaderBytes, '\0');
  for (uint64_t field : {uint64_t{1}, meta_at, meta.size(), uint64_t{2}, code_at, static_cast<size_t>(plan.code_bytes),
                         uint64_t{3}, constants_at, constants_bytes}) {
    put(file, field, 8);
  }
  file += meta;
  file.resize(code_at, '\0');
  file.append(reinterpret_cast<const char*>(plan.code), static_cast<size_t>(plan.code_bytes));
  file.resize(constants_at, '\0');
  file.append(reinterpret_cast<const char*>(plan.constants), constants_bytes);
  return file;
}

}  // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  if (size >= 2) return LLVMFuzzerMutate(data, size, max_size);
  std::string start;
  start += static_cast<char>(seed % 4 == 0 ? 0 : 1);
  const std::string meta = kilter::write_plan_meta(seed % 8 < 4 ? kilter::steps_plan() : kilter::arithmetic_plan(16));
  start += start[0] == 0 ? file_around(meta) : meta;
  const size_t taken = std::min(start.size(), max_size);
  std::memcpy(data, start.data(), taken);
  return taken;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  const std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::string file = data[0] == 0 ? std::string(rest) : file_around(rest);
  kilter::run_checked(std::as_bytes(std::span(file.data(), file.size())));
  return 0;
}
