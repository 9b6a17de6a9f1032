#include "fleet/agent/agent_program.h"

#include <kilter/version.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <utility>
#include <vector>

#include "base/connection_error.h"
#include "base/error.h"
#include "base/files.h"
#include "base/text.h"
#include "exec/fields.h"
#include "fleet/agent/kept_parts.h"

namespace kilter::fleet {
namespace {

/// JobPlace::kind of offers.
constexpr std::string_view kOffer = "kilter-agent";

template <class Io, class P>
void offer_fields(Io& io, P& program) {
  io.text(program.architecture, "processor");
  io.text(program.version, "version");
  io.number(program.protocol, "protocol");
  stored_fields(io, program.data);
}

/// Returns the numbers of a version, such as {0, 1, 0}; what is no number is 0.
std::array<int64_t, 3> numbers_of(const std::string& version) {
  std::array<int64_t, 3> out{};
  size_t i = 0;
  for (const std::string_view part : split(version, '.')) {
    if (i < out.size()) out[i++] = try_parse_int(part).value_or(0);
  }
  return out;
}

/// Returns the text of a field that zeros fill up; empty if it is no such field.
std::string text_at(std::string_view marker, size_t at, size_t size) {
  const std::string_view field = marker.substr(at, size);
  const std::string_view text = field.substr(0, field.find('\0'));
  return field.find_first_not_of('\0', text.size()) == std::string_view::npos ? std::string(text) : std::string();
}

}  // namespace

bool AgentProgram::newer_than(const AgentProgram& other) const {
  return std::pair(protocol, numbers_of(version)) > std::pair(other.protocol, numbers_of(other.version));
}

std::string AgentProgram::words() const {
  return fmt::format("kilter-agent {} (protocol {}) for {}", printable(version), protocol, printable(architecture));
}

AgentProgram this_program() {
  return {std::string(ProgramMarker::kArchitecture), KILTER_VERSION_STRING, kTrialProtocol};
}

AgentProgram program_in(std::string_view file) {
  std::vector<AgentProgram> found;
  const std::string_view magic = ProgramMarker::kMagic;
  for (size_t at = file.find(magic); at != std::string_view::npos; at = file.find(magic, at + 1)) {
    const std::string_view marker = file.substr(at, sizeof(ProgramMarker));
    if (marker.size() < sizeof(ProgramMarker)) break;
    AgentProgram one;
    one.architecture = text_at(marker, offsetof(ProgramMarker, architecture), sizeof(ProgramMarker::architecture));
    one.version = text_at(marker, offsetof(ProgramMarker, version), sizeof(ProgramMarker::version));
    std::memcpy(&one.protocol, marker.data() + offsetof(ProgramMarker, protocol), sizeof one.protocol);
    // What follows the text above is something else.
    const bool known = one.architecture == "x86_64" || one.architecture == "aarch64";
    if (known && !one.version.empty()) found.push_back(std::move(one));
  }
  if (found.size() == 1) return found.front();
  fail(ErrorKind::bad_input,
       "this file is {}; expected one that is linked statically, as `scripts/build_agent.sh` and "
       "`scripts/build_agent.sh aarch64` build them",
       found.empty() ? "no such kilter-agent" : "several programs kilter-agent");
}

std::string pack_offer(const AgentProgram& program, const SecretKey& key) {
  FieldWriter io;
  offer_fields(io, program);
  return wrap_payload(io.take(), {"", kOffer, program.architecture}, &key);
}

AgentProgram unpack_offer(std::string_view offer, const Trust& trust, const std::string& architecture) {
  const std::string_view fields = trust.unwrap(offer, {"", kOffer, architecture});
  FieldReader io(std::as_bytes(std::span(fields)), "program", "offer", "the message");
  AgentProgram out;
  offer_fields(io, out);
  io.finish();
  if (out.architecture != architecture) fail(ErrorKind::bad_input, "{} is offered for {}", out.words(), architecture);
  return out;
}

Upgrades::Upgrades(Trust trust, std::filesystem::path file, std::function<void(const std::string&)> tell)
    : trust_(std::move(trust)), file_(std::move(file)), tell_(std::move(tell)) {
  // Later, the link names a file that is gone.
  if (file_.empty()) file_ = std::filesystem::read_symlink("/proc/self/exe");
}

bool Upgrades::take(JobSource& source) {
  const AgentProgram mine = this_program();
  std::string offer;
  try {
    offer = source.program(mine.architecture);
    if (offer.empty() || offer == seen_) return false;
    const AgentProgram program = unpack_offer(offer, trust_, mine.architecture);
    if (program.newer_than(mine)) {
      write_file_atomically(file_, fetch(source, program.data));  // keeps its mode
      tell_(fmt::format("{} replaces {}", program.words(), mine.words()));
      return true;
    }
  } catch (const ConnectionError&) {
    throw;
  } catch (const Error& e) {
    if (e.message() != told_) tell_(fmt::format("the program that the fleet offers is not taken: {}", e.message()));
    told_ = e.message();
  }
  seen_ = std::move(offer);
  return false;
}

}  // namespace kilter::fleet
