// Options of a compilation by name, for interfaces whose options are texts. Names and values are those of `kilter
// compile`.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "compile/session.h"

namespace kilter {

/// Parses "declared", "bf16" or "fp16". Throws usage for any other text.
Precision parse_precision(std::string_view text);
/// Parses "default" or "strict". Throws usage for any other text.
Accuracy parse_accuracy(std::string_view text);
/// Parses a number of bytes with or without a unit, such as "200MB" or "1.5GiB". Throws usage, naming `what`, for any
/// other text.
int64_t parse_size(std::string_view text, std::string_view what);

struct NamedOption {
  const char* name;
  const char* fallback;  ///< the value that stands for the default
  const char* summary;   ///< what it does, and its legal values
  /// Sets the option. Throws usage for an illegal value, saying which are legal.
  void (*apply)(const std::string& value, Session::Options& options);
};
std::span<const NamedOption> named_options();
/// Returns the option of this name. Throws usage, naming the nearest one and all legal ones, if there is none.
const NamedOption& named_option(std::string_view name);

}  // namespace kilter
