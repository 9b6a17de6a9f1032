// Does the jobs of remote runners on this machine.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "fleet/agent/job_source.h"
#include "fleet/agent/trial_job.h"

namespace kilter::fleet {

class TrialHost {
 public:
  /// `blobs`: where what the jobs refer to is. `worker`: RunnerOptions::worker.
  explicit TrialHost(JobSource& blobs, std::filesystem::path worker = {});
  ~TrialHost();
  TrialHost(const TrialHost&) = delete;
  TrialHost& operator=(const TrialHost&) = delete;

  /// Does a job. What is wrong with it is in the answer. Throws ConnectionError if the source of the blobs cannot be
  /// reached.
  TrialAnswer run(const TrialJob& job);

 private:
  class Session;
  JobSource& blobs_;
  std::filesystem::path worker_;
  std::unique_ptr<Session>
      session_;  ///< of the last job; only one, because its variants take as much memory as a network
  std::string session_name_;
};

}  // namespace kilter::fleet
