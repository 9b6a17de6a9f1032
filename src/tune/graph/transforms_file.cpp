// The file format of a transform model.

#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/files.h"
#include "base/json_text.h"
#include "tune/graph/transforms.h"

namespace kilter::tune {
namespace {

using nlohmann::json;
constexpr const char* kFormat = "kilter-transforms-1";

MemoryLevel level_from(const json& value) {
  MemoryLevel level{value.at("name"), std::numeric_limits<double>::infinity(), value.at("shared")};
  if (!value.at("bytes").is_null()) value.at("bytes").get_to(level.bytes);
  return level;
}

TransformModel from_json(const json& file, const std::string& where, const std::string& device) {
  if (const std::string format = file.at("format"); format != kFormat) {
    fail(ErrorKind::bad_input, "{}: format {}; expected {}; measure again", where, format, kFormat);
  }
  const std::string measured_on = file.at("device");
  if (measured_on != device) {
    fail(ErrorKind::bad_input, "{}: layout changes were measured on '{}', but this is '{}'; measure them here", where,
         measured_on, device);
  }
  std::vector<MemoryLevel> levels;
  for (const json& value : file.at("levels")) levels.push_back(level_from(value));
  std::vector<TransformSample> samples;
  for (const json& value : file.at("samples")) {
    samples.push_back({value.at("kind"), value.at("threads"), value.at("bytes"), value.at("ms")});
  }
  return {device, std::move(levels), std::move(samples)};
}

}  // namespace

std::string TransformModel::text() const {
  json levels = json::array();
  for (const MemoryLevel& level : levels_) {
    const bool last = level.bytes == std::numeric_limits<double>::infinity();
    levels.push_back({{"name", level.name}, {"bytes", last ? json() : json(level.bytes)}, {"shared", level.shared}});
  }
  json samples = json::array();
  for (const TransformSample& s : samples_) {
    samples.push_back({{"kind", s.kind}, {"threads", s.threads}, {"bytes", s.bytes}, {"ms", s.ms}});
  }
  const json file = {{"format", kFormat}, {"device", device_}, {"levels", levels}, {"samples", samples}};
  return json_text(file, 1) + "\n";
}

TransformModel TransformModel::parse(std::string_view text, const std::string& where, const std::string& device) {
  try {
    return from_json(parse_json(text), where, device);
  } catch (const json::exception& e) {
    fail(ErrorKind::bad_input, "{}: not a file of measured layout changes ({}): {}; measure again", where, kFormat,
         e.what());
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::internal) throw;
    fail(ErrorKind::bad_input, "{}: {}; measure again", where, e.message());
  }
}

TransformModel TransformModel::load(const std::filesystem::path& path, const std::string& device) {
  return parse(read_file(path), path.string(), device);
}

void TransformModel::save(const std::filesystem::path& path) const { write_file_atomically(path, text()); }

}  // namespace kilter::tune
