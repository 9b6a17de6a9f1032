#include "tune/graph/transforms.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "../base/error_of.h"
#include "../base/scratch_folder.h"
#include "base/error.h"
#include "base/random.h"

namespace kilter::tune {
namespace {

const std::vector<MemoryLevel> kLevels = {{"L1", 48e3, false},
                                          {"L2", 1e6, false},
                                          {"L3", 32e6, true},
                                          {"DRAM", std::numeric_limits<double>::infinity(), true}};

/// The true time on a simulated machine: a start-up time plus the bytes divided by the memory level's rate, which is
/// given in GB/s per thread.
double true_ms(const std::string& kind, int threads, double bytes) {
  constexpr double kGbs[] = {100, 60, 25, 10};
  size_t level = 0;
  while (bytes > kLevels[level].bytes * (kLevels[level].shared ? 1 : threads)) ++level;
  const double slower = kind == "plain->c16" ? 1 : 1.7;
  return 0.002 + slower * bytes / (kGbs[level] * threads * 1e6);
}

TransformSample sample(const std::string& kind, int threads, double bytes, double factor = 1) {
  return {kind, threads, bytes, true_ms(kind, threads, bytes) * factor};
}

/// Samples of three sizes in each memory level.
std::vector<TransformSample> twelve(const std::string& kind, int threads) {
  std::vector<TransformSample> samples;
  for (const double bytes : {8e3, 20e3, 45e3, 100e3, 300e3, 900e3, 3e6, 9e6, 30e6, 70e6, 100e6, 200e6}) {
    samples.push_back(sample(kind, threads, bytes));
  }
  return samples;
}

TEST(Transforms, ExactMeasurementsRecoverTheMachine) {
  const TransformModel model("m", kLevels, twelve("plain->c16", 1));
  for (const double bytes : {1e3, 30e3, 200e3, 5e6, 20e6, 150e6, 1e9}) {
    const auto got = model.predict("plain->c16", 1, bytes);
    ASSERT_TRUE(got);
    EXPECT_NEAR(got->ms, true_ms("plain->c16", 1, bytes), 1e-3 * got->ms) << bytes;
    EXPECT_LT(got->error, 0.01) << bytes;
    EXPECT_EQ(got->basis, "measured");
  }
}

TEST(Transforms, NoiseStaysWithinThePredictedError) {
  int inside = 0;
  int all = 0;
  double sum_of_errors = 0;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const Random random(seed);
    std::vector<TransformSample> samples = twelve("plain->c16", 2);
    for (size_t i = 0; i < samples.size(); ++i) samples[i].ms *= std::exp(0.05 * static_cast<double>(random.normal(i)));
    const TransformModel model("m", kLevels, samples);
    for (const double bytes : {30e3, 500e3, 20e6, 150e6}) {
      const auto got = model.predict("plain->c16", 2, bytes);
      ++all;
      sum_of_errors += got->error;
      const double off = std::abs(got->ms / true_ms("plain->c16", 2, bytes) - 1);
      EXPECT_LT(off, 0.3) << bytes;
      inside += off < 2 * got->error ? 1 : 0;
    }
  }
  EXPECT_GT(inside, all * 9 / 10);
  EXPECT_NEAR(sum_of_errors / all, 0.06, 0.025);
}

/// Twelve measurements with 2 % noise and one or two outliers. A single outlier is five times too long. Two outliers
/// are in different levels, and each is five times too long or three times too short.
std::vector<TransformSample> with_outliers(uint64_t seed, size_t outliers) {
  const Random random(seed);
  std::vector<TransformSample> samples = twelve("plain->c16", 1);
  for (size_t i = 0; i < samples.size(); ++i) samples[i].ms *= std::exp(0.02 * static_cast<double>(random.normal(i)));
  const bool slow = outliers == 1 || seed / 12 % 2 == 0;
  samples[seed % 12].ms *= slow ? 5 : 1 / 3.0;
  if (outliers == 2) samples[(seed + 5) % 12].ms *= seed / 24 % 2 == 0 ? 5 : 1 / 3.0;
  return samples;
}

TEST(Transforms, OneOutlierMovesNothing) {
  for (uint64_t seed = 0; seed < 120; ++seed) {
    const TransformModel model("m", kLevels, with_outliers(seed, 1));
    for (const double bytes : {30e3, 500e3, 20e6, 150e6}) {
      const auto got = model.predict("plain->c16", 1, bytes);
      EXPECT_NEAR(got->ms / true_ms("plain->c16", 1, bytes), 1, 0.12) << "seed " << seed << ", bytes " << bytes;
      EXPECT_LT(got->error, 0.2) << seed;
    }
  }
}

TEST(Transforms, TwoOutliersAmongTwelveMoveLittle) {
  int near = 0;
  int all = 0;
  for (uint64_t seed = 0; seed < 120; ++seed) {
    const TransformModel model("m", kLevels, with_outliers(seed, 2));
    for (const double bytes : {30e3, 500e3, 20e6, 150e6}) {
      ++all;
      const auto got = model.predict("plain->c16", 1, bytes);
      near += std::abs(got->ms / true_ms("plain->c16", 1, bytes) - 1) < 0.15 ? 1 : 0;
    }
  }
  EXPECT_GT(near, all * 95 / 100);
}

TEST(Transforms, UnmeasuredCasesUseNeighboursWithLargerError) {
  std::vector<TransformSample> samples = {sample("plain->c16", 1, 200e3), sample("plain->c16", 1, 700e3),
                                          sample("plain->c16", 1, 400e3), sample("c16->plain", 1, 200e3)};
  const TransformModel model("m", kLevels, samples);
  const auto measured = model.predict("plain->c16", 1, 500e3);
  const auto deeper = model.predict("plain->c16", 1, 100e6);
  const auto threads = model.predict("plain->c16", 4, 500e3);
  const auto kind = model.predict("plain->c8", 1, 500e3);
  EXPECT_EQ(deeper->basis, "measured in L2 instead of DRAM");
  EXPECT_EQ(threads->basis, "measured, 1 threads");
  EXPECT_EQ(kind->basis, "measured, other kinds");
  EXPECT_GT(deeper->error, measured->error + 0.4);
  EXPECT_GT(threads->error, measured->error + 0.9);
  EXPECT_GT(kind->error, measured->error);
  EXPECT_GT(kind->ms, 0);
  // The scatter is unknown after a single measurement.
  EXPECT_GE(model.predict("c16->plain", 1, 200e3)->error, 0.2);
  EXPECT_NEAR(model.predict("c16->plain", 1, 200e3)->ms, true_ms("c16->plain", 1, 200e3), 1e-6);
  EXPECT_FALSE(TransformModel("m", kLevels, {}).predict("plain->c16", 1, 1e3));
}

TEST(Transforms, DeeperLevelsAreNotFaster) {
  // Because of a disturbance, the measured rates rise from the nearer level to the farther one instead of falling.
  const TransformModel model("m", kLevels,
                             {{"k", 1, 500e3, 0.1}, {"k", 1, 900e3, 0.18}, {"k", 1, 10e6, 0.3}, {"k", 1, 30e6, 0.9}});
  const auto ms = [&](double bytes) { return model.predict("k", 1, bytes)->ms; };
  const double per_byte = (ms(900e3) - ms(500e3)) / 400e3;
  EXPECT_GT(per_byte, 0);
  EXPECT_GE((ms(30e6) - ms(10e6)) / 20e6, 0.999 * per_byte);
}

TEST(Transforms, FileKeepsEverything) {
  const ScratchFolder folder;
  const TransformModel model =
      TransformModel("machine A", kLevels, twelve("plain->c16", 1)).with(twelve("c16->plain", 2));
  model.save(folder.path() / "transforms.json");
  const TransformModel back = TransformModel::load(folder.path() / "transforms.json", "machine A");
  EXPECT_EQ(back.text(), model.text());
  EXPECT_EQ(back.samples().size(), 24);
  EXPECT_EQ(back.predict("c16->plain", 2, 5e6)->ms, model.predict("c16->plain", 2, 5e6)->ms);
  EXPECT_EQ(back.predict("c16->plain", 2, 5e6)->error, model.predict("c16->plain", 2, 5e6)->error);
}

std::string message_of(const std::string& text, const std::string& device = "A") {
  return error_of([&] { (void)TransformModel::parse(text, "t.json", device); }, ErrorKind::bad_input);
}

TEST(Transforms, RefusesDamagedAndForeignFiles) {
  const std::string text = TransformModel("A", kLevels, {sample("k", 1, 1e3)}).text();
  EXPECT_EQ(message_of(text), "no error");
  EXPECT_EQ(message_of(text, "B"), "t.json: layout changes were measured on 'A', but this is 'B'; measure them here");
  EXPECT_NE(
      message_of(text.substr(0, 40)).find("t.json: not a file of measured layout changes (kilter-transforms-1): "),
      std::string::npos);
  EXPECT_NE(message_of("[]").find("measure again"), std::string::npos);
  EXPECT_EQ(message_of(R"({"format": "x"})"), "t.json: format x; expected kilter-transforms-1; measure again");
  EXPECT_EQ(message_of(R"({"format": "kilter-transforms-1", "device": "A", "samples": [],
                           "levels": [{"name": "L1", "bytes": 5, "shared": false}]})"),
            "t.json: layout changes: the last level must be unlimited; measure again");
  EXPECT_EQ(message_of(R"({"format": "kilter-transforms-1", "device": "A",
                           "samples": [{"kind": "k", "threads": 1, "bytes": 4, "ms": 0}],
                           "levels": [{"name": "L1", "bytes": null, "shared": false}]})"),
            "layout changes: sample 0 ('k'): 1 threads, 4 bytes, 0 ms; expected 1 thread or more, and bytes and time "
            "above 0");
}

}  // namespace
}  // namespace kilter::tune
