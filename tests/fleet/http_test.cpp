// HTTP connections: a client and a server in this process, and arbitrary bytes sent to a server.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <thread>

#include "../base/error_of.h"
#include "base/connection_error.h"
#include "fleet/broker_client/broker_protocol.h"
#include "http/client.h"
#include "http/server.h"

namespace kilter::http {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// A server whose response repeats the request.
class HttpTest : public ::testing::Test {
 protected:
  HttpTest() { std::signal(SIGPIPE, SIG_IGN); }
  Response answer(const Request& request) {
    ++asked_;
    if (request.path == "/fails") throw std::runtime_error("a reason");
    if (request.path == "/slow") std::this_thread::sleep_for(std::chrono::milliseconds(700));
    return {request.path == "/refused" ? 409 : 200,
            {{"who", request.headers.at("host")}},
            request.method + request.path + request.body};
  }
  std::string url() const { return "http://" + server_.address().text(); }
  /// Sends bytes, and returns the response until the server closes the connection.
  std::string raw(const std::string& bytes) const {
    const int s = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in to{};
    to.sin_family = AF_INET, to.sin_port = htons(static_cast<uint16_t>(server_.address().port));
    inet_pton(AF_INET, "127.0.0.1", &to.sin_addr);
    EXPECT_EQ(connect(s, reinterpret_cast<const sockaddr*>(&to), sizeof to), 0);
    EXPECT_EQ(send(s, bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
    shutdown(s, SHUT_WR);
    std::string got(4096, '\0');
    size_t size = 0;
    for (ssize_t n = 0; (n = recv(s, got.data() + size, got.size() - size, 0)) > 0;) size += static_cast<size_t>(n);
    close(s);
    got.resize(size);
    return got;
  }

  std::atomic<int> asked_ = 0;
  Server server_{{.listen = {"127.0.0.1", 0}, .connections = 3, .patience = 2},
                 [this](const Request& r) { return answer(r); }};
};

TEST_F(HttpTest, BodiesOfAnySizeAreTransferred) {
  Client client({.url = url()});
  for (const size_t size : {size_t{0}, size_t{1}, size_t{1000}, size_t{5'000'000}}) {
    std::string body(size, 'x');
    for (size_t i = 0; i < size; i += 97) body[i] = static_cast<char>(i);
    const Response got = client.ask({.method = "POST", .path = "/a", .body = body});
    EXPECT_EQ(got.status, 200);
    EXPECT_EQ(got.body, "POST/a" + body);
    EXPECT_EQ(got.headers.at("who"), server_.address().text());
  }
}

TEST_F(HttpTest, StatusesAreReturnedAndExceptionsBecome500) {
  Client client({.url = url()});
  EXPECT_EQ(client.ask({.path = "/refused"}).status, 409);
  const Response failed = client.ask({.path = "/fails"});
  EXPECT_EQ(failed.status, 500);
  EXPECT_EQ(failed.body, "a reason");
  EXPECT_EQ(client.ask({.path = "/a?query"}).body, "GET/a") << "the query is left out, and the connection goes on";
}

TEST_F(HttpTest, ATooLargeBodyIsRefused) {
  const std::string said = raw(fmt::format("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", kMostBody + 1));
  EXPECT_THAT(said, HasSubstr("HTTP/1.1 413 "));
  EXPECT_THAT(said, HasSubstr("the request has a body of more than 68157440 bytes"));
  EXPECT_EQ(asked_, 0);
}

TEST_F(HttpTest, InvalidHttpOnlyClosesTheConnection) {
  for (const std::string bytes : {"", "\r\n\r\n", "GET", "GET / HTTP/9.9\r\n\r\n", "\x16\x03\x01 a TLS greeting",
                                  "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nshort"}) {
    EXPECT_EQ(raw(bytes), "") << bytes;
  }
  EXPECT_EQ(raw(std::string(100'000, 'a')), "");
  EXPECT_EQ(asked_, 0);
  EXPECT_EQ(Client({.url = url()}).ask({}).status, 200);
}

TEST_F(HttpTest, SilentServerTimesOut) {
  Client client({.url = url(), .patience = 0.2});
  EXPECT_EQ(client.ask({.path = "/slow"}, 2).status, 200) << "it may take longer if that is asked for";
  EXPECT_THAT(error_of([&] { client.ask({.path = "/slow"}); }),
              HasSubstr(" did not respond for 0.2 s when Kilter read"));
  EXPECT_EQ(asked_, 3) << "a request over a connection of an earlier call is sent once more";
}

TEST_F(HttpTest, IdleConnectionIsReopened) {
  Client client({.url = url()});
  EXPECT_EQ(client.ask({}).status, 200);
  std::this_thread::sleep_for(std::chrono::milliseconds(2500));
  EXPECT_EQ(client.ask({}).status, 200);
}

TEST_F(HttpTest, ConnectionsBeyondTheLimitAreClosed) {
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 3; ++i) {
    clients.push_back(std::make_unique<Client>(ClientOptions{.url = url()}));
    EXPECT_EQ(clients.back()->ask({}).status, 200);
  }
  Client fourth({.url = url()});
  EXPECT_THROW(fourth.ask({}), ConnectionError);
  clients.clear();
  for (int i = 0; i < 50; ++i) {  // the server learns of it a little later
    try {
      EXPECT_EQ(fourth.ask({}).status, 200);
      return;
    } catch (const ConnectionError&) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }
  FAIL() << "the fourth client is refused although the others have gone";
}

TEST_F(HttpTest, UnreachableServerIsAnError) {
  Client client({.url = "http://127.0.0.1:1"});
  EXPECT_THAT(error_of([&] { client.ask({}); }), HasSubstr("127.0.0.1:1 cannot be reached: Connection refused"));
  EXPECT_THAT(error_of([&] { Server({.listen = server_.address()}, nullptr); }),
              HasSubstr("cannot listen there: Address already in use; name another address or port"));
  EXPECT_THAT(error_of([] { Client({.url = "https://host.invalid"}).ask({}); }),
              HasSubstr("host.invalid:443: the host is not known: "));
}

TEST(Url, IsParsed) {
  const auto text = [](const std::string& url) {
    return fmt::format("{} {}", parse_url(url).tls, parse_url(url).address.text());
  };
  EXPECT_EQ(text("https://a.b"), "true a.b:443");
  EXPECT_EQ(text("https://a.b:8443/"), "true a.b:8443");
  EXPECT_EQ(text("https://[::1]:1"), "true [::1]:1");
  EXPECT_EQ(text("http://localhost"), "false localhost:80");
  for (const char* bad : {"https://", "https://a:0", "https://a:65536", "https://a:b", "https://a/b", "https://u@a",
                          "ftp://a", "a", "https://a?b", "https://[::1", "http://a"}) {
    EXPECT_THROW(parse_url(bad), Error) << bad;
  }
}

}  // namespace
}  // namespace kilter::http

namespace kilter::fleet {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Message, RoundTrips) {
  const Message sent{{{"a", 1}, {"text", "\n\xc3\xa4"}}, {"", std::string("\0\n", 2), "bytes"}};
  const Message got = unpack_message(pack(sent));
  EXPECT_EQ(int_field(got.head, "a"), 1);
  EXPECT_EQ(text_field(got.head, "text"), "\n\xc3\xa4");
  EXPECT_EQ(got.blocks, sent.blocks);
  EXPECT_TRUE(unpack_message(pack({})).blocks.empty());
}

TEST(Message, MalformedBytesAreRefused) {
  for (const char* bytes : {"", "{}", "[]\n", "{\n", "{\"blocks\":5}\n", "{\"blocks\":[-1]}\n", "{\"blocks\":[1]}\n",
                            "{\"blocks\":[18446744073709551615]}\nabc", "{}\nabc"}) {
    try {
      unpack_message(bytes);
      FAIL() << bytes;
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::bad_input) << e.message();
    }
  }
  const Message got = unpack_message("{\"a\":\"b\"}\n");
  EXPECT_THAT(error_of([&] { int_field(got.head, "a"); }),
              HasSubstr("the field 'a' of a message has the type string; expected an integer"));
  EXPECT_THAT(error_of([&] { text_field(got.head, "b"); }), HasSubstr("a message has no field 'b'; expected a string"));
}

}  // namespace
}  // namespace kilter::fleet
