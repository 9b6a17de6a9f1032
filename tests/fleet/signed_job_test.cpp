// Whose jobs an agent runs: signed payloads, the keys that it trusts, and blobs that were changed in the database.
#include "fleet/agent/signed_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "../base/error_of.h"
#include "../base/scratch_folder.h"
#include "exec/sodium.h"
#include "fleet/agent/agent.h"
#include "fleet/agent/trial_host.h"
#include "fleet/agent/trial_job.h"
#include "fleet/queue.h"
#include "support/databases.h"

namespace kilter::fleet {
namespace {

using ::testing::HasSubstr;

constexpr JobPlace kPlace{"run", "trial", "cortex-a72"};

class SignedJobTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string error = error_of([] { (void)sodium(); }); error != "no error") GTEST_SKIP() << error;
    ours_ = make_keys("ours");
    theirs_ = make_keys("theirs");
  }
  std::filesystem::path file(const std::string& name) const { return folder_.path() / name; }
  SecretKey make_keys(const std::string& name) const {
    (void)write_keys(file(name + ".secret"), file(name + ".public"));
    return read_secret_key(file(name + ".secret"));
  }
  Trust trust(const std::vector<std::filesystem::path>& places) const { return Trust::in_keys(places); }
  Trust in_us() const { return trust({file("ours.public")}); }
  static std::string refusal(const Trust& trust, std::string_view wrapped, const JobPlace& place = kPlace) {
    return error_of([&] { (void)trust.unwrap(wrapped, place); });
  }

  const ScratchFolder folder_;
  SecretKey ours_, theirs_;
  const std::string payload_ = std::string("all\0bytes\xff", 10);
};

TEST_F(SignedJobTest, JobsOfTrustedKeysAreAccepted) {
  const std::string wrapped = wrap_payload(payload_, kPlace, &ours_), plain = wrap_payload(payload_, kPlace, nullptr);
  EXPECT_EQ(in_us().unwrap(wrapped, kPlace), payload_);
  EXPECT_EQ(trust({file("theirs.public"), file("ours.public")}).unwrap(wrapped, kPlace), payload_);
  EXPECT_EQ(Trust::in_anyone().unwrap(wrapped, kPlace), payload_);
  EXPECT_EQ(Trust::in_anyone().unwrap(plain, kPlace), payload_);
  EXPECT_EQ(in_us().unwrap(wrap_payload("", kPlace, &ours_), kPlace), "");
}

TEST_F(SignedJobTest, OtherKeysAndUnsignedJobsAreRefused) {
  const std::string us = ours_.owner().fingerprint(), them = theirs_.owner().fingerprint();
  EXPECT_EQ(refusal(in_us(), wrap_payload(payload_, kPlace, &theirs_)),
            "it does not trust the key of this run (fingerprint " + them +
                "): give --sign-key a key whose public half the agent has in --trust; it trusts 1 key (" + us + ")");
  EXPECT_EQ(refusal(in_us(), wrap_payload(payload_, kPlace, nullptr)),
            "it runs only signed jobs, and this one is not signed: give --sign-key a key whose public half the agent "
            "has in --trust; it trusts 1 key (" +
                us + ")");
  EXPECT_THAT(refusal(Trust(), wrap_payload(payload_, kPlace, &ours_)), HasSubstr("it trusts no key"));
  EXPECT_EQ(
      refusal(in_us(), payload_),
      "the submitter of the job has a different version of Kilter from this agent: install the same version on both");
  EXPECT_EQ(refusal(Trust::in_anyone(), ""), refusal(in_us(), payload_));
}

TEST_F(SignedJobTest, ChangedJobIsRefused) {
  const std::string wrapped = wrap_payload(payload_, kPlace, &ours_);
  for (size_t i = 0; i < wrapped.size(); ++i) {
    std::string changed = wrapped;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    EXPECT_NE(refusal(in_us(), changed), "no error") << "byte " << i;
    EXPECT_NE(refusal(in_us(), wrapped.substr(0, i)), "no error") << "the first " << i << " bytes";
  }
  EXPECT_EQ(refusal(in_us(), wrapped + "x"),
            "the job is not what the owner of the key " + ours_.owner().fingerprint() +
                " signed for its run and the device class cortex-a72, so nothing in it was run: somebody has changed "
                "it in the database, or inserted it again; tune again, and tell the database's administrator if this "
                "happens again");
  EXPECT_EQ(refusal(Trust::in_anyone(), wrapped.substr(0, 60)),
            "the job is cut off within its signature: the database was changed or is damaged");
}

