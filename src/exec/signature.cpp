#include "exec/signature.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
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

/// A kind of text file: a title, and lines of hexadecimal digits.
struct Format {
  std::string_view title, words, origin;
};
constexpr Format kPublic{"kilter public key 1", "a public key", "NAME.public of `kilter sign --new-keys NAME`"};
constexpr Format kSecret{"kilter secret key 1", "a secret key", "NAME.secret of `kilter sign --new-keys NAME`"};
constexpr Format kSigned{"kilter signature 1", "a signature", "that `kilter sign` writes"};

template <size_t N>
using Bytes = std::array<unsigned char, N>;

template <size_t N>
std::string hex(const Bytes<N>& bytes) {
  return fmt::format("{:02x}", fmt::join(bytes, ""));
}

/// Reads hexadecimal digits. Returns false if they are not those of N bytes.
template <size_t N>
bool from_hex(std::string_view text, Bytes<N>& bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  if (text.size() != 2 * N || text.find_first_not_of(kDigits) != std::string_view::npos) return false;
  for (size_t i = 0; i < N; ++i)
    bytes[i] = static_cast<unsigned char>(kDigits.find(text[2 * i]) << 4 | kDigits.find(text[2 * i + 1]));
  return true;
}

/// Reads a file whose lines after the title are these values.
template <size_t... N>
void read_lines(const std::filesystem::path& path, const Format& format, Bytes<N>&... values) {
  constexpr uintmax_t kMost = 4096;
  if (is_missing(path))
    fail(ErrorKind::io, "{}: there is no such file; expected {}, the file {}", path.string(), format.words,
         format.origin);
  std::error_code error;
  const bool regular = std::filesystem::is_regular_file(path, error);
  const bool small = regular && std::filesystem::file_size(path, error) <= kMost;
  if (!error && !small)
    fail(ErrorKind::bad_input, "{}: not a small file that starts with '{}'", path.string(), format.title);
  const std::string text = read_file(path);
  const std::vector<std::string_view> lines = split(trim(text), '\n');
  if (lines.front() != format.title) {
    std::string_view is = "something else";
    for (const Format& other : {kPublic, kSecret, kSigned}) {
      if (lines.front() == other.title) is = other.words;
    }
    fail(ErrorKind::bad_input, "{}: not a file that starts with '{}': it is {}; expected {}, the file {}",
         path.string(), format.title, is, format.words, format.origin);
  }
  size_t line = 0;
  const auto read = [&]<size_t M>(Bytes<M>& value) {
    if (++line < lines.size() && from_hex(lines[line], value)) return;
    fail(ErrorKind::bad_input, "{}: line {}: expected {} digits of 0 to 9 and a to f; copy the file again",
         path.string(), line + 1, 2 * M);
  };
  (read(values), ...);
}

/// Returns the state of a signature after all bytes.
std::vector<unsigned char> digest(std::span<const std::byte> bytes) {
  const Sodium& s = sodium();
  std::vector<unsigned char> state(s.state_bytes());
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

std::string PublicKey::fingerprint() const { return sha256(std::as_bytes(std::span(bytes))).substr(0, 16); }

PublicKey SecretKey::owner() const {
  PublicKey key;  // the second half of a secret key
  std::copy(bytes.end() - key.bytes.size(), bytes.end(), key.bytes.begin());
  return key;
}

PublicKey write_keys(const std::filesystem::path& secret_key, const std::filesystem::path& public_key) {
  for (const std::filesystem::path& path : {secret_key, public_key}) {
    if (std::filesystem::exists(path))
      fail(ErrorKind::usage, "{}: exists; keys are never replaced: give another name, or move it away", path.string());
  }
  PublicKey owner;
  SecretKey secret;
  sodium().keypair(owner.bytes.data(), secret.bytes.data());
  write_new(secret_key, fmt::format("{}\n{}\n", kSecret.title, hex(secret.bytes)), S_IRUSR | S_IWUSR);
  write_new(public_key, fmt::format("{}\n{}\n", kPublic.title, hex(owner.bytes)),
            S_IRUSR | S_IWUSR | S_IRGRP | S_IROTH);
  return owner;
}

PublicKey read_public_key(const std::filesystem::path& path) {
  (void)sodium();
  PublicKey key;
  read_lines(path, kPublic, key.bytes);
  return key;
}

SecretKey read_secret_key(const std::filesystem::path& path) {
  (void)sodium();
  SecretKey key;
  read_lines(path, kSecret, key.bytes);
  if (!has_signed(key.owner(), {}, sign({}, key)))  // signatures with such a key would disclose it
    fail(ErrorKind::bad_input, "{}: the two halves of the key do not belong together; copy the file again",
         path.string());
  return key;
}

Signature sign(std::span<const std::byte> bytes, const SecretKey& key) {
  std::vector<unsigned char> state = digest(bytes);
  Signature signature{};
  sodium().sign(state.data(), signature.data(), nullptr, key.bytes.data());
  return signature;
}

bool has_signed(const PublicKey& key, std::span<const std::byte> bytes, const Signature& signature) {
  std::vector<unsigned char> state = digest(bytes);
  return sodium().verify(state.data(), signature.data(), key.bytes.data()) == 0;
}

std::filesystem::path sign_file(const std::filesystem::path& file, const SecretKey& key) {
  const Signature signature = sign(MappedFile::open(file)->bytes(), key);
  std::filesystem::path path = file;
  path += ".sig";
  write_file_atomically(path, fmt::format("{}\n{}\n{}\n", kSigned.title, hex(key.owner().bytes), hex(signature)));
  return path;
}

void check_signature(const std::filesystem::path& file, std::span<const std::byte> bytes,
                     const std::filesystem::path& public_key) {
  const PublicKey owner = read_public_key(public_key);
  std::filesystem::path path = file;
  path += ".sig";
  if (is_missing(path))
    fail(ErrorKind::bad_input, "{} is not signed: there is no file '{}', which `kilter sign` creates", file.string(),
         path.string());
  PublicKey signer;
  Signature signature{};
  read_lines(path, kSigned, signer.bytes, signature);
  if (signer != owner) {
    fail(ErrorKind::bad_input, "{}: signed by the owner of the key {}, expected that of {} ({}); nothing in it was run",
         file.string(), hex(signer.bytes), public_key.string(), hex(owner.bytes));
  }
  if (!has_signed(owner, bytes, signature)) {
    fail(ErrorKind::bad_input, "{}: its bytes are not those that were signed in {}; nothing in it was run",
         file.string(), path.string());
  }
}

}  // namespace kilter
