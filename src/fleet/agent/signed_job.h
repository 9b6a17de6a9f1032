// Payloads of the queue as submitters wrap them, and the keys whose jobs an agent runs. A signature covers everything
// that the agent acts on: the payload, which names larger data by its SHA-256, and where the job belongs.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "exec/signature.h"

namespace kilter::fleet {

/// Where a job belongs; a signature made for one place is not valid for another.
struct JobPlace {
  std::string_view run, kind, device_class;
};

/// Wraps a payload. `key`: signs it; null: it stays unsigned.
std::string wrap_payload(std::string_view payload, const JobPlace& place, const SecretKey* key);

/// Whose jobs an agent runs: nobody's, anybody's, or those that the owners of some keys have signed.
class Trust {
 public:
  Trust() = default;
  static Trust in_anyone();
  /// Trusts the keys in these files, and in the *.public files of these folders. `use`: for messages. Throws usage for
  /// a folder without such files, and the errors of read_public_key().
  enum class Use : uint8_t { jobs, programs };
  static Trust in_keys(std::span<const std::filesystem::path> places, Use use = Use::jobs);

  /// Returns the payload in `wrapped`, whose bytes it views. Throws unsupported if it is not trusted or was wrapped by
  /// another version, and bad_input if it is not what was signed. Messages are for the submitter.
  std::string_view unwrap(std::string_view wrapped, const JobPlace& place) const;
  /// Returns whether the two have a key in common.
  bool shares_a_key_with(const Trust& other) const;
  /// "anyone", "no key", "1 key (FINGERPRINT)", "2 keys (FINGERPRINT, FINGERPRINT)"; at most four fingerprints.
  std::string words() const;

 private:
  bool anyone_ = false;
  Use use_ = Use::jobs;
  std::vector<PublicKey> keys_;
};

}  // namespace kilter::fleet
