// Newer builds of kilter-agent that a fleet offers. An agent replaces itself with one only if the agent's owner has
// named the key that signed it, and only if it is newer than the agent, so that an old offer cannot downgrade it.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "fleet/agent/job_source.h"
#include "fleet/agent/signed_job.h"
#include "fleet/agent/stored.h"
#include "fleet/agent/trial_job.h"

namespace kilter::fleet {

/// A marker in the file of each static agent. It identifies the program when the file is offered.
struct ProgramMarker {
  static constexpr std::string_view kMagic = "kilter-agent program 1\n";
#if defined(__aarch64__)
  static constexpr std::string_view kArchitecture = "aarch64";
#else
  static constexpr std::string_view kArchitecture = "x86_64";
#endif

  char magic[24] = {};
  char architecture[16] = {};  ///< zero-terminated, as the version is
  char version[16] = {};
  uint32_t protocol = kTrialProtocol;

  /// The marker of the program that is being compiled.
  constexpr explicit ProgramMarker(std::string_view program_version) {
    put(magic, kMagic), put(architecture, kArchitecture), put(version, program_version);
  }

 private:
  template <size_t N>
  static constexpr void put(char (&to)[N], std::string_view text) {
    for (size_t i = 0; i < text.size() && i + 1 < N; ++i) to[i] = text[i];
  }
};

struct AgentProgram {
  std::string architecture, version;
  uint32_t protocol = 0;
  Stored data = {};  ///< the file's bytes

  /// Returns whether agents that run `other` should replace it with this program: compares protocols first, then
  /// versions.
  bool newer_than(const AgentProgram& other) const;
  /// "kilter-agent 0.1.0 (protocol 4) for aarch64"
  std::string words() const;
};

/// Returns the running program, without its data.
AgentProgram this_program();
/// Returns the program in a file, without its data. Throws bad_input unless the file has exactly one marker.
AgentProgram program_in(std::string_view file);

/// Returns the signed offer of a program.
std::string pack_offer(const AgentProgram& program, const SecretKey& key);
/// Throws the errors of Trust::unwrap(), and bad_input for an offer that is cut off or for another processor.
AgentProgram unpack_offer(std::string_view offer, const Trust& trust, const std::string& architecture);

/// Installs programs that a fleet offers.
class Upgrades {
 public:
  /// `trust`: whose programs are accepted; never anyone's. `file`: the program to replace; empty: the running one.
  /// `tell`: receives log lines. `pause`: seconds until an offer that could not be fetched or written is tried again.
  /// Throws usage if the file's folder cannot be written.
  Upgrades(Trust trust, std::filesystem::path file, std::function<void(const std::string&)> tell, double pause = 600);

  /// Replaces the file if the fleet offers a newer program, and returns whether it did. Reports once why an offer is
  /// refused. Throws ConnectionError if the source cannot be reached.
  bool take(JobSource& source);
  /// Restores the program that take() replaced.
  void undo() const;
  const std::filesystem::path& file() const { return file_; }

 private:
  bool consider(JobSource& source, const AgentProgram& mine);
  std::filesystem::path beside(const char* ending) const;
  void replace(const std::string& program) const;

  Trust trust_;
  std::filesystem::path file_;
  std::function<void(const std::string&)> tell_;
  double pause_;
  std::string seen_;                            ///< the last offer that was refused or is not newer
  std::string told_;                            ///< why the last one was refused
  std::chrono::steady_clock::time_point next_;  ///< no attempt before this time
};

}  // namespace kilter::fleet
