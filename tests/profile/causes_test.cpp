// The causes that `explain` knows, tested on made-up figures.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "made_up.h"

namespace kilter::profile {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

TEST(Causes, ReferenceKernelNamesTheOptionToDrop) {
  CompileOptions options;
  options.choices["pool1"].schedule = parse_schedule("reference");
  const Suspicion s = MadeUp(2, options).at("reference kernel", "pool1");
  EXPECT_EQ(
      s.evidence,
      "MaxPool runs the operator's reference kernel on one thread for 1.000 ms; --schedule pool1=reference forces it");
  EXPECT_EQ(s.advice, "drop --schedule pool1=reference");
  ASSERT_TRUE(s.mend);
  EXPECT_TRUE(s.mend->compile.choices.empty());
  EXPECT_GT(s.gain_ms, 0.9);
}

TEST(Causes, ReferenceKernelWithoutTemplateListsRejections) {
  CompileOptions options;
  options.debug.disable = {"choose_layouts"};
  const Suspicion s = MadeUp(2, options).at("reference kernel", "conv1");
  EXPECT_THAT(s.evidence, HasSubstr("conv2d_direct: block of the output layout: limit 16, got 1"));
  EXPECT_THAT(s.evidence, Not(HasSubstr("operator family")));
  EXPECT_FALSE(s.mend);
  EXPECT_EQ(s.advice, "");
}

TEST(Causes, UnfusedNeighbourNamesItsProducerAndTheReason) {
  CompileOptions options;
  options.choices["conv1"].fuse = Fusion::none;
  const Suspicion s = MadeUp(2, options).at("unfused neighbour", "conv1.relu");
  EXPECT_THAT(s.evidence,
              HasSubstr("'conv1', which computes its input, could run it, but --no-fuse conv1 keeps it out"));
  EXPECT_EQ(s.advice, "drop --no-fuse conv1");
  EXPECT_DOUBLE_EQ(s.gain_ms, 1);
  EXPECT_TRUE(s.mend->compile.choices.empty());
}

TEST(Causes, StepThatTwoTasksCouldRunIsReportedOnce) {
  CompileOptions options;
  options.choices["conv1"].fuse = Fusion::none;
  MadeUp n(2, options);
  n.compiled.unfused.push_back({Unfused::order, "conv1.relu", "pool1", "it is read elsewhere, too"});
  const Suspicion s = n.at("unfused neighbour", "conv1.relu");
  EXPECT_THAT(s.evidence,
              HasSubstr("'conv1', which computes its input, could run it, but --no-fuse conv1 keeps it out; 'pool1', "
                        "which reads its result, could run it, but it is read elsewhere, too"));
  EXPECT_EQ(s.steps.size(), 1U);
  EXPECT_DOUBLE_EQ(s.gain_ms, 1);
  EXPECT_TRUE(s.mend);
}

TEST(Causes, UnfusedReductionsNameTheirProducer) {
  EXPECT_THAT(MadeUp().at("unfused neighbour", "pool10").evidence,
              ContainsRegex("which computes its input, could run it, but only tasks of depthwise convolutions can "
                            "reduce their own results"));
}

TEST(Causes, ElementWiseStepsBeforeContractionsAreReportedTogether) {
  const Suspicion s =
      MadeUp(2, {}, "x86-64-v4", "densenet121").at("unfused neighbour", "denseblock1.denselayer2.norm1.mul");
  EXPECT_EQ(s.evidence,
            "57 element-wise steps run on their own before the contraction that reads the result, the longest "
            "'denseblock1.denselayer2.norm1.mul' for 1.000 ms; contractions can include only the nodes after them");
  EXPECT_EQ(s.steps.size(), 57U);
  EXPECT_GT(s.gain_ms, 28) << "half of what they take at least";
}

/// Layers at half of their bound, which is set by arithmetic, on a machine that multiplies bf16 twice and bytes four
/// times as fast.
MadeUp with_gears(const CompileOptions& options, const std::string& target) {
  MadeUp n(1, options, target, "resnet18");
  n.profile.peaks.gflops = {0.1}, n.profile.peaks.bf16_gflops = {0.2}, n.profile.peaks.byte_gops = {0.4};
  n.profile.peaks.l2_gbps = n.profile.peaks.l3_gbps = n.profile.peaks.dram_gbps = {1e6};
  n.profile.peaks.region_us = {0};
  for (Row& row : n.profile.rows) {
    if (row.step >= 0)
      row.bound = bound_of(n.compiled.plan.steps[static_cast<size_t>(row.step)], {}, n.profile.peaks, 1);
  }
  return n;
}

TEST(Causes, FasterPrecisionIsPredictedFromPeaksAndChangesResults) {
  CompileOptions plain;
  plain.accuracy = Accuracy::strict;  // without Winograd every layer takes half of its time
  const MadeUp n = with_gears(plain, "znver4");
  const Suspicion s = n.at("faster precision", "");
  const auto layers =
      static_cast<double>(std::ranges::count(n.compiled.plan.steps, StepRole::contraction, &Step::role));
  EXPECT_GT(layers, 15);
  EXPECT_NEAR(s.gain_ms, layers / 2, 1e-3);
  EXPECT_THAT(s.evidence, ContainsRegex(fmt::format("^{} layers multiply f32; bf16 would take .* of .* ms if they "
                                                    "reached the same shares of their bounds; results change, which "
                                                    "`kilter run --precision bf16 --verify` shows$",
                                                    layers)));
  EXPECT_EQ(s.advice, "--precision bf16");
  ASSERT_TRUE(s.mend);
  EXPECT_EQ(s.mend->compile.precision, Precision::bf16);
  EXPECT_TRUE(s.changes_results);
}

TEST(Causes, FasterPrecisionIsComparedWithWinograd) {
  CompileOptions direct, winograd;
  direct.accuracy = Accuracy::strict;
  winograd.choices["layer1.0.conv1"].schedule =
      parse_schedule("conv2d_winograd m=4 vectors=2 tile=8 count=1 split=0 prefetch=0");
  EXPECT_NEAR(with_gears(direct, "znver4").at("faster precision", "").gain_ms -
                  with_gears(winograd, "znver4").at("faster precision", "").gain_ms,
              0.5, 1e-3)
      << "bf16 multiplies twice as fast, but Winograd with m=4 multiplies a quarter";
}

TEST(Causes, FasterPrecisionIsNotReportedIfChosenOrUnsupported) {
  EXPECT_TRUE(with_gears({}, "x86-64-v4").find("faster precision").empty())
      << "no products of bf16, and no bytes saved";
  CompileOptions chosen;
  chosen.precision = Precision::bf16;
  EXPECT_TRUE(with_gears(chosen, "znver4").find("faster precision").empty());
}

TEST(Causes, UnquantisedNetworkIsReportedIfBytesAreMuchFaster) {
  const Suspicion s = with_gears({}, "znver4").at("not quantised", "");
  EXPECT_THAT(s.evidence,
              ContainsRegex("layers multiply f32; int8 would take .* of .* ms if they reached the same shares "
                            "of their bounds, not counting the rounding of their results; results change"));
  EXPECT_EQ(s.action, "kilter quantize zoo:resnet18 --samples DIR --per-channel -o int8.onnx");
  EXPECT_TRUE(s.changes_results);
  EXPECT_FALSE(with_gears({}, "x86-64-v3").find("not quantised").empty()) << "pairs of bytes are summed in words";
  EXPECT_TRUE(with_gears({}, "neoverse-n1").find("not quantised").empty()) << "no instruction for bytes";
}

TEST(Causes, LayoutChangesNameTheirCause) {
  CompileOptions options;
  options.choices["conv1.relu"].plain = true;
  const MadeUp net(2, options);
  const Suspicion s = net.at("layout change", "conv1.relu");
  EXPECT_THAT(s.evidence, StartsWith("--plain-layout conv1.relu keeps its operands plain between blocked ones; layout "
                                     "changes around it: 'conv1"));
  EXPECT_GE(s.gain_ms, 1);
  EXPECT_EQ(s.advice, "drop --plain-layout conv1.relu");
  CompileOptions reference;
  reference.choices["pool1"].schedule = parse_schedule("reference");
  const Suspicion other = MadeUp(2, reference).at("layout change", "pool1.relayout");
  EXPECT_EQ(
      other.evidence,
      "'pool1.relayout' turns 57.6 KB from plain to c16 in 1.000 ms; from the reference kernel of MaxPool 'pool1' for "
      "Conv+Relu 'fire2.squeeze'");
  EXPECT_FALSE(other.mend);
}

TEST(Causes, DisabledPassesAreOneSuspicion) {
  CompileOptions options;
  options.debug.disable = {"fuse"};
  const MadeUp net(2, options);
  const Suspicion s = net.at("passes held back", "");
  EXPECT_EQ(s.evidence, "--disable fuse keeps passes from improving the network");
  EXPECT_TRUE(s.mend->compile.debug.disable.empty());
  EXPECT_TRUE(MadeUp().find("passes held back").empty());
}

TEST(Causes, IdleThreadsNameLimitFewItemsOrImbalance) {
  CompileOptions options;
  options.choices["conv10"].threads = 1;
  MadeUp net(2, options);
  const Suspicion limited = net.at("too few threads busy", "conv10");
  EXPECT_THAT(limited.evidence, HasSubstr("runs on 1 of 2 threads"));
  EXPECT_THAT(limited.evidence, HasSubstr("--layer-threads conv10=1 allows no more"));
  EXPECT_DOUBLE_EQ(limited.gain_ms, 0.5);
  EXPECT_TRUE(limited.mend->compile.choices.empty());

  net.step("pool3").extent = 1;
  const Suspicion few = net.at("too few threads busy", "pool3");
  EXPECT_EQ(few.evidence, "1 work item for 2 threads, 1.000 ms");
  EXPECT_DOUBLE_EQ(few.gain_ms, 0.5);

  net.step("pool5").extent = 3;
  net.row("pool5").balance = 0.75;
  net.row("pool5").busy_ms = {1, 0.5};
  const Suspicion uneven = net.at("too few threads busy", "pool5");
  EXPECT_EQ(uneven.evidence,
            "threads are busy for 1.000 ms, 0.500 ms; 3 work items on 2 threads cannot be shared evenly");
  EXPECT_DOUBLE_EQ(uneven.gain_ms, 0.25);

  net.subject.cpus = 4;
  const Suspicion network = net.at("too few threads busy", "");
  EXPECT_EQ(network.evidence, "the network runs on 2 of 4 CPUs");
  EXPECT_EQ(network.mend->threads, 4);
}

TEST(Causes, ForcedTileIsComparedWithTheModelsBest) {
  CompileOptions options;
  options.choices["fire2.expand3x3"].schedule = parse_schedule("conv2d_direct vectors=1 rows=1 tile=2 prefetch=0");
  const Suspicion s = MadeUp(2, options).at("poor register tile", "fire2.expand3x3");
  EXPECT_THAT(s.evidence,
              StartsWith("--schedule forces 'conv2d_direct vectors=1 rows=1 tile=2 prefetch=0', which takes "
                         "1.000 ms, 50 % of its FMA bound; the model expects "));
  EXPECT_GT(s.gain_ms, 0.4);
  EXPECT_TRUE(s.mend->compile.choices.empty());
}

TEST(Causes, TileFarBelowItsTemplateIsReported) {
  MadeUp net;
  net.row("fire8.squeeze").bound.ms = 0.2;
  const Suspicion s = net.at("poor register tile", "fire8.squeeze");
  EXPECT_THAT(s.evidence, HasSubstr("reaches 20 % of its FMA bound"));
  EXPECT_THAT(s.evidence, HasSubstr("layers of this template reach 50 %"));
  EXPECT_NEAR(s.gain_ms, 1 - 0.2 / 0.5, 1e-9);
}

TEST(Causes, TailIsTheModelsShareOfCycles) {
  MadeUp net;
  net.compiled.notes[static_cast<size_t>(net.row("conv10").step)].estimate = Estimate{1000, 0.25};
  const Suspicion s = net.at("tail of a tile", "conv10");
  EXPECT_THAT(s.evidence, StartsWith("25 % of its cycles are spent on tiles and vectors that are not full"));
  EXPECT_DOUBLE_EQ(s.gain_ms, 0.25);
}

TEST(Causes, FirstLayerWithFewChannelsIsReported) {
  const std::vector<Suspicion> all = MadeUp().find("first layer with few channels");
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].name, "conv1");
  EXPECT_THAT(all[0].evidence, StartsWith("3 input channels do not fill a block"));
}

