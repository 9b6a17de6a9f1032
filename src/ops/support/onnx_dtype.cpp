#include "ops/support/onnx_dtype.h"

#include <array>
#include <utility>

namespace kilter {
namespace {

constexpr std::array<std::pair<int64_t, DType>, 24> kCodes = {
    {{1, DType::f32},         {2, DType::u8},      {3, DType::i8},          {4, DType::u16},     {5, DType::i16},
     {6, DType::i32},         {7, DType::i64},     {8, DType::string},      {9, DType::boolean}, {10, DType::f16},
     {11, DType::f64},        {12, DType::u32},    {13, DType::u64},        {16, DType::bf16},   {17, DType::f8e4m3fn},
     {18, DType::f8e4m3fnuz}, {19, DType::f8e5m2}, {20, DType::f8e5m2fnuz}, {21, DType::u4},     {22, DType::i4},
     {23, DType::f4e2m1},     {24, DType::f8e8m0}, {25, DType::u2},         {26, DType::i2}}};

}  // namespace

std::optional<DType> dtype_of_code(int64_t code) {
  for (const auto& [known, type] : kCodes) {
    if (known == code) return type;
  }
  return std::nullopt;
}

int64_t code_of_dtype(DType type) {
  for (const auto& [code, known] : kCodes) {
    if (known == type) return code;
  }
  return 0;
}

}  // namespace kilter
