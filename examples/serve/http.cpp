// The HTTP side: paths, limits of requests, and statuses. Every response to a faulty request is {"error": "..."}.

#include "http.h"

#include <httplib.h>
#include <sys/socket.h>

#include <algorithm>
#include <charconv>
#include <new>
#include <optional>
#include <thread>

namespace serve {
namespace {

using httplib::Request;
using httplib::Response;

constexpr const char* kJson = "application/json";
constexpr const char* kHeaderLength = "Inference-Header-Content-Length";
constexpr const char* kStopping = "the server is stopping";
constexpr size_t kLongestPath = 1024;
constexpr int kSecondsIdle = 2;     // that an idle connection is kept, and that a stop may take
constexpr int kSecondsStalled = 5;  // that a client may pause inside a request

/// The library's server, with a queue of connections that holds as many as clients open at once.
class Listener : public httplib::Server {
 public:
  bool lengthen_queue() { return ::listen(svr_sock_, SOMAXCONN) == 0; }
};

std::optional<size_t> number(const std::string& text) {
  size_t value = 0;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || end.ec != std::errc() || end.ptr != text.data() + text.size()) return std::nullopt;
  return value;
}

void answer(Response& response, int status, const std::string& body) {
  response.status = status;
  response.set_content(body, kJson);
}

/// Limits the bytes of the bodies that are in memory at the same time.
class Budget {
 public:
  explicit Budget(size_t most) : most_(most) {}
  bool take(size_t bytes) {
    if (used_.fetch_add(bytes) + bytes <= most_) return true;
    used_ -= bytes;
    return false;
  }
  void give_back(size_t bytes) { used_ -= bytes; }

 private:
  const size_t most_;
  std::atomic<size_t> used_ = 0;
};

/// The body of one request, counted in the budget while it exists.
class Body {
 public:
  explicit Body(Budget& budget) : budget_(budget) {}
  ~Body() { budget_.give_back(text.size()); }
  Body(const Body&) = delete;
  Body& operator=(const Body&) = delete;

  bool append(const char* data, size_t length) {
    if (!budget_.take(length)) return false;
    text.append(data, length);
    return true;
  }
  std::string text;

 private:
  Budget& budget_;
};

/// A path below /v2/models/, in its parts.
struct Path {
  std::string model, version, action;
};

std::optional<Path> model_path(const std::string& path) {
  constexpr std::string_view kBefore = "/v2/models/";
  if (!path.starts_with(kBefore)) return std::nullopt;
  std::vector<std::string> parts(1);
  for (const char c : path.substr(kBefore.size())) {
    if (c == '/') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  Path found{parts[0], "", ""};
  size_t next = 1;
  if (parts.size() >= 3 && parts[1] == "versions") {
    found.version = parts[2];
    next = 3;
  }
  if (next < parts.size()) found.action = parts[next++];
  if (next < parts.size()) return std::nullopt;
  return found;
}

}  // namespace

struct HttpServer::State {
  State(const HttpOptions& given, const Models& all) : options(given), models(all), budget(16 * given.max_request) {}

  Batcher& find(const Path& path) const;
  void answer_and_close(Response& response, int status, const std::string& text) const;
  bool refuse_framing(const Request& request, Response& response) const;
  void get(const Request& request, Response& response) const;
  void post(const Request& request, Response& response, const httplib::ContentReader& read);
  bool read_body(const Request& request, Response& response, const httplib::ContentReader& read, Body& body) const;
  void infer(const Request& request, Response& response, Batcher& model, const std::string& body) const;
  std::string metrics() const;

