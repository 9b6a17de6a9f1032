// One test for each kind of defect that `explain` has to find.
#include "planted.h"

namespace kilter::profile {
namespace {

Defect unfused_activation() {
  Defect d{"unfused neighbour", "features.2.expand.relu6", "mobilenet_v2", 448};
  d.planted.choices["features.2.expand"].fuse = Fusion::none;
  return d;
}
Defect bad_tile() {
  Defect d{"poor register tile", "layer1.0.conv1", "resnet18", 224};
  d.planted.choices["layer1.0.conv1"].schedule = parse_schedule("conv2d_direct vectors=1 rows=1 tile=2 prefetch=0");
  return d;
}
Defect one_thread() {
  Defect d{"too few threads busy", "conv10", "squeezenet1_1", 224, 2};
  d.planted.choices["conv10"].threads = 1;
  return d;
}
Defect layout_change() {
  Defect d{"layout change", "features.2.expand.relu6", "mobilenet_v2", 224};
  d.planted.choices["features.2.expand.relu6"].plain = true;
  return d;
}
class Planted : public testing::TestWithParam<Defect> {};
TEST_P(Planted, DefectIsFoundWithItsGain) {
  expect_explained([](double seconds) { return attempt(GetParam(), seconds); }, 6);
}
INSTANTIATE_TEST_SUITE_P(Slow, Planted,
                         testing::Values(unfused_activation(), bad_tile(), one_thread(), layout_change(),
                                         reference_kernel()),
                         [](const auto& p) {
                           std::string name = p.param.cause;
                           std::replace(name.begin(), name.end(), ' ', '_');
                           return name;
                         });

/// Two defects at once: each is reported with the gain of fixing it alone.
TEST(PlantedTogether, DefectsAreFoundSeparately) {
  CompileOptions options;
  options.choices["fire2.expand3x3"].schedule = parse_schedule("conv2d_direct vectors=1 rows=1 tile=2 prefetch=0");
  options.choices["pool1"].schedule = parse_schedule("reference");
  const Subject planted = subject_of("squeezenet1_1", 224, 1, options);
  for (const auto& [cause, layer] :
       {std::pair{"poor register tile", "fire2.expand3x3"}, {"reference kernel", "pool1"}}) {
    Subject mended = planted;
    take_back(mended.compile.choices, layer, &LayerChoice::schedule);
    const auto once = [&, c = cause, l = layer](double seconds) -> Outcome {
      ExplainOptions how;
      how.trial_seconds = seconds;
      how.read_quiet = quiet_machine();
      const Explanation e = explain(planted, how);
      const Finding* f = told(e, c, l, 3);
      if (f == nullptr) return {Verdict::differs, "not among the first three actions:\n" + explanation_text(e, "")};
      return judged(*f, real_gain(planted, mended, seconds));
    };
    expect_explained(once, 5);
  }
}

}  // namespace
}  // namespace kilter::profile