TEST(Causes, StreamedWeightsAreReported) {
  MadeUp net;
  Row& row = net.row("conv10");
  row.bound = {Bound::memory, 0.8, "DRAM"};
  row.weight_bytes = 8'000'000, row.bytes = 10'000'000;
  const Suspicion s = net.at("weights streamed from memory", "conv10");
  EXPECT_THAT(s.evidence, StartsWith("8.0 MB of weights come from DRAM and are used for "));
  EXPECT_THAT(s.evidence, HasSubstr("10 GB/s reached, 80 % of the DRAM bound"));
  EXPECT_EQ(net.find("weights streamed from memory").size(), 1U) << "the batch is fixed";
  net.subject.batch_input = "input=8x3x64x64";
  const Suspicion batch = net.at("weights streamed from memory", "");
  EXPECT_EQ(batch.other, Suspicion::Other::batch);
  EXPECT_NEAR(batch.gain_ms, 0.8 * 0.8 * 7 / 8, 1e-9);
}

TEST(Causes, LongBarriersAndGapsAreReported) {
  MadeUp net;
  net.row("pool3").barrier_ms = 0.6;
  EXPECT_THAT(net.at("barriers and gaps", "pool3").evidence, StartsWith("0.600 ms of 1.000 ms pass between the fork"));
  EXPECT_EQ(net.find("barriers and gaps").size(), 1U);
  net.profile.barriers_ms = 0.1 * net.profile.sum_ms;
  EXPECT_FALSE(net.at("barriers and gaps", "").mend) << "longer than any network that is faster on one thread";
  for (Row& r : net.profile.rows) r.time.mean *= 0.01;
  net.profile.sum_ms *= 0.01, net.profile.end_to_end_ms *= 0.01, net.profile.barriers_ms *= 0.01;
  EXPECT_EQ(net.at("barriers and gaps", "").mend->threads, 1);
}

