// Finds records in any text: logs, or what people made of them in a forum, with prose between, several in a line, and
// typographic quotes.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace kilter::tune {

/// An object that begins as records do.
struct Found {
  int64_t line = 0;     ///< where it begins, from 1
  std::string text;     ///< as JSON: straight quotes, plain blanks
  nlohmann::json json;  ///< discarded where the text is damaged
};

/// Every object whose first key is one of a record's ("i", "input", "conditions", ...), in order. What lies inside an
/// object that was read is not looked at again; inside a damaged one only sound objects are found. Prose is passed
/// over.
std::vector<Found> scan_records(std::string_view text);

}  // namespace kilter::tune
