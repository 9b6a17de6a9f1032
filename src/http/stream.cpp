#include "http/stream.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/connection_error.h"

namespace kilter::http {
namespace {

template <class... Args>
[[noreturn]] void fail_connection(fmt::format_string<Args...> format, Args&&... args) {
  throw ConnectionError(ErrorKind::io, fmt::format(format, std::forward<Args>(args)...));
}

/// Returns the first error in OpenSSL's queue, and clears the queue.
std::string tls_reason() {
  const unsigned long code = ERR_get_error();
  ERR_clear_error();
  const char* const words = code == 0 ? nullptr : ERR_reason_error_string(code);
  return words == nullptr ? "no reason is known" : words;
}

bool is_ip(const std::string& host) {
  in6_addr address{};
  return inet_pton(AF_INET, host.c_str(), &address) == 1 || inet_pton(AF_INET6, host.c_str(), &address) == 1;
}

/// Connects a non-blocking socket. Returns 0 or an error number.
int connect_within(int socket, const addrinfo& to, double seconds) {
  if (connect(socket, to.ai_addr, to.ai_addrlen) == 0) return 0;
  if (errno != EINPROGRESS) return errno;
  pollfd ready{socket, POLLOUT, 0};
  int got = 0;
  do got = poll(&ready, 1, static_cast<int>(std::min(seconds, 86400.0) * 1e3));
  while (got < 0 && errno == EINTR);
  if (got == 0) return ETIMEDOUT;
  int error = 0;
  socklen_t size = sizeof error;
  return getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &size) == 0 ? error : errno;
}

/// Returns a connected, blocking socket.
int connected(const Address& address, double patience) {
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int unknown = getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &wanted, &found);
  if (unknown != 0) fail_connection("{}: the host is not known: {}", address.text(), gai_strerror(unknown));
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> all(found, freeaddrinfo);
  int error = ENOENT;
  for (const addrinfo* to = found; to != nullptr; to = to->ai_next) {
    const int made = socket(to->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (made < 0) {
      error = errno;
      continue;
    }
    error = connect_within(made, *to, patience);
    if (error == 0) {
      fcntl(made, F_SETFL, fcntl(made, F_GETFL) & ~O_NONBLOCK);
      return made;
    }
    ::close(made);
  }
  fail_connection("{} cannot be reached: {}", address.text(), std::strerror(error));
}

}  // namespace

std::string Address::text() const {
  return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port) : fmt::format("[{}]:{}", host, port);
}

std::shared_ptr<const Tls> Tls::for_clients(const std::string& ca_file) {
  const std::shared_ptr<const Tls> made(new Tls(SSL_CTX_new(TLS_client_method())));
  require(made->context_ != nullptr, "OpenSSL cannot create a context: {}", tls_reason());
  SSL_CTX_set_min_proto_version(made->context_, TLS1_2_VERSION);
  SSL_CTX_set_verify(made->context_, SSL_VERIFY_PEER, nullptr);
  const bool read = ca_file.empty() ? SSL_CTX_set_default_verify_paths(made->context_) == 1
                                    : SSL_CTX_load_verify_file(made->context_, ca_file.c_str()) == 1;
  if (!read && !ca_file.empty())
    kilter::fail(ErrorKind::usage, "'{}' has no certificates in PEM form: {}", ca_file, tls_reason());
  ERR_clear_error();
  return made;
}

std::shared_ptr<const Tls> Tls::for_servers(const std::string& certificate_file, const std::string& key_file) {
  const std::shared_ptr<const Tls> made(new Tls(SSL_CTX_new(TLS_server_method())));
  require(made->context_ != nullptr, "OpenSSL cannot create a context: {}", tls_reason());
  SSL_CTX_set_min_proto_version(made->context_, TLS1_2_VERSION);
  if (SSL_CTX_use_certificate_chain_file(made->context_, certificate_file.c_str()) != 1)
    kilter::fail(ErrorKind::usage, "'{}' has no certificate in PEM form: {}", certificate_file, tls_reason());
  if (SSL_CTX_use_PrivateKey_file(made->context_, key_file.c_str(), SSL_FILETYPE_PEM) != 1)
    kilter::fail(ErrorKind::usage, "'{}' has no key in PEM form that matches '{}': {}", key_file, certificate_file,
                 tls_reason());
  return made;
}

