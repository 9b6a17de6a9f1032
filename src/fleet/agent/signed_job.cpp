#include "fleet/agent/signed_job.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <system_error>

#include "base/error.h"
#include "tune/run/wire.h"

namespace kilter::fleet {
namespace {

// The first bytes of a wrapped payload, which say what follows. They change with every change of the format.
constexpr std::string_view kPlain = "kilter job 1\n";          ///< the payload
constexpr std::string_view kSigned = "kilter signed job 1\n";  ///< the key, the signature, and the payload

std::string_view as_text(std::span<const unsigned char> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Moves the first bytes of a text to `to`. Returns false if there are too few.
bool take(std::string_view& from, std::span<unsigned char> to) {
  if (from.size() < to.size()) return false;
  std::copy_n(from.begin(), to.size(), to.begin());
  from.remove_prefix(to.size());
  return true;
}

/// Returns the text that is signed. Its first bytes differ from those of everything else that the keys sign, which is
/// compiled files.
std::string statement(std::string_view payload, const JobPlace& place) {
  tune::Pack fields;
  fields.put(place.run).put(place.kind).put(place.device_class).put(payload);
  return std::string(kSigned) + fields.bytes();
}

std::span<const std::byte> as_bytes(std::string_view text) { return std::as_bytes(std::span(text)); }

/// Returns the files *.public of a folder in alphabetical order.
std::vector<std::filesystem::path> keys_in(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  std::error_code error;
  for (std::filesystem::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    if (at->path().extension() == ".public") files.push_back(at->path());
  }
  if (error) fail(ErrorKind::io, "{}: {}", folder.string(), error.message());
  if (files.empty())
    fail(ErrorKind::usage, "{}: this folder has no *.public files; expected keys made by `kilter sign --new-keys NAME`",
         folder.string());
  std::ranges::sort(files);
  return files;
}

}  // namespace

std::string wrap_payload(std::string_view payload, const JobPlace& place, const SecretKey* key) {
  std::string out(key == nullptr ? kPlain : kSigned);
  if (key != nullptr) {
    out += as_text(key->owner().bytes);
    out += as_text(sign(as_bytes(statement(payload, place)), *key));
  }
  out += payload;
  return out;
}

Trust Trust::in_anyone() {
  Trust all;
  all.anyone_ = true;
  return all;
}

Trust Trust::in_keys(std::span<const std::filesystem::path> places, Use use) {
  Trust trust;
  trust.use_ = use;
  const auto add = [&](const std::filesystem::path& file) {
    const PublicKey key = read_public_key(file);
    if (std::ranges::find(trust.keys_, key) == trust.keys_.end()) trust.keys_.push_back(key);
  };
  for (const std::filesystem::path& place : places) {
    std::error_code ignored;
    if (std::filesystem::is_directory(place, ignored)) {
      std::ranges::for_each(keys_in(place), add);
    } else {
      add(place);
    }
  }
  return trust;
}

std::string_view Trust::unwrap(std::string_view wrapped, const JobPlace& place) const {
  std::optional<PublicKey> signer;
  Signature signature{};
  std::string_view payload = wrapped;
  if (wrapped.starts_with(kPlain)) {
    payload.remove_prefix(kPlain.size());
  } else if (wrapped.starts_with(kSigned)) {
    payload.remove_prefix(kSigned.size());
    if (!take(payload, signer.emplace().bytes) || !take(payload, signature))
      fail(ErrorKind::bad_input, "the job is cut off within its signature: the database was changed or is damaged");
  } else {
    fail(
        ErrorKind::unsupported,
        "the submitter of the job has a different version of Kilter from this agent: install the same version on both");
  }
  if (anyone_) return payload;
  if (!signer && use_ == Use::programs) {
    fail(ErrorKind::unsupported,
         "it is not signed: offer it again, with a key whose public half the agent has in "
         "--upgrade; it trusts {}",
         words());
  }
  if (!signer) {
    fail(ErrorKind::unsupported,
         "it runs only signed jobs, and this one is not signed: give --sign-key a key whose public half the agent has "
         "in --trust; it trusts {}",
         words());
  }
  if (std::ranges::find(keys_, *signer) == keys_.end()) {
    fail(ErrorKind::unsupported,
         "it does not trust the key of this {} (fingerprint {}): give --sign-key a key whose public half the agent "
         "has in {}; it trusts {}",
         use_ == Use::jobs ? "run" : "program", signer->fingerprint(), use_ == Use::jobs ? "--trust" : "--upgrade",
         words());
  }
  const bool sound = has_signed(*signer, as_bytes(statement(payload, place)), signature);
  if (!sound && use_ == Use::programs) {
    fail(ErrorKind::bad_input,
         "it is not what the owner of the key {} signed for {}: somebody has changed it in the database; offer it "
         "again, and tell the database's administrator if this happens again",
         signer->fingerprint(), place.device_class);
  }
  if (!sound) {
    fail(ErrorKind::bad_input,
         "the job is not what the owner of the key {} signed for its run and the device class {}, so nothing in it was "
         "run: somebody has changed it in the database, or inserted it again; tune again, and tell the database's "
         "administrator if this happens again",
         signer->fingerprint(), place.device_class);
  }
  return payload;
}

bool Trust::shares_a_key_with(const Trust& other) const {
  return std::ranges::any_of(
      keys_, [&](const PublicKey& key) { return std::ranges::find(other.keys_, key) != other.keys_.end(); });
}

std::string Trust::words() const {
  constexpr size_t kShown = 4;
  if (anyone_) return "anyone";
  if (keys_.empty()) return "no key";
  std::vector<std::string> shown;
  for (size_t i = 0; i < std::min(keys_.size(), kShown); ++i) shown.push_back(keys_[i].fingerprint());
  if (keys_.size() > kShown) shown.emplace_back("...");
  return fmt::format("{} key{} ({})", keys_.size(), keys_.size() == 1 ? "" : "s", fmt::join(shown, ", "));
}

}  // namespace kilter::fleet
