// A source without jobs, for tests that need only a part of a source.
#pragma once

#include "fleet/agent/job_source.h"

namespace kilter::fleet {

class IdleSource : public JobSource {
 public:
  void announce(const std::string&, const std::string&, const std::string&) override {}
  std::vector<Job> claim(const std::string&, int) override { return {}; }
  Beat beat(const std::string&, const std::string&) override { return {}; }
  Delivery deliver(const std::string&, int64_t, const std::string&, std::span<const Result>) override {
    return Delivery::stored;
  }
  bool fail(const std::string&, int64_t, const std::string&) override { return false; }
  bool give_back(const std::string&, int64_t) override { return false; }
  std::string blob(const std::string&) override { return {}; }
  std::string program(const std::string&) override { return {}; }
  void wait_for_jobs(double) override {}
};

}  // namespace kilter::fleet
