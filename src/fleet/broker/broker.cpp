#include "fleet/broker/broker.h"

#include <openssl/evp.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/connection_error.h"
#include "base/json_text.h"
#include "base/text.h"
#include "fleet/status.h"

namespace kilter::embedded {
extern const std::string_view fleet_page;
}

namespace kilter::fleet {
namespace {

constexpr double kMostWait = 10;  ///< seconds that a request waits for jobs
constexpr double kLook = 1;       ///< seconds between checks whether to end

http::Response text(int status, std::string words) {
  return {status, {{"content-type", "text/plain; charset=utf-8"}}, std::move(words)};
}

/// Returns the token of a request: a bearer token, or the password that a browser sends.
std::string token_of(const http::Request& request) {
  const auto given = request.headers.find("authorization");
  if (given == request.headers.end()) return "";
  std::string_view value = given->second;
  constexpr std::string_view kBearer = "Bearer ", kBasic = "Basic ";
  if (value.starts_with(kBearer)) return std::string(value.substr(kBearer.size()));
  if (!value.starts_with(kBasic)) return "";
  value.remove_prefix(kBasic.size());
  std::string plain(value.size(), '\0');
  if (value.size() % 4 != 0 || value.size() > 4096) return "";
  const int bytes =
      EVP_DecodeBlock(reinterpret_cast<unsigned char*>(plain.data()),
                      reinterpret_cast<const unsigned char*>(value.data()), static_cast<int>(value.size()));
  if (bytes < 0) return "";
  plain.resize(static_cast<size_t>(bytes));
  while (!plain.empty() && plain.back() == '\0') plain.pop_back();  // padding of the last block
  const size_t colon = plain.find(':');
  return colon == std::string::npos ? "" : plain.substr(colon + 1);
}

std::vector<Result> results_of(const Message& asked) {
  const nlohmann::json all = asked.head.value("results", nlohmann::json::array());
  if (!all.is_array() || all.size() != asked.blocks.size())
    fail(ErrorKind::bad_input, "a delivery has {} results and {} blocks; expected the same number", all.size(),
         asked.blocks.size());
  std::vector<Result> results;
  for (const nlohmann::json& r : all) {
    results.push_back({text_field(r, "problem"), text_field(r, "schedule"), text_field(r, "conditions"),
                       text_field(r, "code"), asked.blocks[results.size()]});
  }
  return results;
}

}  // namespace

/// A connection to the database, returned to the pool by the destructor.
class Broker::Borrowed {
 public:
  explicit Borrowed(Broker& broker) : broker_(broker) {
    std::unique_lock hold(broker.lock_);
    broker.returned_.wait(
        hold, [&] { return !broker.idle_.empty() || broker.connected_ < broker.options_.database_connections; });
    if (!broker.idle_.empty()) {
      queue_ = std::move(broker.idle_.back());
      broker.idle_.pop_back();
      return;
    }
    ++broker.connected_;
    hold.unlock();
    try {
      queue_ = std::make_unique<Queue>(broker.options_.url);
    } catch (...) {
      give_back();
      throw;
    }
  }
  ~Borrowed() { give_back(); }
  Borrowed(const Borrowed&) = delete;
  Borrowed& operator=(const Borrowed&) = delete;
  Queue* operator->() const { return queue_.get(); }
  Queue& operator*() const { return *queue_; }

 private:
  void give_back() {
    {
      const std::lock_guard hold(broker_.lock_);
      if (queue_)
        broker_.idle_.push_back(std::move(queue_));
      else
        --broker_.connected_;
    }
    broker_.returned_.notify_one();
  }

