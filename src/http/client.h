// A client that keeps its connection to one server.
#pragma once

#include <memory>
#include <string>

#include "http/message.h"
#include "http/stream.h"

namespace kilter::http {

/// Parses "https://HOST[:PORT]" or, for this machine only, "http://HOST[:PORT]". Throws usage for anything else.
struct Url {
  bool tls = true;
  Address address;
};
Url parse_url(const std::string& text);

struct ClientOptions {
  std::string url;
  std::string ca_file = {};  ///< Tls::for_clients()
  double patience = 20;      ///< seconds without a response after which the connection counts as lost
};

/// Only one thread at a time may use it.
class Client {
 public:
  /// Does not connect yet. Throws the errors of parse_url() and Tls::for_clients().
  explicit Client(ClientOptions options);
  ~Client();

  /// Sends a request and returns the response, whatever its status is. `wait`: seconds that the server may take in
  /// addition to the usual patience. If a connection from an earlier call is lost, the request is sent once more on a
  /// new one. Throws the errors of Stream.
  Response ask(const Request& request, double wait = 0);

  const std::string& url() const { return options_.url; }

 private:
  ClientOptions options_;
  Url url_;
  std::shared_ptr<const Tls> tls_;
  std::unique_ptr<Stream> stream_;
};

}  // namespace kilter::http
