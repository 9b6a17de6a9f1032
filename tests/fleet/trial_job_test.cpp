// Jobs and results as bytes, and the constants that an agent packs from tensors.
#include "fleet/agent/trial_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <numeric>

#include "../base/error_of.h"
#include "exec/sodium.h"
#include "fleet/agent/kept_parts.h"
#include "idle_source.h"

namespace kilter::fleet {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using tune::ConstantStore;
using tune::StorePart;

/// A queue that consists only of blobs in memory.
class Blobs : public IdleSource {
 public:
  Stored put(const std::string& bytes) {
    const std::string hash = sha256(std::as_bytes(std::span(bytes)));
    blobs_[hash] = bytes;
    return {std::ssize(bytes), {hash}};
  }
  std::string blob(const std::string& hash) override {
    ++fetched;
    return blobs_.at(hash);
  }
  int fetched = 0;

 private:
  std::map<std::string, std::string> blobs_;
};

/// The numbers from 0 on, as f32.
std::string numbers(int64_t count) {
  std::vector<float> all(static_cast<size_t>(count));
  std::iota(all.begin(), all.end(), 0.0f);
  return {reinterpret_cast<const char*>(all.data()), all.size() * sizeof(float)};
}

/// Transposes `rows` x `columns`, with zeros up to `padded` rows.
Gather transpose(int64_t rows, int64_t columns, int64_t padded) {
  return {{{rows, columns, 0}, {columns, 1, 0}}, {{columns, 1, 1}, {padded, 0, 1}}};
}

std::vector<float> floats(const ConstantStore& store, const StorePart& part) {
  std::vector<float> all(static_cast<size_t>(part.bytes) / sizeof(float));
  std::memcpy(all.data(), store.data() + part.offset, all.size() * sizeof(float));
  return all;
}

class KeptPartsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string error = error_of([] { (void)sodium(); }); error != "no error") GTEST_SKIP() << error;
  }
  std::string refusal(const TrialPart& part) {
    return error_of([&] { (void)parts_.get(part); }, ErrorKind::bad_input);
  }

  Blobs blobs_;
  ConstantStore store_;
  KeptParts parts_{blobs_, store_, int64_t{8} << 20};
};

TEST_F(KeptPartsTest, PacksSeveralConstantsFromOneFetchedTensor) {
  const Stored source = blobs_.put(numbers(6));
  const TrialPart turned{source, transpose(2, 3, 2), DType::f32, 24};
  const TrialPart padded{source, transpose(2, 3, 3), DType::f32, 36};
  EXPECT_THAT(floats(store_, parts_.get(turned)), ElementsAre(0, 3, 1, 4, 2, 5));
  EXPECT_THAT(floats(store_, parts_.get(padded)), ElementsAre(0, 3, 0, 1, 4, 0, 2, 5, 0));
  EXPECT_EQ(parts_.get(turned).serial, parts_.get(turned).serial);
  EXPECT_EQ(blobs_.fetched, 1);
  const TrialPart as_it_is{.data = source, .bytes = source.bytes};
  EXPECT_THAT(floats(store_, parts_.get(as_it_is)), ElementsAre(0, 1, 2, 3, 4, 5));
}

TEST_F(KeptPartsTest, TransformsFilters) {
  const WinogradFilters filters{2, 1, 3, 3, 2, 2, 1};
  const std::string weights = numbers(18);
  std::vector<float> expected(static_cast<size_t>(filters.elems()));
  pack(filters, reinterpret_cast<const float*>(weights.data()), expected.data());
  const TrialPart part{blobs_.put(weights), filters, DType::f32, filters.elems() * 4};
  EXPECT_EQ(floats(store_, parts_.get(part)), expected);
}

