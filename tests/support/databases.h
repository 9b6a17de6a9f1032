// Databases of a PostgreSQL server that all tests of a program share.
#pragma once

#include <atomic>
#include <string>

#include "postgres/server.h"
#include "support/postgres_cluster.h"

namespace kilter {

/// Returns the server, which is started when it is first needed.
inline PostgresCluster& server() {
  static PostgresCluster cluster({"max_connections=250"});
  return cluster;
}

/// Runs one statement in a database of the server.
inline postgres::Rows run_on_server(const std::string& url, const std::string& sql) {
  return postgres::Server(url, {.busy_seconds = 60}).run(sql);
}

/// Makes an empty database and returns its name.
inline std::string new_database(const std::string& with = "") {
  static std::atomic<int> made = 0;
  const std::string name = "kilter" + std::to_string(++made);
  run_on_server(server().url("postgres"), "CREATE DATABASE " + name + " " + with);
  return name;
}

}  // namespace kilter
