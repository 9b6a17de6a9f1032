// Finds records in any text: in logs, or in copies of them in forum posts, where prose may separate them, a line may
// contain several, and quotes may be typographic.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace kilter::tune {

/// An object that begins like a record.
struct Found {
  int64_t line = 0;     ///< the line where it begins, from 1
  std::string text;     ///< as JSON, with straight quotes and plain spaces
  nlohmann::json json;  ///< discarded if the text is damaged
};

/// Returns, in order, every object whose first key may be that of a record ("i", "input", "conditions", ...). Does not
/// look inside objects that were parsed; inside damaged objects, it finds only sound ones. Skips prose.
std::vector<Found> scan_records(std::string_view text);

}  // namespace kilter::tune