TEST_F(KeptPartsTest, RefusesForgedRecipes) {
  const Stored source = blobs_.put(numbers(6));
  EXPECT_EQ(refusal({source, transpose(3, 3, 3), DType::f32, 36}),
            "the recipe of a constant: an axis of extent 3 and stride 3 from 0 on, in a source of 6 elements");
  EXPECT_EQ(refusal({source, transpose(2, 3, 2), DType::f32, 32}),
            "the recipe of a constant: 6 elements of f32 for 32 bytes");
  EXPECT_EQ(refusal({source, transpose(2, 3, 2), DType::string, 24}), "the recipe of a constant: elements of type str");
  EXPECT_EQ(refusal({source, WinogradFilters{1, 6, 1, 1, 2, 1, 6}, DType::i32, 24}),
            "the recipe of a constant: filters of type i32; expected f32");
  EXPECT_EQ(refusal({source, transpose(2, 3, 350'000), DType::f32, 4'200'000}),
            "the recipe of a constant makes 4200000 bytes from 24; expected at most 64 times as many plus 4 MiB");
  EXPECT_EQ(refusal({.data = source, .bytes = 20}),
            "a constant of 20 bytes has 24 bytes of blobs; expected the same number");
  EXPECT_EQ(blobs_.fetched, 0) << "nothing is fetched for a forged recipe";
}

/// A known tensor that another part declares as larger.
TEST_F(KeptPartsTest, RefusesASourceOfAnotherSize) {
  const Stored source = blobs_.put(numbers(6));
  (void)parts_.get({source, transpose(2, 3, 2), DType::f32, 24});
  const Stored larger{240'000, source.hashes};
  EXPECT_EQ(refusal({larger, transpose(2, 30'000, 2), DType::f32, 240'000}),
            "the blobs have 24 bytes; the job expects 240000");
}

TEST_F(KeptPartsTest, MemoryIsLimited) {
  const Stored source = blobs_.put(numbers(300'000));
  (void)parts_.get({source, transpose(3, 100'000, 16), DType::f32, 6'400'000});
  EXPECT_EQ(
      refusal({source, transpose(3, 100'000, 5), DType::f32, 2'000'000}),
      "a constant of 2000000 bytes, from 1200000 bytes of data, in addition to 6402048 bytes of other constants; "
      "expected at most 8388608 bytes in total, half of this agent's memory; measure on a machine with more memory");
  parts_.forget();
  EXPECT_EQ(store_.used_bytes(), 0) << "more than half of the limit was kept";
  (void)parts_.get({source, transpose(3, 100'000, 5), DType::f32, 2'000'000});
  EXPECT_LE(blobs_.fetched, 2);
}

TrialJob a_job() {
  TrialJob job;
  job.session = "session";
  job.inputs = {{DType::u8, {2, 3}, {6, {"abc"}}}};
  job.threads = 3, job.timeout_ms = 0.1, job.timeout_factor = 1e300;
  job.trusted.id = 1, job.trusted.package = {100, {"a", "b"}};
  job.trusted.parts = {{{24, {"c"}}, transpose(2, 3, 2), DType::bf16, 24}, {.data = {5, {"d"}}, .bytes = 5}};
  job.variants = {{2, {7, {"e"}}, {{{36, {"f"}}, WinogradFilters{1, 1, 3, 3, 2, 1, 1}, DType::f32, 64}}}};
  job.dropped = {-4}, job.loads = {1, 2}, job.measures = {2, 1};
  job.how_to_load.check = false;
  job.how_to_measure.seed = UINT64_MAX, job.how_to_measure.warm_up = tune::WarmUp::never;
  return job;
}

TEST(TrialJob, HasTheSameFieldsAfterTransfer) {
  const TrialJob job = a_job(), got = unpack_job(pack(job));
  EXPECT_EQ(pack(got), pack(job));
  EXPECT_EQ(got.timeout_factor, 1e300);
  EXPECT_EQ(got.how_to_measure.seed, UINT64_MAX);
  ASSERT_EQ(got.trusted.parts.size(), 2);
  EXPECT_EQ(got.trusted.parts[0].type, DType::bf16);
  EXPECT_EQ(std::get<Gather>(*got.trusted.parts[0].recipe).elems(), 6);
  EXPECT_FALSE(got.trusted.parts[1].recipe.has_value());
  EXPECT_NE(name_of(got.trusted.parts[0]), name_of(got.trusted.parts[1]));
  EXPECT_EQ(std::get<WinogradFilters>(*got.variants[0].parts[0].recipe).kernel_h, 3);
}

TEST(TrialJob, AnswersHaveTheSameFieldsAfterTransfer) {
  TrialAnswer answer;
  answer.error = "why", answer.kind = ErrorKind::out_of_memory;
  answer.loaded = {{7, {{7, tune::FaultKind::wrong, 3, "layer", "words"}}, {0.5, 0.25}}, {}};
  answer.laps.ids = {7};
  tune::Lap lap;
  lap.total_ms = 1.0 / 3, lap.step_ms = {1.5}, lap.held_up = true, lap.disturbance.waited = true;
  answer.laps.laps = {{lap, lap}};
  answer.laps.cut = {true};
  answer.peaks.l3_gbps = {1, 2}, answer.peaks.region_us = {0, 0.5}, answer.peaks.l2_bytes = 7;
  answer.laps.wall_ms = 12, answer.restarts = 4, answer.confined = true;
  const TrialAnswer got = unpack_answer(pack(answer));
  EXPECT_EQ(pack(got), pack(answer));
  EXPECT_EQ(got.kind, ErrorKind::out_of_memory);
  EXPECT_EQ(got.loaded.at(0).faults.at(0).words, "words");
  EXPECT_FALSE(got.loaded.at(1).id.has_value());
  EXPECT_EQ(got.laps.laps.at(0).at(1).total_ms, 1.0 / 3);
  EXPECT_TRUE(got.laps.laps[0][0].disturbance.waited);
  EXPECT_TRUE(got.laps.cut.at(0));
  EXPECT_THAT(got.peaks.l3_gbps, ElementsAre(1, 2));
  EXPECT_THAT(got.peaks.region_us, ElementsAre(0, 0.5));
  EXPECT_EQ(got.peaks.l2_bytes, 7);
}

TEST(TrialJob, RefusesTruncatedOrWrongBytes) {
  const std::string bytes = pack(a_job());
  for (size_t size = 4; size < bytes.size(); ++size)
    EXPECT_THAT(error_of([&] { (void)unpack_job(bytes.substr(0, size)); }, ErrorKind::bad_input),
                HasSubstr("job 'trial': "));
  EXPECT_EQ(error_of([&] { (void)unpack_job(bytes.substr(0, 10)); }, ErrorKind::bad_input),
            "job 'trial': session at byte 4 of the message: expected 8 bytes, got 6; the message is cut off");
  EXPECT_THAT(error_of([&] { (void)unpack_job(bytes + "x"); }, ErrorKind::bad_input),
              HasSubstr("1 bytes follow the last field"));
  std::string other = bytes;
  other[0] = 1;
  EXPECT_EQ(
      error_of([&] { (void)unpack_job(other); }, ErrorKind::unsupported),
      fmt::format(
          "the submitter of a job uses protocol 1, and this agent uses {}: install the same version of Kilter on both",
          kTrialProtocol));
  for (size_t at = 4; at < bytes.size(); ++at) {  // the reader can only refuse a job with a changed byte
    std::string changed = bytes;
    changed[at] = static_cast<char>(changed[at] ^ 0x80);
    try {
      (void)unpack_job(changed);
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::bad_input) << e.message();
    }
  }
}

}  // namespace
}  // namespace kilter::fleet
