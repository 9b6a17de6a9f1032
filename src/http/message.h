// HTTP/1.1 as Kilter uses it: requests and responses with whole bodies, over connections that stay open.
#pragma once

#include <map>
#include <string>

namespace kilter::http {

struct Request {
  std::string method = "GET";
  std::string path = "/";                           ///< without the query
  std::map<std::string, std::string> headers = {};  ///< names in lower case
  std::string body = {};
};

struct Response {
  int status = 200;
  std::map<std::string, std::string> headers = {};  ///< names in lower case
  std::string body = {};
};

/// The largest body, for both sides: a job or a blob of 64 MiB, and its envelope.
constexpr size_t kMostBody = (size_t{64} << 20) + (size_t{1} << 20);

}  // namespace kilter::http
