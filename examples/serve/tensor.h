// Tensors of requests and responses, and the names that the protocol gives to element types.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "kilter/kilter.h"

namespace serve {

/// Why a request failed: the HTTP status and the text of the response.
class Failure : public std::runtime_error {
 public:
  Failure(int status, const std::string& text) : std::runtime_error(text), status_(status) {}
  int status() const { return status_; }

 private:
  int status_;
};

/// The elements are `bytes`, which refer to `own` or to memory that outlives the tensor; or `strings`, for
/// Type::string.
struct Tensor {
  Tensor() = default;
  Tensor(Tensor&&) = default;
  Tensor& operator=(Tensor&&) = default;

  kilter::Type type = kilter::Type::f32;
  std::vector<int64_t> shape;
  std::span<const std::byte> bytes;
  std::vector<std::byte> own;
  std::vector<std::string> strings;
};

/// The protocol's name of a type: "FP32"; nullptr if it has none.
const char* datatype(kilter::Type type);
/// The type of this name; none if Kilter or the protocol does not have it.
std::optional<kilter::Type> type_of(std::string_view datatype);

/// Number of elements; none if a dimension is negative or the number exceeds 2^48.
std::optional<int64_t> elements(std::span<const int64_t> shape);
/// "[-1,3,224,224]"
std::string text(std::span<const int64_t> shape);
/// A text in single quotes, cut after 100 bytes, with control characters, quotes, and bytes outside ASCII escaped: for
/// messages that repeat parts of a request.
std::string in_quotes(std::string_view text);

}  // namespace serve
