// Signatures: Ed25519 over all bytes (Ed25519ph, RFC 8032), by libsodium, which is loaded when a key is read or
// created. Compiled files are signed, with the signature of FILE in the text file FILE.sig, and the jobs of a fleet.
#pragma once

#include <array>
#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

namespace kilter {

using Signature = std::array<unsigned char, 64>;

struct PublicKey {
  std::array<unsigned char, 32> bytes{};

  /// Returns the first 16 hexadecimal digits of the key's SHA-256 hash, by which users tell keys apart.
  std::string fingerprint() const;
  bool operator==(const PublicKey&) const = default;
};

struct SecretKey {
  std::array<unsigned char, 64> bytes{};

  PublicKey owner() const;
};

/// Writes a new pair of keys: the secret one with the mode 600. Returns the public one. Throws usage if a file exists,
/// io if one cannot be written, and unsupported if libsodium is not installed.
PublicKey write_keys(const std::filesystem::path& secret_key, const std::filesystem::path& public_key);

/// Read a file that write_keys() wrote. Throw io if it is missing, bad_input if it is not such a key, and unsupported
/// if libsodium is not installed.
PublicKey read_public_key(const std::filesystem::path& path);
SecretKey read_secret_key(const std::filesystem::path& path);

/// Bytes that are signed for different purposes must differ in their first bytes, so that a signature for one purpose
/// is not valid for another.
Signature sign(std::span<const std::byte> bytes, const SecretKey& key);
/// Returns whether the owner of the key has signed these bytes.
bool has_signed(const PublicKey& key, std::span<const std::byte> bytes, const Signature& signature);

/// Writes the signature of a file beside it. Returns its path. Throws io if a file cannot be read or written.
std::filesystem::path sign_file(const std::filesystem::path& file, const SecretKey& key);

/// Throws bad_input unless FILE.sig is a signature of `bytes`, which are those of the file, by the owner of the key.
/// Throws the errors of read_public_key(), and io if a file cannot be read.
void check_signature(const std::filesystem::path& file, std::span<const std::byte> bytes,
                     const std::filesystem::path& public_key);

}  // namespace kilter
