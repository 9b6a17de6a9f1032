// Connections over TCP, with TLS (OpenSSL) or without. Programs that use them must ignore SIGPIPE.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

struct ssl_st;
struct ssl_ctx_st;

namespace kilter::http {

/// Certificates for one side of TLS connections, version 1.2 or newer.
class Tls {
 public:
  /// Checks servers against the certificates in a PEM file, or against those of the system if the name is empty. Throws
  /// usage if the file has no certificates.
  static std::shared_ptr<const Tls> for_clients(const std::string& ca_file);
  /// Throws usage, naming the file, if the certificate or the key cannot be read or do not belong together.
  static std::shared_ptr<const Tls> for_servers(const std::string& certificate_file, const std::string& key_file);
  ~Tls();
  Tls(const Tls&) = delete;
  Tls& operator=(const Tls&) = delete;

 private:
  friend class Stream;
  explicit Tls(ssl_ctx_st* context) : context_(context) {}
  ssl_ctx_st* context_;
};

struct Address {
  std::string host;
  int port = 0;
  std::string text() const;  ///< "host:8443", with brackets around an IPv6 address
};

/// One connection. Only one thread at a time may use it, except for close(). All functions throw ConnectionError with
/// the kind io, naming the other side, if the connection is lost or nothing happens for `patience` seconds.
class Stream {
 public:
  /// Connects. `tls`: null for none. The certificate must be for the host of the address.
  Stream(const Address& address, std::shared_ptr<const Tls> tls, double patience);
  /// Takes an accepted connection; with TLS, accept_tls() must be called next.
  Stream(int socket, std::string peer, std::shared_ptr<const Tls> tls, double patience);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  void accept_tls();
  /// Returns the number of bytes read, at least 1; 0 at the end.
  size_t read(void* to, size_t bytes);
  size_t write(const void* from, size_t bytes);
  /// Changes how long reads and writes wait.
  void set_patience(double seconds);
  /// Ends the connection: calls that wait on other threads fail.
  void close();

 private:
  void start_tls(bool client, const std::string& host);
  [[noreturn]] void fail(int result, const char* doing) const;

  std::string peer_;
  std::shared_ptr<const Tls> tls_;
  int socket_ = -1;
  ssl_st* ssl_ = nullptr;
  double patience_;
};

}  // namespace kilter::http
