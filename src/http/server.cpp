#include "http/server.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "base/connection_error.h"
#include "http/beast.h"

namespace kilter::http {
namespace {

int listening(Address& address) {
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const int unknown = getaddrinfo(address.host.empty() ? nullptr : address.host.c_str(),
                                  std::to_string(address.port).c_str(), &wanted, &found);
  if (unknown != 0) kilter::fail(ErrorKind::usage, "{}: no such address: {}", address.text(), gai_strerror(unknown));
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> all(found, freeaddrinfo);
  const int made = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  if (made < 0 || setsockopt(made, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
      bind(made, found->ai_addr, found->ai_addrlen) != 0 || listen(made, 1024) != 0) {
    const int error = errno;
    if (made >= 0) close(made);
    kilter::fail(ErrorKind::usage, "{}: cannot listen there: {}; name another address or port", address.text(),
                 std::strerror(error));
  }
  sockaddr_storage bound{};
  socklen_t size = sizeof bound;
  getsockname(made, reinterpret_cast<sockaddr*>(&bound), &size);
  address.port = ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(bound).sin6_port
                                                   : reinterpret_cast<const sockaddr_in&>(bound).sin_port);
  return made;
}

std::string name_of(const sockaddr_storage& peer, socklen_t size) {
  std::array<char, 64> host{};
  const int got =
      getnameinfo(reinterpret_cast<const sockaddr*>(&peer), size, host.data(), host.size(), nullptr, 0, NI_NUMERICHOST);
  return got == 0 ? host.data() : "a client";
}

Request request_of(wire::request<wire::string_body>& got) {
  Request request;
  request.method = std::string(got.method_string());
  request.path = std::string(got.target());
  request.path.erase(std::min(request.path.find('?'), request.path.size()));
  request.headers = headers_of(got);
  request.body = std::move(got.body());
  return request;
}

}  // namespace

struct Server::Connection {
  std::unique_ptr<Stream> stream;
  std::thread thread;
  bool done = false;
};

Server::Server(ServerOptions options, Handler handler)
    : options_(std::move(options)), handler_(std::move(handler)), socket_(listening(options_.listen)) {
  acceptor_ = std::thread([this] { accept(); });
}

Server::~Server() {
  {
    const std::lock_guard hold(lock_);
    end_ = true;
    for (const auto& c : connections_) {
      if (c->stream) c->stream->close();
    }
  }
  shutdown(socket_, SHUT_RDWR);
  acceptor_.join();
  for (const auto& c : connections_) c->thread.join();
  close(socket_);
}

void Server::accept() {
  for (;;) {
    sockaddr_storage peer{};
    socklen_t size = sizeof peer;
    const int made = accept4(socket_, reinterpret_cast<sockaddr*>(&peer), &size, SOCK_CLOEXEC);
    const std::lock_guard hold(lock_);
    if (end_) {
      if (made >= 0) close(made);
      return;
    }
    std::erase_if(connections_, [](const auto& c) {
      if (c->done) c->thread.join();
      return c->done;
    });
    if (made < 0) {
      if (errno == EMFILE || errno == ENFILE || errno == ENOMEM)
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
      continue;
    }
    if (static_cast<int>(connections_.size()) >= options_.connections) {
      close(made);
      continue;
    }
    Connection& connection = *connections_.emplace_back(std::make_unique<Connection>());
    connection.stream = std::make_unique<Stream>(made, name_of(peer, size), options_.tls, options_.patience);
    connection.thread = std::thread([this, &connection] {
      serve(*connection.stream);
      const std::lock_guard hold_end(lock_);
      connection.stream.reset();
      connection.done = true;
    });
  }
}

void Server::serve(Stream& connection) {
  try {
    connection.accept_tls();
    BeastStream stream(connection);
    beast::flat_buffer buffer;
    for (bool open = true; open;) {
      wire::request_parser<wire::string_body> in;
      in.body_limit(kMostBody);
      boost::system::error_code error;
      wire::read(stream, buffer, in, error);
      Response answer;
      if (error == wire::error::body_limit) {
        answer = {413, {}, fmt::format("the request has a body of more than {} bytes", kMostBody)};
        open = false;
      } else if (error) {
        return;
      } else {
        auto got = in.release();
        open = got.keep_alive();
        try {
          answer = handler_(request_of(got));
        } catch (const std::exception& e) {
          answer = {500, {}, e.what()};
        }
      }
      wire::response<wire::string_body> out(static_cast<wire::status>(answer.status), 11);
      for (const auto& [name, value] : answer.headers) out.set(name, value);
      out.keep_alive(open);
      out.body() = std::move(answer.body);
      out.prepare_payload();
      wire::write(stream, out, error);
      if (error) return;
    }
  } catch (const ConnectionError&) {
    return;  // the client is gone
  }
}

}  // namespace kilter::http
