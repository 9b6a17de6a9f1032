// A server with a thread for each connection.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "http/message.h"
#include "http/stream.h"

namespace kilter::http {

struct ServerOptions {
  Address listen;                       ///< port 0: any that is free
  std::shared_ptr<const Tls> tls = {};  ///< null: none
  int connections = 2048;               ///< more are closed at once
  double patience = 120;                ///< seconds without a request after which a connection is closed
};

/// Answers requests until it is destroyed.
class Server {
 public:
  using Handler = std::function<Response(const Request&)>;
  /// Listens. The handler is called on many threads; what it throws becomes a response of status 500. Throws usage if
  /// the address cannot be used.
  Server(ServerOptions options, Handler handler);
  /// Ends all connections once their handlers have returned.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  const Address& address() const { return options_.listen; }

 private:
  struct Connection;
  void accept();
  void serve(Stream& connection);

  ServerOptions options_;
  Handler handler_;
  int socket_ = -1;
  std::mutex lock_;
  std::list<std::unique_ptr<Connection>> connections_;
  bool end_ = false;
  std::thread acceptor_;
};

}  // namespace kilter::http
