#include "exec/sodium.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>

#include "base/error.h"

namespace kilter {
namespace {

template <class F>
void find(void* library, const char* name, F& function) {
  function = reinterpret_cast<F>(dlsym(library, name));
  if (function == nullptr)
    fail(ErrorKind::unsupported, "libsodium has no function {}; install version 1.0.12 or later", name);
}

const Sodium& started(const Sodium& s) {
  if (s.init() < 0) fail(ErrorKind::unsupported, "libsodium cannot be initialised: the system has no random numbers");
  return s;
}

}  // namespace

const Sodium& sodium() {
  static const Sodium loaded = [] {
    if (linked_sodium != nullptr) return started(*linked_sodium());
    void* library = nullptr;
    for (const char* name : {"libsodium.so.23", "libsodium.so.26", "libsodium.so"}) {
      if (library == nullptr) library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    }
    if (library == nullptr) {
      fail(ErrorKind::unsupported,
           "libsodium, which signatures and fleets need, is not installed; install it (Debian: libsodium23)");
    }
    Sodium s;
    find(library, "sodium_init", s.init);
    find(library, "crypto_sign_ed25519ph_statebytes", s.state_bytes);
    find(library, "crypto_sign_ed25519_keypair", s.keypair);
    find(library, "crypto_sign_ed25519ph_init", s.start);
    find(library, "crypto_sign_ed25519ph_update", s.update);
    find(library, "crypto_sign_ed25519ph_final_create", s.sign);
    find(library, "crypto_sign_ed25519ph_final_verify", s.verify);
    find(library, "crypto_hash_sha256", s.sha256);
    return started(s);
  }();
  return loaded;
}

std::string sha256(std::span<const std::byte> bytes) {
  std::array<unsigned char, 32> hash{};
  sodium().sha256(hash.data(), reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
  return fmt::format("{:02x}", fmt::join(hash, ""));
}

}  // namespace kilter
