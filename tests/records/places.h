// The places of records that tests use: files, and databases of a PostgreSQL server that all tests of a program share.
#pragma once

#include <sqlite3.h>

#include <string>
#include <string_view>

#include "../base/scratch_folder.h"
#include "base/text.h"
#include "samples.h"
#include "support/databases.h"
#include "tune/records/place.h"

namespace kilter::tune {

/// Runs statements, which are separated by semicolons at line ends or at the end, in a database of any kind.
inline void run_sql(const std::string& place, const std::string& sql) {
  if (is_server(place)) {
    postgres::Server to(place, {.busy_seconds = 60});
    for (const std::string_view statement : split(sql, ';')) {
      if (!trim(statement).empty()) to.run(std::string(statement));
    }
    return;
  }
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open(place.c_str(), &db), SQLITE_OK);
  char* error = nullptr;
  EXPECT_EQ(sqlite3_exec(db, sql.c_str(), nullptr, nullptr, &error), SQLITE_OK) << (error ? error : "");
  sqlite3_free(error);
  sqlite3_close(db);
}

/// Tests with several kinds of places; the parameter is a file's name, or "postgres".
class PlaceTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (on_server()) url_ = server().url(new_database());
  }
  bool on_server() const { return std::string_view(GetParam()) == "postgres"; }
  /// A place without records; every call returns the same one.
  std::string place() const { return on_server() ? url_ : (folder_.path() / GetParam()).string(); }
  std::unique_ptr<Store> write() const { return Store::open(place(), Store::Mode::write); }
  std::unique_ptr<Store> read() const { return Store::open(place(), Store::Mode::read); }

  ScratchFolder folder_;

 private:
  std::string url_;
};

inline std::string kind_name(const ::testing::TestParamInfo<const char*>& kind) {
  const std::string_view name = kind.param;
  return std::string(name.substr(name.find('.') + 1));  // "db", "jsonl", "postgres"
}

}  // namespace kilter::tune
