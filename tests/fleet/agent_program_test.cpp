// Programs that a fleet offers to agents: what a file says about itself, which program is newer, and whose offers are
// accepted.
#include "fleet/agent/agent_program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>

#include "../base/error_of.h"
#include "../base/scratch_folder.h"
#include "base/files.h"
#include "exec/sodium.h"
#include "fleet/agent/agent.h"
#include "fleet/agent/kept_parts.h"
#include "idle_source.h"

namespace kilter::fleet {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string marker_of(std::string_view version) {
  const ProgramMarker marker(version);
  return {reinterpret_cast<const char*>(&marker), sizeof marker};
}

TEST(AgentProgram, IsFoundInAFile) {
  const AgentProgram found = program_in("ELF..." + marker_of("1.2.3") + "...");
  EXPECT_EQ(found.words(),
            fmt::format("kilter-agent 1.2.3 (protocol {}) for {}", kTrialProtocol, ProgramMarker::kArchitecture));
  // For example, the text in the program itself, after which other texts may follow.
  const std::string no_marker = std::string(ProgramMarker::kMagic) + '\0' + "x86_64" + '\0' + "offer" +
                                std::string(9, '\0') + std::string(60, 'x');
  EXPECT_EQ(program_in(no_marker + marker_of("1.2.3")).version, "1.2.3");
  const auto why = [](const std::string& file) {
    return error_of([&] { (void)program_in(file); }, ErrorKind::bad_input);
  };
  EXPECT_EQ(why(no_marker),
            "this file is not a statically linked kilter-agent; expected one that is statically linked, as built by "
            "`scripts/build_agent.sh` and `scripts/build_agent.sh aarch64`");
  EXPECT_THAT(why(marker_of("1") + marker_of("2")), StartsWith("this file contains more than one kilter-agent; "));
  EXPECT_THAT(why(marker_of("1.2.3").substr(0, sizeof(ProgramMarker) - 1)),
              StartsWith("this file is not a statically linked"));
}

TEST(AgentProgram, IsNewerByProtocolThenByVersion) {
  const auto program = [](uint32_t protocol, const char* version) {
    return AgentProgram{"x86_64", version, protocol, {}};
  };
  EXPECT_TRUE(program(5, "0.1.0").newer_than(program(4, "0.2.0")));
  EXPECT_FALSE(program(4, "0.9.0").newer_than(program(5, "0.1.0")));
  EXPECT_TRUE(program(4, "0.10.0").newer_than(program(4, "0.9.9")));
  EXPECT_FALSE(program(4, "0.1.0").newer_than(program(4, "0.1.0"))) << "or agents would replace themselves for ever";
  EXPECT_FALSE(this_program().newer_than(this_program()));
}

/// A fleet with one offer.
class Offers : public IdleSource {
 public:
  std::string offer;
  std::map<std::string, std::string> blobs;
  int fetched = 0;

  std::string program(const std::string& architecture) override {
    return architecture == ProgramMarker::kArchitecture ? offer : "";
  }
  std::string blob(const std::string& hash) override {
    ++fetched;
    return blobs.at(hash);
  }
};

class UpgradesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string error = error_of([] { (void)sodium(); }); error != "no error") GTEST_SKIP() << error;
    write_keys(folder_.path() / "team.secret", folder_.path() / "team.public");
    write_file_atomically(file_, "the old program");
  }
  /// Offers a program with this key.
  void offer(AgentProgram program, const std::string& bytes, const std::string& key = "team.secret") {
    program.data = {std::ssize(bytes), {sha256(std::as_bytes(std::span(bytes)))}};
    fleet_.blobs[program.data.hashes[0]] = bytes;
    fleet_.offer = pack_offer(program, read_secret_key(folder_.path() / key));
  }
  /// The bytes of a program.
  static std::string file_of(const AgentProgram& program, const std::string& text) {
    ProgramMarker marker(program.version);
    marker.protocol = program.protocol;
    return text + std::string(reinterpret_cast<const char*>(&marker), sizeof marker);
  }
  static AgentProgram newer() {
    AgentProgram program = this_program();
    ++program.protocol;
    return program;
  }
  bool take() { return upgrades().take(fleet_); }
  Upgrades& upgrades() {
    const std::vector<std::filesystem::path> keys{folder_.path() / "team.public"};
    if (!upgrades_)
      upgrades_.emplace(
          Trust::in_keys(keys, Trust::Use::programs), file_, [this](const std::string& line) { said_.push_back(line); },
          pause_);
    return *upgrades_;
  }

  ScratchFolder folder_;
  const std::filesystem::path file_ = folder_.path() / "kilter-agent";
  Offers fleet_;
  std::vector<std::string> said_;
  double pause_ = 600;
  std::optional<Upgrades> upgrades_;
};

TEST_F(UpgradesTest, InstallNewerProgram) {
  EXPECT_FALSE(take()) << "nothing is offered";
  const std::string next = file_of(newer(), "the next program");
  offer(newer(), next);
  EXPECT_TRUE(take());
  EXPECT_EQ(read_file(file_), next);
  EXPECT_THAT(said_, ElementsAre(newer().words() + " replaces " + this_program().words()));
  upgrades().undo();
  EXPECT_EQ(read_file(file_), "the old program");
}

TEST_F(UpgradesTest, IgnoreOldOrEqualProgram) {
  offer(this_program(), "the same again");
  EXPECT_FALSE(take());
  EXPECT_FALSE(take());
  EXPECT_EQ(fleet_.fetched, 0);
  EXPECT_EQ(read_file(file_), "the old program");
  EXPECT_THAT(said_, ElementsAre());
}

