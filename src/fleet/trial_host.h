// Does the jobs of remote runners on this machine.
#pragma once

#include <deque>
#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "fleet/queue.h"
#include "fleet/trial_job.h"

namespace kilter::fleet {

class TrialHost {
 public:
  /// `blobs`: where what the jobs refer to is. `worker`: RunnerOptions::worker.
  explicit TrialHost(Queue& blobs, std::filesystem::path worker = {});
  ~TrialHost();
  TrialHost(const TrialHost&) = delete;
  TrialHost& operator=(const TrialHost&) = delete;

  /// Does a job. What is wrong with it is in the answer. Throws io if the blobs cannot be read.
  TrialAnswer run(const TrialJob& job);

 private:
  class Session;
  Queue& blobs_;
  std::filesystem::path worker_;
  std::unique_ptr<Session>
      session_;  ///< of the last job; only one, because its variants take as much memory as a network
  std::string session_name_;
};

}  // namespace kilter::fleet
