// The functions of libsodium that Kilter calls. The library is loaded when they are first needed.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace kilter {

/// The functions of libsodium that are used.
struct Sodium {
  int (*init)() = nullptr;
  size_t (*state_bytes)() = nullptr;
  int (*keypair)(unsigned char* public_key, unsigned char* secret_key) = nullptr;
  int (*start)(void* state) = nullptr;
  int (*update)(void* state, const unsigned char* data, unsigned long long bytes) = nullptr;
  int (*sign)(void* state, unsigned char* signature, unsigned long long* bytes,
              const unsigned char* secret_key) = nullptr;
  int (*verify)(void* state, const unsigned char* signature, const unsigned char* public_key) = nullptr;
  int (*sha256)(unsigned char* hash, const unsigned char* data, unsigned long long bytes) = nullptr;
};

/// The functions of a program that is linked with the library; programs without them load it.
[[gnu::weak]] const Sodium* linked_sodium();

/// Loads the library when it is first called, unless the program is linked with it. Throws unsupported if it is not
/// installed.
const Sodium& sodium();

/// Returns the SHA-256 hash of bytes, as 64 hexadecimal digits. Throws the errors of sodium().
std::string sha256(std::span<const std::byte> bytes);

}  // namespace kilter