TEST_F(SignedJobTest, SignatureIsValidForOnePlaceOnly) {
  const std::string wrapped = wrap_payload(payload_, kPlace, &ours_);
  for (const JobPlace& other : std::vector<JobPlace>{{"run2", "trial", "cortex-a72"},
                                                     {"run", "other", "cortex-a72"},
                                                     {"run", "trial", "znver4"},
                                                     {"runt", "rial", "cortex-a72"}})
    EXPECT_THAT(refusal(in_us(), wrapped, other), HasSubstr("the job is not what the owner of the key"));
}

TEST_F(SignedJobTest, FolderStandsForAllItsPublicKeys) {
  EXPECT_EQ(trust({folder_.path()}).words().substr(0, 8), "2 keys (");
  EXPECT_EQ(trust({folder_.path(), file("ours.public")}).words(), trust({folder_.path()}).words());
  EXPECT_EQ(in_us().words(), "1 key (" + ours_.owner().fingerprint() + ")");
  EXPECT_EQ(Trust::in_anyone().words(), "anyone");
  for (const char* name : {"a", "b", "c"}) (void)make_keys(name);
  EXPECT_THAT(trust({folder_.path()}).words(), ::testing::MatchesRegex("5 keys \\((.*, ){4}\\.\\.\\.\\)"));
  std::filesystem::create_directory(file("empty"));
  EXPECT_EQ(error_of([&] { (void)trust({file("empty")}); }, ErrorKind::usage),
            file("empty").string() +
                ": this folder has no *.public files; expected keys made by `kilter sign --new-keys NAME`");
  EXPECT_THAT(error_of([&] { (void)trust({file("ours.secret")}); }, ErrorKind::bad_input),
              HasSubstr("it is a secret key; expected a public key"));
}

/// If an agent must not run a job, it returns an error after one attempt.
TEST_F(SignedJobTest, RefusedJobIsAnswered) {
  const std::string url = server().url(new_database());
  Queue queue(url);
  const JobPlace place{"run", kTrialKind, "class"};
  const int64_t id = queue.submit({.run = "run",
                                   .kind = kTrialKind,
                                   .device_class = "class",
                                   .awaited = true,
                                   .payload = wrap_payload(pack(TrialJob()), place, &theirs_)});
  std::atomic<bool> stop = false;
  std::vector<std::string> told;
  AgentOptions options;
  options.connect = [&url] { return std::make_unique<Queue>(url); };
  options.name = "bench1", options.device_class = "class", options.device = "this machine";
  options.trust = in_us();
  options.tell = [&](const std::string& line) {
    told.push_back(line);
    if (told.size() == 2) stop = true;
  };
  EXPECT_EQ(run_agent(options, stop).done, 1);
  const std::vector<Ending> endings = queue.endings({{id}});
  ASSERT_EQ(endings.size(), 1);
  EXPECT_EQ(endings[0].how, Delivery::stored);
  const TrialAnswer answer = unpack_answer(endings[0].bodies.at(0));
  EXPECT_THAT(answer.error, HasSubstr("it does not trust the key of this run (fingerprint "));
  EXPECT_EQ(answer.kind, ErrorKind::unsupported);
  EXPECT_EQ(told.at(1), fmt::format("job {} is refused: {}", id, answer.error));
}

TEST_F(SignedJobTest, ChangedBlobIsRefused) {
  const std::string url = server().url(new_database());
  Queue queue(url);
  const std::string hash = queue.put_blob("right"), other = sha256(std::as_bytes(std::span(std::string_view("wrong"))));
  run_on_server(url, "UPDATE kilter.blobs SET bytes = 'wrong' WHERE hash = '" + hash + "'");
  TrialJob job;
  job.session = "session";
  job.inputs = {{DType::u8, {5}, {5, {hash}}}};
  const TrialAnswer answer = TrialHost(queue).run(job);
  EXPECT_EQ(answer.kind, ErrorKind::bad_input);
  EXPECT_EQ(answer.error, "the blob " + hash + " has the hash " + other +
                              ", so nothing in it was run: the database was changed or is damaged; its owner must "
                              "delete this row of kilter.blobs");
}

}  // namespace
}  // namespace kilter::fleet
