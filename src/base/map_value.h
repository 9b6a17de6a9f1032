// Maps as values: each key maps to one number or one string.
#pragma once

#include <string_view>

#include "base/any_value.h"

namespace kilter {

/// Returns a map. `keys` [n]: i64 or strings; `values` [n]: of any type, in the order of the keys. Throws bad_input if
/// they have other types or shapes, or if a key occurs twice; `what` names the map.
///
/// Internally, a map is a sequence of an absent value, the keys in ascending order, and the values. No operator creates
/// a sequence with absent elements, so AnyValue::is_sequence() holds for maps too, and code that visits the tensors of
/// a value visits those of a map. Code that distinguishes the kinds of values tests is_map() first.
AnyValue map_value(Tensor keys, Tensor values, std::string_view what = "a map");

bool is_map(const AnyValue& value);
/// Returns whether a value is a sequence but not a map.
inline bool is_list(const AnyValue& value) { return value.is_sequence() && !is_map(value); }

/// The keys of a map [n] in ascending order, and its values [n] in the same order.
const Tensor& map_keys(const AnyValue& map);
const Tensor& map_values(const AnyValue& map);

}  // namespace kilter
