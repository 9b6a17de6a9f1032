// The HTTP side: paths, limits of requests, and statuses.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <string>

#include "batcher.h"

namespace httplib {
class Server;
}

namespace serve {

struct HttpOptions {
  std::string host = "127.0.0.1";
  int port = 8000;                        ///< 0: any free one
  size_t max_request = size_t{64} << 20;  ///< bytes of a body
  int connections = 256;                  ///< served at the same time; others wait
};

using Models = std::map<std::string, std::unique_ptr<Batcher>>;

class HttpServer {
 public:
  /// `models` must outlive the server.
  HttpServer(const HttpOptions& options, const Models& models);
  ~HttpServer();

  /// Starts to accept connections and returns the port. Throws std::runtime_error if the address cannot be used.
  int bind();
  /// Serves requests until stop() is called, and finishes those that it has begun to read.
  void serve();
  /// May be called from any thread, even before serve().
  void stop();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace serve
