#include "fleet/agent/agent_program.h"

#include <fcntl.h>
#include <kilter/version.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <utility>
#include <vector>

#include "base/connection_error.h"
#include "base/error.h"
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

/// Returns the numbers of a version, such as {0, 1, 0}; parts that are not numbers count as 0.
std::array<int64_t, 3> numbers_of(const std::string& version) {
  std::array<int64_t, 3> out{};
  size_t i = 0;
  for (const std::string_view part : split(version, '.')) {
    if (i < out.size()) out[i++] = try_parse_int(part).value_or(0);
  }
  return out;
}

/// Returns the text of a zero-padded field, or "" if the field is not one.
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
    // The magic can also occur in the file without a marker, for example where the program stores the string itself.
    // Only known architectures count.
    const bool known = one.architecture == "x86_64" || one.architecture == "aarch64";
    if (known && !one.version.empty()) found.push_back(std::move(one));
  }
  if (found.size() == 1) return found.front();
  fail(ErrorKind::bad_input,
       "this file {} kilter-agent; expected one that is statically linked, as built by `scripts/build_agent.sh` and "
       "`scripts/build_agent.sh aarch64`",
       found.empty() ? "is not a statically linked" : "contains more than one");
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

Upgrades::Upgrades(Trust trust, std::filesystem::path file, std::function<void(const std::string&)> tell, double pause)
    : trust_(std::move(trust)), file_(std::move(file)), tell_(std::move(tell)), pause_(pause) {
  // Once the file has been replaced, the link names a file that no longer exists.
  if (file_.empty()) file_ = std::filesystem::read_symlink("/proc/self/exe");
  if (access(file_.parent_path().c_str(), W_OK) == 0) return;
  fail(ErrorKind::usage, "--upgrade: {} cannot be replaced, since its folder cannot be written: {}", file_.string(),
       std::strerror(errno));
}

bool Upgrades::take(JobSource& source) {
  const auto now = std::chrono::steady_clock::now();
  if (now < next_) return false;
  try {
    return consider(source, this_program());
  } catch (const ConnectionError&) {
    throw;
  } catch (const Error& e) {
    next_ =
        now + std::chrono::duration_cast<std::chrono::steady_clock::duration>(std::chrono::duration<double>(pause_));
    if (e.message() != told_) tell_(fmt::format("the program that the fleet offers is refused: {}", e.message()));
    told_ = e.message();
    return false;
  }
}

bool Upgrades::consider(JobSource& source, const AgentProgram& mine) {
  std::string offer = source.program(mine.architecture);
  if (offer.empty() || offer == seen_) return false;
  std::string refused = std::exchange(seen_, std::move(offer));  // restored below if the program is newer
  const AgentProgram program = unpack_offer(seen_, trust_, mine.architecture);
  if (!program.newer_than(mine)) return false;
  seen_ = std::move(refused);
  const std::string bytes = fetch(source, program.data);
  const AgentProgram found = program_in(bytes);  // a file older than its offer would be replaced again and again
  if (found.words() != program.words())
    fail(ErrorKind::bad_input, "{} is offered, but the file is {}", program.words(), found.words());
  replace(bytes);
  tell_(fmt::format("{} replaces {}", program.words(), mine.words()));
  return true;
}

std::filesystem::path Upgrades::beside(const char* ending) const {
  std::filesystem::path out = file_;
  return out += ending;
}

/// The file is never incomplete, even if the machine loses power.
void Upgrades::replace(const std::string& program) const {
  const std::filesystem::path made = beside(".new"), old = beside(".old");
  const int file = open(made.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0700);
  struct stat now{};
  const mode_t mode = stat(file_.c_str(), &now) == 0 ? now.st_mode & 0777 : 0700;
  bool sound = file >= 0 && fchmod(file, mode) == 0;
  for (size_t done = 0; sound && done < program.size();) {
    const ssize_t bytes = write(file, program.data() + done, program.size() - done);
    sound = bytes > 0 || (bytes < 0 && errno == EINTR);
    if (bytes > 0) done += static_cast<size_t>(bytes);
  }
  sound = sound && fsync(file) == 0;
  int reason = errno;
  if (file >= 0) close(file);
  unlink(old.c_str());
  std::error_code ignored;  // not every file system has hard links
  std::filesystem::create_hard_link(file_, old, ignored);
  if (sound && rename(made.c_str(), file_.c_str()) != 0) sound = false, reason = errno;
  if (sound) return;
  unlink(made.c_str());
  fail(ErrorKind::io, "{} cannot be written: {}", made.string(), std::strerror(reason));
}

void Upgrades::undo() const { (void)rename(beside(".old").c_str(), file_.c_str()); }

}  // namespace kilter::fleet
