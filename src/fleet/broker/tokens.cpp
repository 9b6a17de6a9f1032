#include "fleet/broker/tokens.h"

#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <openssl/sha.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/files.h"
#include "base/text.h"

namespace kilter::fleet {
namespace {

constexpr std::string_view kHash = "sha256:";

template <class Bytes>
std::string hex(const Bytes& bytes) {
  std::string text;
  for (const unsigned char b : bytes) text += fmt::format("{:02x}", b);
  return text;
}

std::string hash_of(const std::string& token) {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> hash{};
  SHA256(reinterpret_cast<const unsigned char*>(token.data()), token.size(), hash.data());
  return hex(hash);
}

std::vector<TokenLine> lines_of(const std::filesystem::path& file) {
  std::vector<TokenLine> lines;
  const std::string text = read_file(file);
  int number = 0;
  for (const std::string_view line : split(text, '\n')) {
    ++number;
    const std::vector<std::string_view> words = split_words(line.substr(0, line.find('#')));
    if (words.empty()) continue;
    const bool agent = words[0] == "agent";
    if (words.size() != 3 || !(agent || words[0] == "read") || !words[2].starts_with(kHash) ||
        words[2].size() != kHash.size() + 64) {
      fail(ErrorKind::usage,
           "{}, line {}: expected `agent NAME sha256:HASH` or `read NAME sha256:HASH`; `kilter-broker new-token` adds "
           "such lines",
           file.string(), number);
    }
    lines.push_back(
        {agent ? TokenUse::agent : TokenUse::read, std::string(words[1]), std::string(words[2].substr(kHash.size()))});
  }
  return lines;
}

}  // namespace

bool TokenLine::fits(const std::string& agent) const {
  if (name.ends_with('*')) return agent.starts_with(std::string_view(name).substr(0, name.size() - 1));
  return agent == name;
}

Tokens::Tokens(std::filesystem::path file) : file_(std::move(file)) {
  try {
    read_ = std::filesystem::last_write_time(file_);
    lines_ = lines_of(file_);
  } catch (const std::filesystem::filesystem_error& e) {
    fail(ErrorKind::usage, "the token file '{}' cannot be read: {}; `kilter-broker new-token` creates it",
         file_.string(), e.code().message());
  }
}

/// Reads the file again if it has changed, at most once a second. If it has a malformed line now, its earlier contents
/// stay in effect.
void Tokens::follow() {
  const auto now = std::chrono::steady_clock::now();
  if (now - looked_ < std::chrono::seconds(1)) return;
  looked_ = now;
  std::error_code error;
  const auto changed = std::filesystem::last_write_time(file_, error);
  if (error || changed == read_) return;
  try {
    lines_ = lines_of(file_);
    read_ = changed;
  } catch (const Error&) {
    return;
  }
}

TokenLine Tokens::find(const std::string& token) {
  const std::string hash = hash_of(token);
  const std::lock_guard hold(lock_);
  follow();
  for (const TokenLine& line : lines_)
    if (CRYPTO_memcmp(line.hash.data(), hash.data(), hash.size()) == 0) return line;
  return {};
}

std::string Tokens::add(const std::filesystem::path& file, TokenUse use, const std::string& name) {
  if (name.empty() || name.find_first_of(" \t\r\n#") != std::string::npos)
    fail(ErrorKind::usage, "'{}' is not a legal name for a token: names must not be empty or contain spaces or #",
         name);
  std::array<unsigned char, 32> random{};
  require(RAND_bytes(random.data(), static_cast<int>(random.size())) == 1, "the system cannot provide random numbers");
  const std::string token = hex(random);
  const std::string line =
      fmt::format("{} {} {}{}\n", use == TokenUse::agent ? "agent" : "read", name, kHash, hash_of(token));
  const int to = open(file.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  const bool written = to >= 0 && write(to, line.data(), line.size()) == static_cast<ssize_t>(line.size());
  const int error = errno;
  if (to >= 0) close(to);
  if (!written) fail(ErrorKind::io, "the token file '{}' cannot be written: {}", file.string(), std::strerror(error));
  return token;
}

}  // namespace kilter::fleet
