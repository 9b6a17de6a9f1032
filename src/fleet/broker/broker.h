// A broker: agents send it over HTTPS what they would ask the database, and it shows the fleet to browsers and to
// Prometheus. Agents thus need neither a login nor a route to the database, and a few connections serve all of them.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "fleet/broker/tokens.h"
#include "fleet/broker_client/broker_protocol.h"
#include "fleet/queue.h"
#include "http/server.h"

namespace kilter::fleet {

struct BrokerOptions {
  std::string url;  ///< of the fleet's database
  std::filesystem::path tokens;
  http::ServerOptions server;
  int database_connections = 8;
};

/// Serves until it is destroyed.
class Broker {
 public:
  /// Throws the errors of Queue(), Tokens() and http::Server().
  explicit Broker(BrokerOptions options);
  ~Broker();
  Broker(const Broker&) = delete;
  Broker& operator=(const Broker&) = delete;

  const http::Address& address() const { return server_->address(); }

 private:
  class Borrowed;
  /// Requests that wait for jobs of a device class.
  struct Waiters {
    std::condition_variable jobs;
    int count = 0;
  };

  http::Response answer(const http::Request& request);
  http::Response answer_agent(const http::Request& request);
  http::Response look(const http::Request& request);
  Message call(const std::string& name, const Message& asked);
  Message claim(const Message& asked);
  void wait(const Message& asked);
  uint64_t notices(const std::string& device_class) const;
  void listen();

  BrokerOptions options_;
  Tokens tokens_;
  std::mutex lock_;
  std::condition_variable returned_;  ///< a connection was returned
  std::vector<std::unique_ptr<Queue>> idle_;
  int connected_ = 0;
  std::map<std::string, Waiters> waiters_;   ///< by device class, as long as there are any
  std::map<std::string, uint64_t> notices_;  ///< by device class: how often the database announced new jobs
  bool end_ = false;
  std::thread listener_;
  std::unique_ptr<http::Server> server_;
};

}  // namespace kilter::fleet