Tls::~Tls() { SSL_CTX_free(context_); }

Stream::Stream(const Address& address, std::shared_ptr<const Tls> tls, double patience)
    : Stream(connected(address, patience), address.text(), std::move(tls), patience) {
  if (tls_) start_tls(true, address.host);
}

Stream::Stream(int socket, std::string peer, std::shared_ptr<const Tls> tls, double patience)
    : peer_(std::move(peer)), tls_(std::move(tls)), socket_(socket), patience_(patience) {
  set_patience(patience);
  const int on = 1;
  setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

Stream::~Stream() {
  if (ssl_ != nullptr) {
    SSL_set_quiet_shutdown(ssl_, 1);
    SSL_free(ssl_);
    ERR_clear_error();
  }
  ::close(socket_);
}

void Stream::accept_tls() {
  if (tls_) start_tls(false, "");
}

void Stream::set_patience(double seconds) {
  patience_ = seconds;
  const timeval most{static_cast<time_t>(seconds), static_cast<suseconds_t>(std::fmod(seconds, 1.0) * 1e6)};
  setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof most);
  setsockopt(socket_, SOL_SOCKET, SO_SNDTIMEO, &most, sizeof most);
}

void Stream::start_tls(bool client, const std::string& host) {
  ssl_ = SSL_new(tls_->context_);
  require(ssl_ != nullptr, "OpenSSL has no memory for a connection");
  SSL_set_fd(ssl_, socket_);
  if (client && is_ip(host)) {
    X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl_), host.c_str());
  } else if (client) {
    SSL_set_tlsext_host_name(ssl_, host.c_str());
    SSL_set1_host(ssl_, host.c_str());
  }
  const int result = client ? SSL_connect(ssl_) : SSL_accept(ssl_);
  if (result == 1) return;
  const long verified = SSL_get_verify_result(ssl_);
  if (!client || verified == X509_V_OK) fail(result, "began TLS");
  ERR_clear_error();
  throw ConnectionError(ErrorKind::usage,
                        fmt::format("{}: its certificate is not accepted: {}; name the certificate of its authority "
                                    "with --ca, and use the host name for which it was issued",
                                    peer_, X509_verify_cert_error_string(verified)));
}

void Stream::fail(int result, const char* doing) const {
  const int error = errno;
  const int kind = ssl_ == nullptr ? SSL_ERROR_SYSCALL : SSL_get_error(ssl_, result);
  const bool waited = kind == SSL_ERROR_WANT_READ || kind == SSL_ERROR_WANT_WRITE ||
                      (kind == SSL_ERROR_SYSCALL && (error == EAGAIN || error == EWOULDBLOCK));
  if (waited) {
    ERR_clear_error();
    fail_connection("{} did not respond for {:g} s when Kilter {}", peer_, patience_, doing);
  }
  const std::string reason = kind == SSL_ERROR_SSL ? tls_reason()
                             : error != 0          ? std::strerror(error)
                                                   : "it was closed by the other side";
  ERR_clear_error();
  fail_connection("the connection with {} was lost when Kilter {}: {}", peer_, doing, reason);
}

size_t Stream::read(void* to, size_t bytes) {
  const size_t most = std::min<size_t>(bytes, INT_MAX);
  for (;;) {
    errno = 0;
    const ssize_t got = ssl_ == nullptr ? recv(socket_, to, most, 0) : SSL_read(ssl_, to, static_cast<int>(most));
    if (got > 0) return static_cast<size_t>(got);
    if (ssl_ == nullptr && got == 0) return 0;
    if (ssl_ != nullptr && SSL_get_error(ssl_, static_cast<int>(got)) == SSL_ERROR_ZERO_RETURN) return 0;
    if (errno != EINTR) fail(static_cast<int>(got), "read");
  }
}

size_t Stream::write(const void* from, size_t bytes) {
  const size_t most = std::min<size_t>(bytes, INT_MAX);
  for (;;) {
    errno = 0;
    const ssize_t put =
        ssl_ == nullptr ? send(socket_, from, most, MSG_NOSIGNAL) : SSL_write(ssl_, from, static_cast<int>(most));
    if (put > 0) return static_cast<size_t>(put);
    if (errno != EINTR) fail(static_cast<int>(put), "wrote");
  }
}

void Stream::close() { shutdown(socket_, SHUT_RDWR); }

}  // namespace kilter::http
