// The default schedules and loop IR of the speed set on two fixed targets equal the kept ones, so that a change of a
// template, a pass or a model shows up here, layer by layer, before any measurement. No code is generated or run.
//
// If a change is intended, rewrite the kept files and review the difference:
//
//   KILTER_REPLAY_UPDATE=1 build/tests/replay/test_replay && git diff tests/replay
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "../base/scratch_folder.h"
#include "base/hash.h"
#include "codegen/backend.h"
#include "kept.h"
#include "sparse_weights.h"

namespace kilter::replay {
namespace {

constexpr std::string_view kTargets[] = {"x86-64-v3", "znver4"};

std::vector<std::string> networks() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(KILTER_SPEED_SET)) {
    if (entry.path().extension() == ".onnx") names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string read(const std::filesystem::path& file) {
  std::stringstream out;
  out << std::ifstream(file).rdbuf();
  return out.str();
}

class Replay : public testing::TestWithParam<std::string> {};

TEST_P(Replay, DefaultsAreWhatTheyWere) {
  const ScratchFolder folder;
  const Graph graph =
      load_without_weights(std::filesystem::path(KILTER_SPEED_SET) / (GetParam() + ".onnx"), folder.path());
  for (const std::string_view target : kTargets) {
    CompileOptions options;
    options.target = parse_target(target);
    options.contents.code = false;
    const std::string now = defaults_text(fmt::format("{} for {}: defaults, kept by tests/replay", GetParam(), target),
                                          compile_graph(graph, options));
    const auto file = std::filesystem::path(KILTER_REPLAY_FOLDER) / fmt::format("{}.{}.txt", GetParam(), target);
    if (::getenv("KILTER_REPLAY_UPDATE") != nullptr) {
      std::ofstream out(file);
      out << now;
      ASSERT_TRUE(out.flush()) << "cannot write " << file;
      continue;
    }
    const std::string changes = difference(read(file), now);
    EXPECT_TRUE(changes.empty()) << GetParam() << " for " << target << " has other defaults than " << file.filename()
                                 << " keeps:\n\n"
                                 << changes << "\nIf that is meant, write the files anew and review them:\n"
                                 << "  KILTER_REPLAY_UPDATE=1 build/tests/replay/test_replay && git diff tests/replay";
  }
}

INSTANTIATE_TEST_SUITE_P(SpeedSet, Replay, testing::ValuesIn(networks()),
                         [](const auto& network) { return network.param; });

/// A hash of all kept files, without their names.
uint64_t kept_hash() {
  uint64_t hash = kHashSeed;
  for (const std::string& network : networks()) {
    for (const std::string_view target : kTargets)
      hash = hash_text(read(std::filesystem::path(KILTER_REPLAY_FOLDER) / fmt::format("{}.{}.txt", network, target)),
                       hash);
  }
  return hash;
}

// The code generator's version tells records and accepted plans what they were measured with.
TEST(Kept, OtherKernelsHaveAnotherRevision) {
  int revision = 0;
  std::string hash;
  std::istringstream(read(std::filesystem::path(KILTER_REPLAY_FOLDER) / "revision.txt")) >> revision >> hash;
  const std::string now = fmt::format("{:016x}", kept_hash());
  EXPECT_EQ(hash, now) << "The kept kernels changed. Raise kKernels in src/codegen/llvm/backend.cpp to " << revision + 1
                       << " and write '" << revision + 1 << " " << now << "' into tests/replay/revision.txt.";
  EXPECT_TRUE(codegen_version().ends_with(fmt::format(", kernels {}", revision))) << codegen_version();
}

TEST(Kept, DifferencesAreToldByLayerAndField) {
  const std::string before =
      "# title\nconv1 | Conv+Relu | conv2d_direct tile=14 | plain -> c16 | 1\nconv2 | Conv | a | b | 2\nconv2 | Conv | "
      "a "
      "| b | 3\npool | MaxPool | pool_rows tile=4 | c16 -> c16 | 4\n";
  EXPECT_EQ(difference(before, before), "");
  EXPECT_EQ(difference(before, "# another title\n" + before.substr(8)), "");
  const std::string after =
      "conv1 | Conv+Relu | conv2d_direct tile=7 | plain -> c16 | 5\nconv2 | Conv | a | b | 2\nconv2 | Conv | a | b | "
      "6\nfc | MatMul | c | d | 7\n";
  EXPECT_EQ(difference(before, after),
            "conv1:\n"
            "  schedule   old conv2d_direct tile=14\n"
            "             new conv2d_direct tile=7\n"
            "  loops      old 1\n"
            "             new 5\n"
            "conv2 (stage 2):\n"
            "  loops      old 3\n"
            "             new 6\n"
            "fc: new: fc | MatMul | c | d | 7\n"
            "pool: gone: pool | MaxPool | pool_rows tile=4 | c16 -> c16 | 4\n");
  EXPECT_EQ(difference("a | b | c | d | 1\ne | b | c | d | 2\n", "e | b | c | d | 2\na | b | c | d | 1\n"),
            "the layers are the same, in another order\n");
}

}  // namespace
}  // namespace kilter::replay
