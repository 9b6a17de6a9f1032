#include "tune/records/place.h"

#include <filesystem>

#include "base/error.h"
#include "base/files.h"
#include "base/hash.h"
#include "postgres/url.h"
#include "tune/records/store.h"

namespace kilter::tune {
bool is_server(std::string_view place) { return postgres::is_url(place); }

std::string shown(const std::string& place) { return is_server(place) ? postgres::shown_url(place) : place; }

std::string base_name(const std::string& place) {
  return is_server(place) ? "a PostgreSQL server" : std::filesystem::path(place).filename().string();
}

bool is_absent(const std::string& place) { return !is_server(place) && is_missing(place); }

std::string beside(const std::string& place) {
  if (!is_server(place)) return place;
  const std::string name = fmt::format("postgresql-{:016x}", hash_text(shown(place)));
  try {
    return (default_records_file().parent_path() / name).string();
  } catch (const Error&) {
    fail(ErrorKind::usage,
         "records {}: accepted plans are kept on this machine, but neither XDG_DATA_HOME nor HOME is set: set one of "
         "them",
         shown(place));
  }
}

}  // namespace kilter::tune
