// Maps as JSON: a map is an object, and a sequence of maps an array of objects.
#pragma once

#include <string>

#include "base/any_value.h"
#include "onnx/model.h"

namespace kilter::tool {

/// Reads a map or a sequence of maps, as the port declares, from a JSON file. Keys of i64 are written as strings of
/// digits. Throws io if the file cannot be read, and bad_input for other contents.
AnyValue load_maps(const std::string& file, const onnx::Port& port);
/// Returns a map or a sequence of maps as JSON; numbers that JSON lacks (NaN, infinity) become null.
std::string maps_text(const AnyValue& value);

}  // namespace kilter::tool
