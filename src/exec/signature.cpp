#include "exec/signature.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "base/files.h"
#include "base/handle.h"
#include "base/text.h"
#include "exec/sodium.h"

namespace kilter {
namespace {

constexpr size_t kPublicBytes = 32, kSecretBytes = 64, kSignatureBytes = 64;
constexpr std::string_view kPublicTitle = "kilter public key 1";
constexpr std::string_view kSecretTitle = "kilter secret key 1";
constexpr std::string_view kSignatureTitle = "kilter signature 1";

using Bytes = std::vector<unsigned char>;

std::string hex(const Bytes& bytes) { return fmt::format("{:02x}", fmt::join(bytes, "")); }

/// Returns the bytes of a line of hexadecimal digits; empty if it is not one of `size` bytes.
Bytes from_hex(std::string_view text, size_t size) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  if (text.size() != 2 * size || text.find_first_not_of(kDigits) != std::string_view::npos) return {};
  Bytes bytes;
  for (size_t i = 0; i < size; ++i)
    bytes.push_back(static_cast<unsigned char>(kDigits.find(text[2 * i]) << 4 | kDigits.find(text[2 * i + 1])));
  return bytes;
}

/// Reads a file of a title and lines of hexadecimal digits, each of so many bytes.
template <size_t N>
std::array<Bytes, N> read_lines(const std::filesystem::path& path, std::string_view title,
                                const std::array<size_t, N>& sizes) {
  constexpr uintmax_t kMost = 4096;
  std::error_code error;
  const bool regular = std::filesystem::is_regular_file(path, error);
  const bool small = regular && std::filesystem::file_size(path, error) <= kMost;
  if (!error && !small) fail(ErrorKind::bad_input, "{}: not a small file that starts with '{}'", path.string(), title);
  const std::string text = read_file(path);
  const std::vector<std::string_view> lines = split(trim(text), '\n');
  if (lines.front() != title) fail(ErrorKind::bad_input, "{}: not a file that starts with '{}'", path.string(), title);
  std::array<Bytes, N> values;
  for (size_t i = 0; i < N; ++i) {
    if (i + 1 < lines.size()) values[i] = from_hex(lines[i + 1], sizes[i]);
    if (values[i].empty())
      fail(ErrorKind::bad_input, "{}: line {}: expected {} digits of 0 to 9 and a to f; copy the file again",
           path.string(), i + 2, 2 * sizes[i]);
  }
  return values;
}

/// The state of a signature after all bytes.
Bytes digest(const Sodium& s, std::span<const std::byte> bytes) {
  Bytes state(s.state_bytes());
  s.start(state.data());
  s.update(state.data(), reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
  return state;
}

void write_new(const std::filesystem::path& path, const std::string& text, mode_t mode) {
  const Handle file(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode));
  if (!file) fail(ErrorKind::io, "{}: {}", path.string(), std::generic_category().message(errno));
  if (write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size())) return;
  unlink(path.c_str());
  fail(ErrorKind::io, "{}: cannot be written; is the disk full?", path.string());
}

}  // namespace

void write_keys(const std::filesystem::path& secret_key, const std::filesystem::path& public_key) {
  for (const std::filesystem::path& path : {secret_key, public_key}) {
    if (std::filesystem::exists(path))
      fail(ErrorKind::usage, "{}: exists; keys are never replaced: give another name, or move it away", path.string());
  }
  Bytes owner(kPublicBytes), secret(kSecretBytes);
  sodium().keypair(owner.data(), secret.data());
  write_new(secret_key, fmt::format("{}\n{}\n", kSecretTitle, hex(secret)), S_IRUSR | S_IWUSR);
  write_new(public_key, fmt::format("{}\n{}\n", kPublicTitle, hex(owner)), S_IRUSR | S_IWUSR | S_IRGRP | S_IROTH);
}

std::filesystem::path sign_file(const std::filesystem::path& file, const std::filesystem::path& secret_key) {
  const Sodium& s = sodium();
  const auto [secret] = read_lines<1>(secret_key, kSecretTitle, {kSecretBytes});
  Bytes state = digest(s, MappedFile::open(file)->bytes()), signature(kSignatureBytes);
  Bytes check = state;
  s.sign(state.data(), signature.data(), nullptr, secret.data());
  const Bytes owner(secret.end() - kPublicBytes, secret.end());  // the second half of a secret key is the public one
  if (s.verify(check.data(), signature.data(), owner.data()) != 0)
    fail(ErrorKind::bad_input, "{}: the two halves of the key do not belong together", secret_key.string());
  std::filesystem::path path = file;
  path += ".sig";
  write_file_atomically(path, fmt::format("{}\n{}\n{}\n", kSignatureTitle, hex(owner), hex(signature)));
  return path;
}

void check_signature(const std::filesystem::path& file, std::span<const std::byte> bytes,
                     const std::filesystem::path& public_key) {
  const Sodium& s = sodium();
  const auto [owner] = read_lines<1>(public_key, kPublicTitle, {kPublicBytes});
  std::filesystem::path path = file;
  path += ".sig";
  if (is_missing(path))
    fail(ErrorKind::bad_input, "{} is not signed: there is no file '{}', which `kilter sign` makes", file.string(),
         path.string());
  const auto [signer, signature] = read_lines<2>(path, kSignatureTitle, {kPublicBytes, kSignatureBytes});
  if (signer != owner) {
    fail(ErrorKind::bad_input, "{}: signed by the owner of the key {}, expected that of {} ({}); nothing in it was run",
         file.string(), hex(signer), public_key.string(), hex(owner));
  }
  Bytes state = digest(s, bytes);
  if (s.verify(state.data(), signature.data(), owner.data()) != 0) {
    fail(ErrorKind::bad_input, "{}: its bytes are not those that were signed in {}; nothing in it was run",
         file.string(), path.string());
  }
}

}  // namespace kilter
