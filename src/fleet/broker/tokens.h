// Who may use a broker: a file with one line per token,
//
//   agent NAME sha256:HASH     for an agent of this name; NAME may end with *, for all names with this prefix
//   read NAME sha256:HASH      for reading the fleet's page and metrics
//
// and comments after #. It contains only hashes, so a copy of it gives no access.
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
  /// Returns whether the token is for this agent.
  bool fits(const std::string& agent) const;
};

/// The tokens of a file, which is read again when it changes. Any thread may use it.
class Tokens {
 public:
  /// Throws usage, naming the file or the line, if the file cannot be read or a line is malformed.
  explicit Tokens(std::filesystem::path file);
  /// Returns the line of a token; a line without a name if there is none.
  TokenLine find(const std::string& token);
  /// Adds a line for a new token to the file, creating the file if needed, and returns the token, which is not stored
  /// anywhere.
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
