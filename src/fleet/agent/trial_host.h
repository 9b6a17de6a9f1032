// Runs jobs of remote runners on this machine.
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
  /// `blobs`: the source of the data that jobs refer to. `worker`: RunnerOptions::worker.
  explicit TrialHost(JobSource& blobs, std::filesystem::path worker = {});
  ~TrialHost();
  TrialHost(const TrialHost&) = delete;
  TrialHost& operator=(const TrialHost&) = delete;

  /// Runs a job. The answer reports errors of the job. Throws ConnectionError if the source of the blobs cannot be
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