  Broker& broker_;
  std::unique_ptr<Queue> queue_;
};

Broker::Broker(BrokerOptions options) : options_(std::move(options)), tokens_(options_.tokens) {
  {
    const Borrowed first(*this);
  }  // reports at once what is wrong with the database
  server_ = std::make_unique<http::Server>(options_.server, [this](const http::Request& r) { return answer(r); });
  listener_ = std::thread([this] { listen(); });
}

Broker::~Broker() {
  {
    const std::lock_guard hold(lock_);
    end_ = true;
    for (auto& [device_class, waiters] : waiters_) waiters.jobs.notify_all();
  }
  listener_.join();
  server_.reset();
}

/// Notifies waiting requests of new jobs. They also check by themselves now and then, so they miss nothing if the
/// database could not be reached for a while.
void Broker::listen() {
  std::unique_ptr<Queue> queue;
  std::unique_lock hold(lock_);
  while (!end_) {
    hold.unlock();
    std::vector<std::string> classes;
    try {
      if (!queue) queue = std::make_unique<Queue>(options_.url);
      classes = queue->wait_for_classes(kLook);
    } catch (const Error&) {
      queue.reset();
      std::this_thread::sleep_for(std::chrono::duration<double>(kLook));
    }
    hold.lock();
    for (const std::string& device_class : classes) {
      ++notices_[device_class];
      if (const auto waiters = waiters_.find(device_class); waiters != waiters_.end())
        waiters->second.jobs.notify_one();
    }
  }
}

http::Response Broker::answer(const http::Request& request) {
  try {
    return request.path.starts_with(kCalls) ? answer_agent(request) : look(request);
  } catch (const ConnectionError& e) {
    return text(kNoDatabase, e.message());
  } catch (const Error& e) {
    if (e.kind() == ErrorKind::usage) return text(kRefused, e.message());
    return text(e.kind() == ErrorKind::bad_input ? kBadRequest : 500, e.message());
  }
}

http::Response Broker::answer_agent(const http::Request& request) {
  const TokenLine token = tokens_.find(token_of(request));
  if (token.name.empty() || token.use != TokenUse::agent) {
    return text(
        kUnknownToken,
        "the broker does not know this token, or it is not for an agent; `kilter-broker new-token NAME` creates one");
  }
  const auto protocol = request.headers.find(kProtocolHeader);
  if (protocol == request.headers.end() || protocol->second != std::to_string(kBrokerProtocol)) {
    return text(
        kOtherProtocol,
        fmt::format("the agent uses protocol {}, and the broker uses {}; install the same version of Kilter on both",
                    protocol == request.headers.end() ? "(none)" : protocol->second, kBrokerProtocol));
  }
  if (request.path.starts_with(kBlobs)) {
    try {
      return {kDone, {}, Borrowed(*this)->blob(request.path.substr(std::string_view(kBlobs).size()))};
    } catch (const Error& e) {
      if (e.kind() != ErrorKind::bad_input) throw;
      return text(kNothingThere, e.message());
    }
  }
  const std::string name = request.path.substr(std::string_view(kCalls).size());
  const Message asked = unpack_message(request.body);
  if (const std::string agent = text_field(asked.head, "agent"); !token.fits(agent)) {
    return text(kForbidden,
                fmt::format("this token is for agents named {}, and this one is named {}; give it a token of "
                            "its own, or --name",
                            token.name, agent));
  }
  return {kDone, {}, pack(call(name, asked))};
}

Message Broker::call(const std::string& name, const Message& asked) {
  const nlohmann::json& head = asked.head;
  const std::string agent = text_field(head, "agent");
  if (name == "claim") return claim(asked);
  if (name == "wait") {
    wait(asked);
    return {};
  }
  const Borrowed queue(*this);
  if (name == "announce") {
    queue->announce(agent, text_field(head, "device_class"), text_field(head, "facts"));
    return {};
  }
  if (name == "beat") {
    queue->set_lease(number_field(head, "lease"));
    const Beat beat = queue->beat(agent, text_field(head, "state"));
    return {{{"draining", beat.draining}, {"held", beat.held}}};
  }
  if (name == "deliver") {
    const Delivery how = queue->deliver(agent, int_field(head, "job"), text_field(head, "device"), results_of(asked));
    return {{{"delivery", kilter::fleet::name(how)}}};
  }
  if (name == "program") {
    std::string offer = queue->program(text_field(head, "architecture"));
    Message out;
    if (!offer.empty()) out.blocks.push_back(std::move(offer));
    return out;
  }
  if (name == "fail") return {{{"held", queue->fail(agent, int_field(head, "job"), text_field(head, "reason"))}}};
  if (name == "give_back") return {{{"held", queue->give_back(agent, int_field(head, "job"))}}};
  kilter::fail(ErrorKind::bad_input, "the broker has nothing at {}{}", kCalls, name);
}

Message Broker::claim(const Message& asked) {
  Message out;
  {
    const std::lock_guard hold(lock_);
    out.head["notice"] = notices(text_field(asked.head, "device_class"));
  }
  const Borrowed queue(*this);
  queue->set_lease(number_field(asked.head, "lease"));
  out.head["jobs"] = nlohmann::json::array();
  const auto most = static_cast<int>(std::clamp<int64_t>(int_field(asked.head, "most"), 1, 100));
  for (Job& job : queue->claim(text_field(asked.head, "agent"), most)) {
    out.head["jobs"].push_back({{"id", job.id},
                                {"kind", job.kind},
                                {"run", job.run},
                                {"candidates", job.candidates},
                                {"attempt", job.attempt}});
    out.blocks.push_back(std::move(job.payload));
  }
  return out;
}

void Broker::wait(const Message& asked) {
  const std::string device_class = text_field(asked.head, "device_class");
  const auto seen = static_cast<uint64_t>(int_field(asked.head, "notice"));
  const double seconds = std::clamp(number_field(asked.head, "seconds"), 0.0, kMostWait);
  std::unique_lock hold(lock_);
  Waiters& waiters = waiters_[device_class];
  ++waiters.count;
  waiters.jobs.wait_for(hold, std::chrono::duration<double>(seconds),
                        [&] { return end_ || notices(device_class) != seen; });
  if (--waiters.count == 0) waiters_.erase(device_class);
}

/// `lock_` must be held.
uint64_t Broker::notices(const std::string& device_class) const {
  const auto found = notices_.find(device_class);
  return found == notices_.end() ? 0 : found->second;
}

http::Response Broker::look(const http::Request& request) {
  if (request.method != "GET") return text(405, "only GET is supported here");
  const TokenLine token = tokens_.find(token_of(request));
  if (token.name.empty() || token.use != TokenUse::read) {
    http::Response out =
        text(kUnknownToken, "give a read token as the password; `kilter-broker new-token --read NAME` creates one\n");
    out.headers["www-authenticate"] = "Basic realm=\"Kilter fleet\", charset=\"UTF-8\"";
    return out;
  }
  if (request.path == "/") {
    return {kDone,
            {{"content-type", "text/html; charset=utf-8"},
             {"content-security-policy",
              "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'"}},
            std::string(embedded::fleet_page)};
  }
  if (request.path == "/status.json")
    return {kDone,
            {{"content-type", "application/json"}, {"cache-control", "no-store"}},
            json_text(to_json(status_of(*Borrowed(*this))))};
  if (request.path == "/metrics")
    return {kDone,
            {{"content-type", "text/plain; version=0.0.4; charset=utf-8"}},
            metrics_text(status_of(*Borrowed(*this)))};
  return text(kNothingThere, "there is nothing here; the page is at /, the figures at /status.json and /metrics\n");
}

}  // namespace kilter::fleet
