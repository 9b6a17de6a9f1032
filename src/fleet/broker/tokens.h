// Who may ask a broker: a file with a line per token,
//
//   agent NAME sha256:HASH     for an agent of this name; NAME may end with *, for all names that begin so
//   read NAME sha256:HASH      for those who look at the fleet's page and metrics
//
// and comments after #. It has hashes only, so a copy of it opens nothing.
#pragma once

#include <chrono>
#include <filesystem>
#include <mutex>
#include <string>
#include <vector>

namespace kilter::fleet {

enum class TokenUse : uint8_t { agent, read };

struct TokenLine {
  TokenUse use = TokenUse::agent;
  std::string name, hash;
  /// Whether the token is for this agent.
  bool fits(const std::string& agent) const;
};

/// Follows changes of the file. Any thread may use it.
class Tokens {
 public:
  /// Throws usage for a file that cannot be read or has a wrong line, naming it.
  explicit Tokens(std::filesystem::path file);
  /// Returns the line of a token; a line without a name if there is none.
  TokenLine find(const std::string& token);
  /// Adds a line for a new token to the file, making the file if needed, and returns the token, which is nowhere else.
  static std::string add(const std::filesystem::path& file, TokenUse use, const std::string& name);

 private:
  void follow();

  std::filesystem::path file_;
  std::mutex lock_;
  std::vector<TokenLine> lines_;
  std::filesystem::file_time_type read_;
  std::chrono::steady_clock::time_point looked_;
};

}  // namespace kilter::fleet
