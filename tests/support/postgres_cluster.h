// A private PostgreSQL server for tests: tests/support/postgres.py.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace kilter {

class PostgresCluster {
 public:
  /// Creates and starts a server, which takes about a second. `arguments`: those of postgres.py. Throws io, with what
  /// it printed, if that fails.
  explicit PostgresCluster(const std::vector<std::string>& arguments = {});
  /// Ends the server and removes its folder.
  ~PostgresCluster();
  PostgresCluster(const PostgresCluster&) = delete;
  PostgresCluster& operator=(const PostgresCluster&) = delete;

  std::string url(const std::string& database, const std::string& user = "postgres") const;
  /// Stops the server and closes all connections.
  void stop();
  /// Like stop(), but the server does not write data that it has not written yet, as if it were killed.
  void crash();
  void start();
  /// Starts the server if it has ended.
  void restart();
  /// With "--clock=LIBRARY": moves the server's wall clock, so that it differs from the right time by this much.
  void move_clock(int64_t seconds);
  /// With "--disk=MB": fills the server's disk. Returns the reason if this is not possible.
  std::string fill_disk();
  void free_disk();

 private:
  std::string answer();
  std::string ask(std::string line);
  void tell(const std::string& line);

  pid_t script_ = -1;
  int to_script_ = -1, from_script_ = -1;
  std::string folder_;
};

}  // namespace kilter