TEST(Causes, StrictAccuracyReportsItsExpectedCost) {
  EXPECT_TRUE(MadeUp(1).find("slower template").empty());
  CompileOptions options;
  options.accuracy = Accuracy::strict;
  const Suspicion s = MadeUp(1, options).at("slower template", "fire2.expand3x3");
  EXPECT_THAT(s.evidence, StartsWith("--accuracy strict excludes conv2d_winograd in "));
  EXPECT_GT(s.steps.size(), 1U);
  EXPECT_GT(s.gain_ms, 0.1 * static_cast<double>(s.steps.size())) << "of one millisecond each";
  EXPECT_LT(s.gain_ms, 0.8 * static_cast<double>(s.steps.size()));
  EXPECT_EQ(s.mend->compile.accuracy, Accuracy::normal);
}

TEST(Causes, ForcedScheduleIsComparedWithOtherTemplates) {
  CompileOptions options;
  options.choices["fire2.expand3x3"].schedule = parse_schedule("conv2d_direct vectors=2 rows=1 tile=8 prefetch=0");
  const Suspicion s = MadeUp(1, options).at("poor register tile", "fire2.expand3x3");
  EXPECT_THAT(s.evidence, HasSubstr("for 'conv2d_winograd m="));
  EXPECT_GT(s.gain_ms, 0.1);
}

TEST(Causes, EveryCauseHasAName) {
  std::set<std::string_view> names;
  for (const Cause& c : all_causes()) {
    EXPECT_FALSE(c.looks_at.empty());
    EXPECT_TRUE(names.insert(c.name).second) << c.name;
  }
}

}  // namespace
}  // namespace kilter::profile
