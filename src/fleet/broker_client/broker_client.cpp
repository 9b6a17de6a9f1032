#include "fleet/broker_client/broker_client.h"

#include <kilter/version.h>

#include <utility>

#include "base/connection_error.h"
#include "base/files.h"
#include "fleet/broker_client/broker_protocol.h"

namespace kilter::fleet {
namespace {

std::string token_in(const std::string& file) {
  if (file.empty()) {
    kilter::fail(ErrorKind::usage,
                 "a broker expects a token; name the file that contains it with --token (`kilter-broker new-token "
                 "NAME`, on the broker's machine, creates one)");
  }
  std::string token = read_file(file);
  token.erase(std::min(token.find_first_of(" \r\n"), token.size()));
  if (token.empty()) kilter::fail(ErrorKind::usage, "'{}' has no token in its first line", file);
  return token;
}

}  // namespace

BrokerClient::BrokerClient(BrokerAccess access)
    : access_(std::move(access)),
      client_({.url = access_.url, .ca_file = access_.ca_file, .patience = access_.patience}),
      token_(token_in(access_.token_file)) {}

std::string BrokerClient::ask(const std::string& method, const std::string& path, std::string body, double wait) {
  http::Request request{.method = method, .path = path, .headers = {}, .body = std::move(body)};
  request.headers["authorization"] = "Bearer " + token_;
  request.headers["user-agent"] = "kilter-agent/" KILTER_VERSION_STRING;
  request.headers[kProtocolHeader] = std::to_string(kBrokerProtocol);
  http::Response answer = client_.ask(request, wait);
  const auto say = [&](ErrorKind kind) { kilter::fail(kind, "{}: {}", access_.url, answer.body); };
  switch (answer.status) {
    case kDone:
      return std::move(answer.body);
    case kUnknownToken:
      kilter::fail(ErrorKind::usage, "{}: {} (the token in '{}')", access_.url, answer.body, access_.token_file);
    case kForbidden:
    case kRefused:
      say(ErrorKind::usage);
      break;
    case kBadRequest:
    case kNothingThere:
      say(ErrorKind::bad_input);
      break;
    case kOtherProtocol:
      say(ErrorKind::unsupported);
      break;
    default:
      break;
  }
  throw ConnectionError(ErrorKind::io, fmt::format("{}: {} (status {})", access_.url, answer.body, answer.status));
}

void BrokerClient::announce(const std::string& agent, const std::string& device_class, const std::string& facts) {
  agent_ = agent, device_class_ = device_class;
  (void)ask("POST", "/v1/announce", pack({{{"agent", agent}, {"device_class", device_class}, {"facts", facts}}}));
}

std::vector<Job> BrokerClient::claim(const std::string& agent, int most) {
  Message got = unpack_message(ask(
      "POST", "/v1/claim",
      pack({{{"agent", agent}, {"device_class", device_class_}, {"most", most}, {"lease", access_.lease_seconds}}})));
  notice_ = int_field(got.head, "notice");
  std::vector<Job> jobs;
  for (const nlohmann::json& head : got.head.value("jobs", nlohmann::json::array())) {
    if (jobs.size() == got.blocks.size()) kilter::fail(ErrorKind::bad_input, "{}: a job has no payload", access_.url);
    jobs.push_back({.id = int_field(head, "id"),
                    .kind = text_field(head, "kind"),
                    .run = text_field(head, "run"),
                    .candidates = static_cast<int>(int_field(head, "candidates")),
                    .attempt = static_cast<int>(int_field(head, "attempt")),
                    .payload = std::move(got.blocks[jobs.size()])});
  }
  return jobs;
}

Beat BrokerClient::beat(const std::string& agent, const std::string& state) {
  const Message got = unpack_message(
      ask("POST", "/v1/beat", pack({{{"agent", agent}, {"state", state}, {"lease", access_.lease_seconds}}})));
  Beat beat{flag_field(got.head, "draining"), {}};
  for (const nlohmann::json& job : got.head.value("held", nlohmann::json::array()))
    if (job.is_number_integer()) beat.held.insert(job.get<int64_t>());
  return beat;
}

Delivery BrokerClient::deliver(const std::string& agent, int64_t job, const std::string& device,
                               std::span<const Result> results) {
  Message message{{{"agent", agent}, {"job", job}, {"device", device}}};
  nlohmann::json& all = message.head["results"] = nlohmann::json::array();
  for (const Result& r : results) {
    all.push_back({{"problem", r.problem}, {"schedule", r.schedule}, {"conditions", r.conditions}, {"code", r.code}});
    message.blocks.push_back(r.body);
  }
  return delivery_of(text_field(unpack_message(ask("POST", "/v1/deliver", pack(message))).head, "delivery"));
}

bool BrokerClient::fail(const std::string& agent, int64_t job, const std::string& reason) {
  const std::string answer = ask("POST", "/v1/fail", pack({{{"agent", agent}, {"job", job}, {"reason", reason}}}));
  return flag_field(unpack_message(answer).head, "held");
}

bool BrokerClient::give_back(const std::string& agent, int64_t job) {
  const std::string answer = ask("POST", "/v1/give_back", pack({{{"agent", agent}, {"job", job}}}));
  return flag_field(unpack_message(answer).head, "held");
}

std::string BrokerClient::blob(const std::string& hash) { return ask("GET", kBlobs + hash, ""); }

std::string BrokerClient::program(const std::string& architecture) {
  Message got = unpack_message(ask("POST", "/v1/program", pack({{{"agent", agent_}, {"architecture", architecture}}})));
  return got.blocks.empty() ? std::string() : std::move(got.blocks.front());
}

void BrokerClient::wait_for_jobs(double seconds) {
  (void)ask("POST", "/v1/wait",
            pack({{{"agent", agent_}, {"device_class", device_class_}, {"notice", notice_}, {"seconds", seconds}}}),
            seconds);
}

}  // namespace kilter::fleet
