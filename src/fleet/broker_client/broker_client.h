// Jobs from a broker (fleet/broker/broker.h), for agents that cannot reach the database.
#pragma once

#include <string>
#include <vector>

#include "fleet/agent/job_source.h"
#include "http/client.h"

namespace kilter::fleet {

struct BrokerAccess {
  std::string url;         ///< https://HOST:PORT
  std::string token_file;  ///< its first line is the agent's token
  std::string ca_file;     ///< http::Tls::for_clients()
  double lease_seconds = 30;
  double patience = 20;  ///< http::ClientOptions::patience
};

class BrokerClient : public JobSource {
 public:
  /// Does not connect yet. Throws usage for a malformed URL, and for files that cannot be read, naming them.
  explicit BrokerClient(BrokerAccess access);

  using JobSource::beat;
  using JobSource::claim;
  void announce(const std::string& agent, const std::string& device_class, const std::string& facts) override;
  std::vector<Job> claim(const std::string& agent, int most) override;
  Beat beat(const std::string& agent, const std::string& state) override;
  Delivery deliver(const std::string& agent, int64_t job, const std::string& device,
                   std::span<const Result> results) override;
  bool fail(const std::string& agent, int64_t job, const std::string& reason) override;
  bool give_back(const std::string& agent, int64_t job) override;
  std::string blob(const std::string& hash) override;
  std::string program(const std::string& architecture) override;
  void wait_for_jobs(double seconds) override;

 private:
  /// Sends a request and returns the body of the response.
  std::string ask(const std::string& method, const std::string& path, std::string body, double wait = 0);

  BrokerAccess access_;
  http::Client client_;
  std::string token_;
  std::string agent_, device_class_;  ///< as given to announce()
  int64_t notice_ = 0;                ///< of the last claim: which jobs the broker knew of
};

}  // namespace kilter::fleet