TEST_F(UpgradesTest, IgnoreUnsignedPrograms) {
  write_keys(folder_.path() / "other.secret", folder_.path() / "other.public");
  offer(newer(), "the next program", "other.secret");
  EXPECT_FALSE(take());
  EXPECT_FALSE(take()) << "it is told once";
  ASSERT_EQ(said_.size(), 1);
  EXPECT_THAT(said_[0],
              StartsWith("the program that the fleet offers is refused: it does not trust the key of this program"));
  offer(newer(), "the next program");
  for (size_t at = fleet_.offer.size() - 40; at < fleet_.offer.size(); ++at) {  // also the hash of its bytes
    const std::string offered = fleet_.offer;
    fleet_.offer[at] = static_cast<char>(fleet_.offer[at] ^ 1);
    EXPECT_FALSE(take());
    fleet_.offer = offered;
  }
  // A job that is signed with the key is not an offer.
  const SecretKey key = read_secret_key(folder_.path() / "team.secret");
  fleet_.offer = wrap_payload("a job", {"", kTrialKind, ProgramMarker::kArchitecture}, &key);
  EXPECT_FALSE(take());
  EXPECT_EQ(fleet_.fetched, 0);
  EXPECT_EQ(read_file(file_), "the old program");
}

TEST_F(UpgradesTest, IgnoreOtherBytesAndProcessors) {
  pause_ = 0;
  offer(newer(), "the next program");
  fleet_.blobs.begin()->second = "other program...";
  EXPECT_FALSE(take());
  ASSERT_EQ(said_.size(), 1);
  AgentProgram foreign = newer();
  foreign.architecture = "riscv64";
  offer(foreign, "for another processor");
  EXPECT_FALSE(take());
  EXPECT_EQ(said_.size(), 2) << "the place of the signature is another processor";
  EXPECT_EQ(read_file(file_), "the old program");
}

TEST_F(UpgradesTest, IgnoreFileThatDiffersFromTheOffer) {
  offer(newer(), file_of(this_program(), "would be replaced again and again"));
  EXPECT_FALSE(take());
  ASSERT_EQ(said_.size(), 1);
  EXPECT_THAT(said_[0], HasSubstr(newer().words() + " is offered, but the file is " + this_program().words()));
  EXPECT_EQ(read_file(file_), "the old program");
}

TEST_F(UpgradesTest, FailedFetchIsRetried) {
  pause_ = 0;
  const std::string next = file_of(newer(), "the next program");
  offer(newer(), next);
  const auto blobs = std::exchange(fleet_.blobs, {{fleet_.blobs.begin()->first, "damaged"}});
  EXPECT_FALSE(take());
  EXPECT_FALSE(take());
  EXPECT_EQ(said_.size(), 1) << "it is told once";
  fleet_.blobs = blobs;
  EXPECT_TRUE(take());
  EXPECT_EQ(read_file(file_), next);
}

TEST_F(UpgradesTest, UnwritableFolderIsAnError) {
  const std::vector<std::filesystem::path> keys{folder_.path() / "team.public"};
  const std::filesystem::path gone = folder_.path() / "gone" / "kilter-agent";
  EXPECT_EQ(
      error_of([&] { Upgrades(Trust::in_keys(keys, Trust::Use::programs), gone, {}); }, ErrorKind::usage),
      fmt::format("--upgrade: {} cannot be replaced, since its folder cannot be written: No such file or directory",
                  gone.string()));
}

/// A fleet whose job is for agents of another version, and which offers such an agent once the job has been claimed.
class OtherJobs : public IdleSource {
 public:
  OtherJobs(Offers& fleet, std::vector<std::string>& calls, std::function<void()> offer)
      : fleet_(fleet), calls_(calls), offer_(std::move(offer)) {}
  std::vector<Job> claim(const std::string&, int) override {
    offer_();
    calls_.emplace_back("claim");
    const std::string payload = std::string("kilter job 1\n") + '\x63' + std::string(3, '\0');  // protocol 99
    return {{.id = 7, .kind = kTrialKind, .run = "run", .candidates = 1, .attempt = 1, .payload = payload}};
  }
  bool fail(const std::string&, int64_t, const std::string&) override { return note("fail"); }
  bool give_back(const std::string&, int64_t) override { return note("give back"); }
  std::string blob(const std::string& hash) override { return fleet_.blob(hash); }
  std::string program(const std::string& architecture) override { return fleet_.program(architecture); }

 private:
  bool note(const std::string& call) {
    calls_.push_back(call);
    return true;
  }
  Offers& fleet_;
  std::vector<std::string>& calls_;
  std::function<void()> offer_;
};

TEST_F(UpgradesTest, JobOfAnotherVersionIsReturnedAfterUpgrade) {
  std::vector<std::string> calls;
  AgentOptions options;
  options.connect = [&] {
    return std::make_unique<OtherJobs>(fleet_, calls, [&] { offer(newer(), file_of(newer(), "the next program")); });
  };
  options.name = "bench1", options.device_class = "class", options.trust = Trust::in_anyone();
  options.upgrades = &upgrades();
  const std::atomic<bool> stop = false;
  const AgentEnd end = run_agent(options, stop);
  EXPECT_TRUE(end.replaced);
  EXPECT_EQ(end.done, 0);
  EXPECT_THAT(calls, ElementsAre("claim", "give back"));
  EXPECT_EQ(read_file(file_), file_of(newer(), "the next program"));
}

}  // namespace
}  // namespace kilter::fleet