  const HttpOptions options;
  const Models& models;
  Budget budget;
  Listener listener;
  std::atomic<bool> stopping = false, served = false;
};

/// Responds to a request whose end is not known and closes the connection, because what follows must not be taken for
/// the next request. The library closes a connection if the provider of a body reports a failure, which this one does
/// after sending the whole body. (Once the library stops, it closes every connection after its response and calls no
/// provider.)
void HttpServer::State::answer_and_close(Response& response, int status, const std::string& text) const {
  if (stopping) return answer(response, status, error_body(text));
  response.status = status;
  response.set_header("Connection", "close");
  const std::string body = error_body(text);
  response.set_content_provider(body.size(), kJson, [body](size_t offset, size_t length, httplib::DataSink& sink) {
    sink.write(body.data() + offset, std::min(length, body.size() - offset));
    return false;
  });
}

Batcher& HttpServer::State::find(const Path& path) const {
  const auto found = models.find(path.model);
  if (found == models.end()) {
    std::string names;
    for (const auto& [name, model] : models) names += (names.empty() ? "" : ", ") + in_quotes(name);
    throw Failure(404, "no model " + in_quotes(path.model) + "; this server has " + names);
  }
  if (!path.version.empty() && path.version != kVersion)
    throw Failure(
        404, "model " + in_quotes(path.model) + ": no version " + in_quotes(path.version) + "; it has " + kVersion);
  return *found->second;
}

/// Refuses requests whose length is too large or not stated as the protocol requires. If a proxy and this server
/// disagreed about where a body ends, one client could send requests in the name of another.
bool HttpServer::State::refuse_framing(const Request& request, Response& response) const {
  const size_t lengths = request.get_header_value_count("Content-Length");
  const bool chunked = request.has_header("Transfer-Encoding");
  const std::optional<size_t> length = number(request.get_header_value("Content-Length"));
  const auto refuse = [&](int status, const std::string& text) {
    answer_and_close(response, status, text);
    return true;
  };
  if (request.path.size() > kLongestPath)
    return refuse(414, "the path has more than " + std::to_string(kLongestPath) + " bytes");
  if (lengths + (chunked ? 1 : 0) > 1 || (lengths == 1 && !length))
    return refuse(400, "the header does not have a single numeric Content-Length, or has Transfer-Encoding as well");
  if (chunked && request.get_header_value("Transfer-Encoding") != "chunked")
    return refuse(
        400, "Transfer-Encoding " + in_quotes(request.get_header_value("Transfer-Encoding")) + "; expected chunked");
  if (request.method != "POST" && request.method != "GET" && request.method != "HEAD")
    return refuse(405, "method " + in_quotes(request.method) + "; expected GET or POST");
  if (request.method != "POST")
    return chunked || length.value_or(0) > 0 ? refuse(400, request.method + " with a body") : false;
  if (!chunked && !length) return refuse(411, "no Content-Length");
  const std::string encoding = request.get_header_value("Content-Encoding");
  if (!encoding.empty() && encoding != "gzip" && encoding != "deflate" && encoding != "br" && encoding != "identity")
    return refuse(415, "Content-Encoding " + in_quotes(encoding) + "; expected gzip, deflate, br or identity");
  if (request.is_multipart_form_data())
    return refuse(400, "the body is a form; expected JSON, with optional binary data after it");
  // The rest of a body that is not much too large is read and dropped, since many clients read no response before they
  // have sent it.
  if (length.value_or(0) / 4 <= options.max_request) return false;
  return refuse(413, "the body has " + std::to_string(*length) + " bytes; expected at most " +
                         std::to_string(options.max_request));
}

std::string HttpServer::State::metrics() const {
  std::vector<std::pair<std::string, const Metrics*>> all;
  for (const auto& [name, model] : models) all.emplace_back(name, &model->metrics());
  std::string out;
  Metrics::append(out, all);
  return out;
}

void HttpServer::State::get(const Request& request, Response& response) const {
  if (stopping) throw Failure(503, kStopping);
  if (request.path == "/v2" || request.path == "/v2/") return answer(response, 200, server_metadata());
  if (request.path == "/v2/health/live") return answer(response, 200, R"({"live":true})");
  if (request.path == "/v2/health/ready") return answer(response, 200, R"({"ready":true})");
  if (request.path == "/metrics") {
    response.status = 200;
    return response.set_content(metrics(), "text/plain; version=0.0.4");
  }
  const std::optional<Path> path = model_path(request.path);
  if (path && path->action.empty()) return answer(response, 200, model_metadata(find(*path).signature()));
  if (path && path->action == "ready") {
    return answer(response, 200, model_ready(find(*path).signature()));
  }
  if (path && path->action == "infer") throw Failure(405, "method " + in_quotes(request.method) + "; expected POST");
  throw Failure(404, "no path " + in_quotes(request.path) +
                         "; expected one of the Open Inference Protocol, such as /v2/models/NAME");
}

/// Reads the body. If that is not possible, responds to the request and returns false.
bool HttpServer::State::read_body(const Request& request, Response& response, const httplib::ContentReader& read,
                                  Body& body) const {
  bool long_body = false, full = false;
  body.text.reserve(std::min<size_t>(number(request.get_header_value("Content-Length")).value_or(0), size_t{1} << 20));
  const bool complete = read([&](const char* data, size_t length) {
    long_body = body.text.size() + length > options.max_request;  // chunked or compressed bodies
    full = !long_body && !body.append(data, length);
    return !long_body && !full;
  });
  if (complete) return true;
  const std::string limit = "expected at most " + std::to_string(options.max_request);
  if (long_body) {
    answer_and_close(response, 413,
                     "the body has more than " + std::to_string(options.max_request) + " bytes; " + limit);
  } else if (full) {
    answer_and_close(response, 503,
                     "the requests in progress need all the memory that this server gives them; try again later");
  } else if (response.status == 413) {  // the library has read the body to its end
    answer(response, 413,
           error_body("the body has " + request.get_header_value("Content-Length") + " bytes; " + limit));
  } else {
    answer_and_close(response, 400,
                     "the body ended after " + std::to_string(body.text.size()) +
                         " bytes, or could not be decompressed; expected " +
                         (request.has_header("Content-Length") ? request.get_header_value("Content-Length") + " bytes"
                                                               : "a last chunk"));
  }
  return false;
}

void HttpServer::State::infer(const Request& request, Response& response, Batcher& model,
                              const std::string& body) const {
  size_t json = body.size();
  if (request.has_header(kHeaderLength)) {
    const std::optional<size_t> stated = number(request.get_header_value(kHeaderLength));
    if (!stated || *stated > body.size()) {
      throw Failure(400, std::string(kHeaderLength) + " " + in_quotes(request.get_header_value(kHeaderLength)) +
                             "; expected 0 to " + std::to_string(body.size()) + ", the bytes of the body");
    }
    json = *stated;
  }
  const InferRequest asked = parse_infer(model.signature(), body, json);
  InferAnswer made = infer_answer(model.signature(), asked, model.run(asked.inputs));
  response.status = 200;
  if (made.binary) response.set_header(kHeaderLength, std::to_string(made.json_bytes));
  response.set_content(std::move(made.body), made.binary ? "application/octet-stream" : kJson);
}

void HttpServer::State::post(const Request& request, Response& response, const httplib::ContentReader& read) {
  Body body(budget);
  if (!read_body(request, response, read, body)) return;
  if (stopping) throw Failure(503, kStopping);
  const std::optional<Path> path = model_path(request.path);
  if (!path || path->action != "infer") {
    throw Failure(404, "no path " + in_quotes(request.path) + " for POST; expected /v2/models/NAME/infer");
  }
  Batcher& model = find(*path);
  try {
    infer(request, response, model, body.text);
    model.metrics().answered(response.status);
  } catch (const Failure& failure) {
    model.metrics().answered(failure.status());
    throw;
  } catch (...) {
    model.metrics().answered(500);
    throw;
  }
}

namespace {

/// Runs `f`; a failure becomes the response.
template <class F>
void answered(Response& response, F&& f) {
  try {
    f();
  } catch (const Failure& failure) {
    answer(response, failure.status(), error_body(failure.what()));
  } catch (const std::bad_alloc&) {
    answer(response, 503, error_body("out of memory; try again later"));
  } catch (const std::exception& error) {
    answer(response, 500, error_body(error.what()));
  }
}

}  // namespace

HttpServer::HttpServer(const HttpOptions& options, const Models& models)
    : state_(std::make_unique<State>(options, models)) {
  State& state = *state_;
  Listener& listener = state.listener;
  listener.new_task_queue = [n = options.connections] { return new httplib::ThreadPool(static_cast<size_t>(n)); };
  listener.set_tcp_nodelay(true);
  listener.set_keep_alive_timeout(kSecondsIdle);
  listener.set_keep_alive_max_count(1'000'000);
  listener.set_read_timeout(kSecondsStalled);
  listener.set_write_timeout(kSecondsStalled);
  listener.set_payload_max_length(options.max_request);
  // Unlike the library's default, two servers cannot share a port.
  listener.set_socket_options([](socket_t socket) {
    const int on = 1;
    ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  });
  // Requests without a body are handled before the library looks for a route.
  listener.set_pre_routing_handler([&state](const Request& request, Response& response) {
    using Handling = httplib::Server::HandlerResponse;
    if (state.refuse_framing(request, response)) return Handling::Handled;
    if (request.method == "POST") return Handling::Unhandled;
    answered(response, [&] { state.get(request, response); });
    return Handling::Handled;
  });
  listener.Post(".*", [&state](const Request& request, Response& response, const httplib::ContentReader& read) {
    answered(response, [&] { state.post(request, response, read); });
  });
  // Errors that the library itself finds, such as an invalid request line.
  listener.set_error_handler([](const Request& /*request*/, Response& response) {
    if (response.has_header("Content-Type")) return;
    const int status = response.status;
    answer(response, status,
           error_body("the request is not HTTP/1.1 as this server reads it (status " + std::to_string(status) + ")"));
  });
}

HttpServer::~HttpServer() = default;

int HttpServer::bind() {
  Listener& listener = state_->listener;
  const HttpOptions& options = state_->options;
  int port = options.port;
  if (port == 0) {
    port = listener.bind_to_any_port(options.host);
  } else if (!listener.bind_to_port(options.host, port)) {
    port = -1;
  }
  if (port < 0 || !listener.lengthen_queue())
    throw std::runtime_error("cannot listen on " + options.host + ", port " + std::to_string(options.port) +
                             ": is it in use, or is it not an address of this machine?");
  return port;
}

void HttpServer::serve() {
  if (!state_->stopping) state_->listener.listen_after_bind();
  state_->served = true;
}

void HttpServer::stop() {
  state_->stopping = true;
  while (!state_->served && !state_->listener.is_running()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  state_->listener.stop();
}

}  // namespace serve
