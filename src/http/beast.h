// Beast's HTTP messages over Stream. Only for files of this folder: it takes seconds to compile.
#pragma once

#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>

#include "http/stream.h"

namespace kilter::http {

namespace beast = boost::beast;
namespace wire = boost::beast::http;

/// A Stream as Beast expects it. Lost connections are exceptions of Stream instead of error codes.
class BeastStream {
 public:
  explicit BeastStream(Stream& stream) : stream_(stream) {}

  template <class Buffers>
  size_t read_some(const Buffers& buffers, boost::system::error_code& error) {
    const boost::asio::mutable_buffer first = first_of<boost::asio::mutable_buffer>(buffers);
    if (first.size() == 0) return 0;
    const size_t got = stream_.read(first.data(), first.size());
    if (got == 0) error = boost::asio::error::eof;
    return got;
  }
  template <class Buffers>
  size_t read_some(const Buffers& buffers) {
    boost::system::error_code error;
    return read_some(buffers, error);
  }
  template <class Buffers>
  size_t write_some(const Buffers& buffers, boost::system::error_code& error) {
    error = {};
    const boost::asio::const_buffer first = first_of<boost::asio::const_buffer>(buffers);
    return first.size() == 0 ? 0 : stream_.write(first.data(), first.size());
  }
  template <class Buffers>
  size_t write_some(const Buffers& buffers) {
    boost::system::error_code error;
    return write_some(buffers, error);
  }

 private:
  template <class Buffer, class Buffers>
  static Buffer first_of(const Buffers& buffers) {
    for (auto at = boost::asio::buffer_sequence_begin(buffers); at != boost::asio::buffer_sequence_end(buffers); ++at) {
      const Buffer buffer(*at);
      if (buffer.size() > 0) return buffer;
    }
    return {};
  }

  Stream& stream_;
};

template <class Fields>
std::map<std::string, std::string> headers_of(const Fields& fields) {
  std::map<std::string, std::string> headers;
  for (const auto& field : fields) {
    std::string name(field.name_string());
    for (char& c : name) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
    headers[name] = std::string(field.value());
  }
  return headers;
}

}  // namespace kilter::http
