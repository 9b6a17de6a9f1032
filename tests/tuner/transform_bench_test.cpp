// Times of layout changes: an error if they cannot be measured, and files whose contents make measuring unnecessary.
#include "tune/tuner/graph_best/transform_bench.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "../base/error_of.h"
#include "../base/scratch_folder.h"
#include "network.h"
#include "tune/tuner/graph_best/layer_network.h"

namespace kilter::tune {
namespace {

TEST(MeasureTransforms, CopiesThatDoNotRunAreAnError) {
  RunnerOptions small = worker();
  small.memory_bytes = int64_t{64} << 20;  // enough for the images but not for their copies
  EXPECT_EQ(error_of([&] { measure_transforms(native(), small, "a device"); }, ErrorKind::unsupported),
            "layout changes cannot be measured here: the copies do not run");
}

class KnownLayoutChanges : public testing::Test {
 protected:
  void SetUp() override {
    if (block_ == 1) GTEST_SKIP() << "no vectors to block for";
  }
  KnownTransforms get(bool anew = false) const { return known_transforms(native(), worker(), kDevice, records_, anew); }
  /// Writes a file with one sample of each kind at the worker's number of threads.
  void save(const std::vector<std::string>& kinds) const {
    std::vector<TransformSample> samples;
    for (const std::string& kind : kinds) samples.push_back({kind, worker().threads, 1e6, 1});
    TransformModel(kDevice, {{"memory", INFINITY, true}}, samples).save(file_);
  }
  static int64_t count(const KnownTransforms& known, const std::string& kind) {
    return std::ranges::count(known.model->samples(), kind, &TransformSample::kind);
  }

  static constexpr const char* kDevice = "a device";
  ScratchFolder folder_;
  const std::string records_ = folder_.path() / "some.db";
  const std::filesystem::path file_ = transforms_file(records_, kDevice);
  const int32_t block_ = native().target.limits.lanes_f32();
  const std::string in_ = transform_kind(1, block_), out_ = transform_kind(block_, 1);
};

TEST_F(KnownLayoutChanges, DamagedFileIsReportedAndReplaced) {
  for (const bool anew : {false, true}) {
    write_file_atomically(file_, "noise");
    const KnownTransforms got = get(anew);
    EXPECT_GT(got.seconds, 0);
    EXPECT_THAT(got.unusable, testing::HasSubstr(file_.string() + ": not a file of measured layout changes"));
    const KnownTransforms again = get();
    EXPECT_EQ(again.seconds, 0);
    EXPECT_EQ(again.unusable, "");
    EXPECT_GT(count(again, in_), 1);
  }
}

TEST_F(KnownLayoutChanges, MeasuringAnewIgnoresTheExistingFile) {
  TransformModel("another device", {{"memory", INFINITY, true}}, {}).save(file_);
  EXPECT_GT(get(true).seconds, 0);
  EXPECT_EQ(get().seconds, 0);
}

TEST_F(KnownLayoutChanges, OtherBlockSizesAreMeasuredSeparately) {
  const std::string other = transform_kind(1, 2 * block_);
  for (const auto& kinds : {std::vector{other}, std::vector{other, in_}, std::vector{other, out_}}) {
    save(kinds);
    EXPECT_GT(get().seconds, 0) << kinds.back();
    const KnownTransforms kept = get();
    EXPECT_EQ(kept.seconds, 0);
    EXPECT_EQ(count(kept, other), 1);
    EXPECT_EQ(count(kept, in_), count(kept, out_)) << "earlier samples are replaced";
  }
  save({in_, out_});
  EXPECT_EQ(get().seconds, 0);
}

}  // namespace
}  // namespace kilter::tune
