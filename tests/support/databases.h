// Databases of a PostgreSQL server that all tests of a program share.
#pragma once

#include <atomic>
#include <string>
#include <string_view>

#include "base/files.h"
#include "base/text.h"
#include "postgres/server.h"
#include "support/postgres_cluster.h"

namespace kilter {

/// Returns the server, which is started on first use.
inline PostgresCluster& server() {
  static PostgresCluster cluster({"max_connections=250"});
  return cluster;
}

/// Runs one statement in a database of the server.
inline postgres::Rows run_on_server(const std::string& url, const std::string& sql) {
  return postgres::Server(url, {.busy_seconds = 60}).run(sql);
}

/// Creates an empty database and returns its name.
inline std::string new_database(const std::string& with = "") {
  static std::atomic<int> made = 0;
  const std::string name = "kilter" + std::to_string(++made);
  run_on_server(server().url("postgres"), "CREATE DATABASE " + name + " " + with);
  return name;
}

/// Returns the first block of SQL on a page, without its comments.
inline std::string first_sql_of(const std::string& page_file) {
  const std::string page = read_file(page_file), head = "```sql\n";
  const size_t begin = page.find(head) + head.size();
  std::string out;
  for (const std::string_view line : split(std::string_view(page).substr(begin, page.find("```", begin) - begin), '\n'))
    out += std::string(line.substr(0, line.find("--"))) + "\n";
  return out;
}

}  // namespace kilter
