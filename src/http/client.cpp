#include "http/client.h"

#include <utility>

#include "base/connection_error.h"
#include "base/text.h"
#include "http/beast.h"

namespace kilter::http {
namespace {

bool is_this_machine(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

}  // namespace

Url parse_url(const std::string& text) {
  const auto refuse = [&](const char* why) {
    kilter::fail(ErrorKind::usage, "'{}' {}; expected https://HOST or https://HOST:PORT", text, why);
  };
  Url url;
  std::string rest = text;
  if (rest.starts_with("https://")) {
    rest.erase(0, 8);
  } else if (rest.starts_with("http://")) {
    rest.erase(0, 7);
    url.tls = false;
  } else {
    refuse("is not the address of a broker");
  }
  if (rest.ends_with('/')) rest.pop_back();
  if (rest.find_first_of("/?#@") != std::string::npos) refuse("has a path, a user or a query");
  url.address.port = url.tls ? 443 : 80;
  const size_t bracket = rest.starts_with('[') ? rest.find(']') : std::string::npos;
  const size_t colon = rest.find(':', bracket == std::string::npos ? 0 : bracket);
  if (colon != std::string::npos) {
    const auto port = try_parse_int(rest.substr(colon + 1));
    if (!port || *port < 1 || *port > 65535) refuse("has no port from 1 to 65535 after the colon");
    url.address.port = static_cast<int>(*port);
    rest.erase(colon);
  }
  if (bracket != std::string::npos) rest = rest.substr(1, bracket - 1);
  if (rest.empty()) refuse("has no host");
  url.address.host = rest;
  if (!url.tls && !is_this_machine(rest))
    kilter::fail(ErrorKind::usage,
                 "'{}': without TLS, tokens could be read on the way; use https:// (http:// is for this machine only)",
                 text);
  return url;
}

Client::Client(ClientOptions options) : options_(std::move(options)), url_(parse_url(options_.url)) {
  if (url_.tls) tls_ = Tls::for_clients(options_.ca_file);
}
Client::~Client() = default;

Response Client::ask(const Request& request, double wait) {
  wire::request<wire::string_body> out;
  out.version(11);
  out.method_string(request.method);
  out.target(request.path);
  out.set(wire::field::host, url_.address.text());
  for (const auto& [name, value] : request.headers) out.set(name, value);
  out.body() = request.body;
  out.prepare_payload();
  for (;;) {
    const bool fresh = stream_ == nullptr;
    try {
      if (fresh) stream_ = std::make_unique<Stream>(url_.address, tls_, options_.patience);
      stream_->set_patience(options_.patience + wait);
      BeastStream stream(*stream_);
      boost::system::error_code error;
      wire::write(stream, out, error);
      beast::flat_buffer buffer;
      wire::response_parser<wire::string_body> in;
      in.body_limit(kMostBody);
      if (!error) wire::read(stream, buffer, in, error);
      if (error)
        throw ConnectionError(ErrorKind::io, fmt::format("{}: the response is cut off or is not HTTP: {}", options_.url,
                                                         error.message()));
      auto got = in.release();
      if (!got.keep_alive()) stream_.reset();
      return {static_cast<int>(got.result_int()), headers_of(got), std::move(got.body())};
    } catch (const ConnectionError&) {
      stream_.reset();
      if (fresh) throw;
    }
  }
}

}  // namespace kilter::http
