// kilter-broker: stands between agents and the database of a fleet, and shows the fleet (src/fleet/broker/broker.h).
#include <fmt/format.h>
#include <kilter/version.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "broker/certificate.h"
#include "fleet/broker/broker.h"

namespace kilter {
namespace {

constexpr std::string_view kHelp =
    R"(kilter-broker: lets agents of a fleet work without reaching its database, and shows the fleet in a browser

usage: kilter-broker --fleet URL --tokens FILE --certificate FILE --key FILE [--listen HOST:PORT]
       kilter-broker new-token NAME --tokens FILE [--read]
       kilter-broker new-certificate HOST... --name NAME

Without a command, it serves until it is ended by SIGTERM or Ctrl-C:
  --fleet URL            the fleet's database, postgresql://USER@HOST/DATABASE (default: $KILTER_FLEET)
  --tokens FILE          who may use it; read again when it changes, so removing a line revokes a token
  --certificate FILE     its certificate in PEM form, followed by those up to the authority; and
  --key FILE             the certificate's key
  --no-tls               serve without TLS, only for agents on this machine
  --listen HOST:PORT     (default: 0.0.0.0:8443; with --no-tls 127.0.0.1:8080)
  --connections N        connections to the database, 1 to 100 (default: 8)

new-token adds a line to the token file and prints the token. It is for the agent NAME or, if NAME ends with *, for all
agents whose names begin with the rest. With --read, it is for the page at / and the metrics at /metrics.

new-certificate creates NAME.crt and NAME.key for these host names and IP addresses. Agents get NAME.crt with --ca.

  --version, --help

Exit codes: 0 ended, 2 wrong usage, 3 the database refuses it or a file cannot be written, 4 a bug.
)";

struct Words {
  std::string command;
  std::vector<std::string> names;  ///< after the command
  fleet::BrokerOptions broker;
  std::string listen, certificate, key, name;
  bool tls = true, read = false;
};

std::string value_of(const std::vector<std::string_view>& words, size_t& at) {
  if (at + 1 == words.size()) fail(ErrorKind::usage, "{} needs a value; --help lists the options", words[at]);
  return std::string(words[++at]);
}

Words parse(const std::vector<std::string_view>& words) {
  Words out;
  if (const char* const url = std::getenv("KILTER_FLEET")) out.broker.url = url;
  size_t at = 0;
  if (!words.empty() && !words[0].starts_with('-')) out.command = words[at++];
  if (!out.command.empty() && out.command != "new-token" && out.command != "new-certificate")
    fail(ErrorKind::usage, "unknown command '{}'; legal commands are new-token and new-certificate", out.command);
  for (; at < words.size(); ++at) {
    const std::string_view word = words[at];
    if (word == "--fleet") {
      out.broker.url = value_of(words, at);
    } else if (word == "--tokens") {
      out.broker.tokens = value_of(words, at);
    } else if (word == "--certificate") {
      out.certificate = value_of(words, at);
    } else if (word == "--key") {
      out.key = value_of(words, at);
    } else if (word == "--listen") {
      out.listen = value_of(words, at);
    } else if (word == "--name") {
      out.name = value_of(words, at);
    } else if (word == "--no-tls") {
      out.tls = false;
    } else if (word == "--read") {
      out.read = true;
    } else if (word == "--connections") {
      const std::string text = value_of(words, at);
      const auto count = try_parse_int(text);
      if (!count || *count < 1 || *count > 100) fail(ErrorKind::usage, "--connections {}: expected 1 to 100", text);
      out.broker.database_connections = static_cast<int>(*count);
    } else if (!out.command.empty() && !word.starts_with("--")) {
      out.names.emplace_back(word);
    } else {
      fail(ErrorKind::usage, "unknown option '{}'; --help lists the options", word);
    }
  }
  return out;
}

int new_token(const Words& words) {
  if (words.names.size() != 1 || words.broker.tokens.empty())
    fail(ErrorKind::usage, "new-token expects one NAME and --tokens FILE");
  const auto use = words.read ? fleet::TokenUse::read : fleet::TokenUse::agent;
  fmt::print("{}\n", fleet::Tokens::add(words.broker.tokens, use, words.names.front()));
  return 0;
}

int new_certificate(const Words& words) {
  if (words.names.empty() || words.name.empty())
    fail(ErrorKind::usage, "new-certificate expects a host name or IP address, or several, and --name NAME");
  const std::string certificate = words.name + ".crt", key = words.name + ".key";
  write_certificate(words.names, certificate, key);
  fmt::print("{}: the certificate, for agents too; {}: its key, for the broker only\n", certificate, key);
  return 0;
}

http::Address listen_address(const Words& words) {
  const std::string text = !words.listen.empty() ? words.listen : words.tls ? "0.0.0.0:8443" : "127.0.0.1:8080";
  const size_t colon = text.rfind(':');
  const auto port = colon == std::string::npos ? std::nullopt : try_parse_int(text.substr(colon + 1));
  if (!port || *port < 0 || *port > 65535)
    fail(ErrorKind::usage, "--listen {}: expected HOST:PORT with a port of 0 to 65535 (0: any that is free)", text);
  std::string host = text.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  if (!words.tls && !host.starts_with("127.") && host != "localhost" && host != "::1")
    fail(ErrorKind::usage, "--listen {}: without TLS, only addresses of this machine are legal", text);
  return {host, static_cast<int>(*port)};
}

int serve(Words& words) {
  fleet::BrokerOptions& broker = words.broker;
  if (broker.url.empty()) fail(ErrorKind::usage, "--fleet URL is missing; --help lists the options");
  if (broker.tokens.empty()) fail(ErrorKind::usage, "--tokens FILE is missing; `kilter-broker new-token` creates it");
  if (words.tls && (words.certificate.empty() || words.key.empty())) {
    fail(ErrorKind::usage,
         "--certificate FILE and --key FILE are missing; `kilter-broker new-certificate` creates them, and --no-tls "
         "serves agents on this machine without them");
  }
  broker.server.listen = listen_address(words);
  if (words.tls) broker.server.tls = http::Tls::for_servers(words.certificate, words.key);
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGTERM);
  sigaddset(&ends, SIGINT);
  pthread_sigmask(SIG_BLOCK, &ends, nullptr);  // also in the threads that begin below
  std::signal(SIGPIPE, SIG_IGN);
  const fleet::Broker serving(broker);
  fmt::print(stderr, "kilter-broker: serves {}://{}\n", words.tls ? "https" : "http", serving.address().text());
  int signal = 0;
  sigwait(&ends, &signal);
  fmt::print(stderr, "kilter-broker: ends\n");
  return 0;
}

int run(const std::vector<std::string_view>& arguments) {
  for (const std::string_view word : arguments) {
    if (word != "--help" && word != "-h" && word != "--version") continue;
    fmt::print("{}", word == "--version" ? KILTER_VERSION_STRING "\n" : kHelp);
    return 0;
  }
  Words words = parse(arguments);
  if (words.command == "new-token") return new_token(words);
  if (words.command == "new-certificate") return new_certificate(words);
  return serve(words);
}

}  // namespace
}  // namespace kilter

int main(int argc, char** argv) {
  try {
    return kilter::run({argv + 1, argv + argc});
  } catch (const kilter::Error& e) {
    fmt::print(stderr, "kilter-broker: {}\n", e.message());
    return e.kind() == kilter::ErrorKind::usage ? 2 : e.kind() == kilter::ErrorKind::internal ? 4 : 3;
  } catch (const std::exception& e) {
    fmt::print(stderr, "kilter-broker: {}\n", e.what());
    return 4;
  }
}
