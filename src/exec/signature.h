// Signatures of compiled files: Ed25519 over all bytes of a file (Ed25519ph, RFC 8032), by libsodium, which is loaded
// when a signature is made or checked. The signature of FILE is the text file FILE.sig.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace kilter {

/// Writes a new pair of keys: the secret one with the mode 600. Throws io if a file exists or cannot be written, and
/// unsupported if libsodium is not installed.
void write_keys(const std::filesystem::path& secret_key, const std::filesystem::path& public_key);

/// Writes the signature of a file beside it. Returns its path. Throws as write_keys(), and bad_input for a file that is
/// no secret key.
std::filesystem::path sign_file(const std::filesystem::path& file, const std::filesystem::path& secret_key);

/// Throws bad_input unless FILE.sig is a signature of `bytes`, which are those of the file, by the owner of the key.
/// Throws io if a file is missing, and unsupported if libsodium is not installed.
void check_signature(const std::filesystem::path& file, std::span<const std::byte> bytes,
                     const std::filesystem::path& public_key);

}  // namespace kilter
