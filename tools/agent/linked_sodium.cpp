// libsodium's functions for the static agent, which cannot load libraries.
#include <sodium.h>

#include "exec/sodium.h"

namespace kilter {

const Sodium* linked_sodium() {
  static const Sodium linked = [] {
    Sodium s;
    s.init = sodium_init;
    s.state_bytes = crypto_sign_ed25519ph_statebytes;
    s.keypair = crypto_sign_ed25519_keypair;
    s.start = [](void* state) { return crypto_sign_ed25519ph_init(static_cast<crypto_sign_ed25519ph_state*>(state)); };
    s.update = [](void* state, const unsigned char* data, unsigned long long bytes) {
      return crypto_sign_ed25519ph_update(static_cast<crypto_sign_ed25519ph_state*>(state), data, bytes);
    };
    s.sign = [](void* state, unsigned char* signature, unsigned long long* bytes, const unsigned char* key) {
      return crypto_sign_ed25519ph_final_create(static_cast<crypto_sign_ed25519ph_state*>(state), signature, bytes,
                                                key);
    };
    s.verify = [](void* state, const unsigned char* signature, const unsigned char* key) {
      return crypto_sign_ed25519ph_final_verify(static_cast<crypto_sign_ed25519ph_state*>(state), signature, key);
    };
    s.sha256 = crypto_hash_sha256;
    return s;
  }();
  return &linked;
}

}  // namespace kilter
