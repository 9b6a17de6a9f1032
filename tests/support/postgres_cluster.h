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
  /// Makes and starts a server, which takes about a second. `arguments`: those of postgres.py. Throws io, with what it
  /// printed, if that fails.
  explicit PostgresCluster(const std::vector<std::string>& arguments = {});
  /// Ends the server and removes its folder.
  ~PostgresCluster();
  PostgresCluster(const PostgresCluster&) = delete;
  PostgresCluster& operator=(const PostgresCluster&) = delete;

  std::string url(const std::string& database, const std::string& user = "postgres") const;
  /// Ends all connections and the server.
  void stop();
  /// As stop(), but the server writes nothing that it has not written yet, as if it were killed.
  void crash();
  void start();
  /// Starts the server if it has ended by itself.
  void restart();
  /// With "--clock=LIBRARY": moves the server's wall clock, so that it differs by so much from the right time.
  void move_clock(int64_t seconds);
  /// With "--disk=MB": takes all space that the server has. Returns the reason if this is not possible.
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
