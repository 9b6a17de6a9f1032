// Reads the JSON text of an inference request in memory that is proportional to its length, however it is nested.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "tensor.h"

namespace serve {

/// The values of one "data", flat, in the order of the text.
struct Values {
  enum class Kind : uint8_t { boolean, negative, natural, real };
  std::vector<Kind> kinds;
  std::vector<uint64_t> bits;  ///< of an int64_t, a uint64_t or a double, by the kind
  std::vector<std::string> strings;

  size_t size() const { return kinds.size() + strings.size(); }
};

/// In `tree`, "data" of an input is the index of its values in `data`.
struct Document {
  nlohmann::json tree;
  std::vector<Values> data;
};

/// Throws Failure 400 if the text is not JSON, or if anything except "data" has thousands of values.
Document read_json(std::string_view text);

/// Returns the elements of an input as a tensor of this type and shape; `where` begins the messages. Throws Failure 400
/// if the number of values, a kind or a range does not fit.
Tensor tensor_of(Values values, kilter::Type type, std::vector<int64_t> shape, const std::string& where);

}  // namespace serve
