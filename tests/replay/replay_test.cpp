// Compares the default schedules and loop IR of the speed set (the networks of the speed benchmarks) on fixed targets
// with kept ones, so a change of a template, a pass or a cost model shows up layer by layer before any measurement. The
// hash of each template's kernels, the version of its code, must equal the kept one. No code is generated or run.
//
// If a change is intended, rewrite the kept files, review the difference and build again:
//
//   KILTER_REPLAY_UPDATE=1 build/tests/replay/test_replay && git diff src/schedule tests/replay
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "../base/error_of.h"
#include "../base/scratch_folder.h"
#include "base/hash.h"
#include "kept.h"
#include "kernel_samples.h"
#include "schedule/kernel_versions.h"
#include "schedule/schedule.h"
#include "sparse_weights.h"

namespace kilter::replay {
namespace {

/// A target and a precision whose defaults are kept.
struct KeptTarget {
  std::string_view target;
  Precision precision = Precision::declared;

  /// The suffix of its files: "sapphirerapids", "sapphirerapids.bf16".
  std::string name() const {
    return precision == Precision::declared ? std::string(target)
                                            : fmt::format("{}.{}", target, kilter::name(precision));
  }
};
constexpr KeptTarget kTargets[] = {{"x86-64-v3"},   {"znver4"},      {"sapphirerapids"},
                                   {"neoverse-n1"}, {"neoverse-v1"}, {"sapphirerapids", Precision::bf16}};

std::vector<std::string> networks() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(KILTER_SPEED_SET)) {
    if (entry.path().extension() == ".onnx") names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

bool updates() { return ::getenv("KILTER_REPLAY_UPDATE") != nullptr; }

std::string read(const std::filesystem::path& file) {
  std::stringstream out;
  out << std::ifstream(file).rdbuf();
  return out.str();
}

class Replay : public testing::TestWithParam<std::string> {};

TEST_P(Replay, DefaultsAreUnchanged) {
  const ScratchFolder folder;
  const Graph graph =
      load_without_weights(std::filesystem::path(KILTER_SPEED_SET) / (GetParam() + ".onnx"), folder.path());
  for (const KeptTarget& kept : kTargets) {
    const std::string target = kept.name();
    CompileOptions options;
    options.target = parse_target(kept.target);
    options.precision = kept.precision;
    options.contents.code = false;
    const std::string now = defaults_text(fmt::format("{} for {}: defaults, kept by tests/replay", GetParam(), target),
                                          compile_graph(graph, options));
    const auto file = std::filesystem::path(KILTER_REPLAY_FOLDER) / fmt::format("{}.{}.txt", GetParam(), target);
    if (updates()) {
      std::ofstream out(file);
      out << now;
      ASSERT_TRUE(out.flush()) << "cannot write " << file;
      continue;
    }
    const std::string changes = difference(read(file), now);
    EXPECT_TRUE(changes.empty())
        << GetParam() << " for " << target << " has other defaults than " << file.filename() << " keeps:\n\n"
        << changes << "\nIf that is meant, write the files anew and review them:\n"
        << "  KILTER_REPLAY_UPDATE=1 build/tests/replay/test_replay && git diff src/schedule tests/replay";
  }
}

INSTANTIATE_TEST_SUITE_P(SpeedSet, Replay, testing::ValuesIn(networks()),
                         [](const auto& network) { return network.param; });

/// A hash of all kept files, without their names.
uint64_t kept_hash() {
  uint64_t hash = kHashSeed;
  for (const std::string& network : networks()) {
    for (const KeptTarget& kept : kTargets)
      hash = hash_text(
          read(std::filesystem::path(KILTER_REPLAY_FOLDER) / fmt::format("{}.{}.txt", network, kept.name())), hash);
  }
  return hash;
}

std::vector<KernelSample> samples() {
  return parse_kernel_samples(read(std::filesystem::path(KILTER_REPLAY_FOLDER) / "kernel_samples.txt"));
}

/// Computes what kernel_hashes() must return.
std::vector<KernelHash> hashes_now() {
  const SampledKernels sampled = sampled_kernels(samples());
  std::vector<KernelHash> rows;
  for (const Template* t : all_templates()) {
    const auto hash = sampled.hashes.find(std::string(t->name));
    rows.push_back({t->name, hash == sampled.hashes.end() ? 0 : hash->second});
  }
  rows.push_back({"defaults", kept_hash()});
  return rows;
}

/// Returns the text of src/schedule/kernel_hashes.inc.
std::string table_text(std::span<const KernelHash> rows) {
  std::string text = "// Written by tests/replay: KILTER_REPLAY_UPDATE=1 build/tests/replay/test_replay\n";
  for (const KernelHash& row : rows) text += fmt::format("{{\"{}\", 0x{:016x}}},\n", row.name, row.hash);
  return text;
}

/// Writes the table after all tests have run, since the row "defaults" depends on the files that they write.
class WritesTable : public testing::Environment {
 public:
  void TearDown() override {
    if (!updates()) return;
    std::ofstream out(KILTER_HASH_TABLE);
    out << table_text(hashes_now());
    ASSERT_TRUE(out.flush()) << "cannot write " << KILTER_HASH_TABLE;
  }
};
const testing::Environment* const kWritesTable = testing::AddGlobalTestEnvironment(new WritesTable);

/// Returns a line for each row that only one of the tables has, or that they have with different hashes.
std::string changes(std::span<const KernelHash> kept, std::span<const KernelHash> now) {
  std::string out;
  for (const KernelHash& row : now) {
    const auto old = std::ranges::find(kept, row.name, &KernelHash::name);
    if (old == kept.end())
      out += fmt::format("{}: new\n", row.name);
    else if (old->hash != row.hash)
      out += fmt::format("{}: old {:016x}, new {:016x}\n", row.name, old->hash, row.hash);
  }
  for (const KernelHash& row : kept) {
    if (std::ranges::find(now, row.name, &KernelHash::name) == now.end()) out += fmt::format("{}: gone\n", row.name);
  }
  return out;
}

// Records and accepted plans are stored with these hashes, which show whether different code was measured.
TEST(Kernels, HashesMatchTheCode) {
  if (updates()) return;
  const std::string changed = changes(kernel_hashes(), hashes_now());
  EXPECT_TRUE(changed.empty())
      << "src/schedule/kernel_hashes.inc is not of this code:\n\n"
      << changed << "\nIf that is meant, write the table anew, review it and build again; records of these templates "
      << "then count as measured with other code:\n"
      << "  KILTER_REPLAY_UPDATE=1 build/tests/replay/test_replay && git diff src/schedule tests/replay";
}

TEST(Kernels, ChangesAreListedByTemplate) {
  const KernelHash kept[] = {{"a", 1}, {"b", 2}, {"c", 3}}, now[] = {{"a", 1}, {"b", 0x20}, {"d", 4}};
  EXPECT_EQ(changes(kept, kept), "");
  EXPECT_EQ(changes(kept, now), "b: old 0000000000000002, new 0000000000000020\nd: new\nc: gone\n");
}

TEST(Kernels, SamplesHaveKernelsOfEveryTemplateOnEveryTarget) {
  const SampledKernels sampled = sampled_kernels(samples());
  for (const Template* t : all_templates()) {
    const auto targets = sampled.targets.find(std::string(t->name));
    ASSERT_NE(targets, sampled.targets.end())
        << t->name << ": add tasks and schedules of it to tests/replay/kernel_samples.txt";
    for (const std::string_view target : sample_targets()) {
      if (t->name.ends_with("_amx") && !parse_target(target).limits.bf16_tiles) continue;
      EXPECT_TRUE(targets->second.contains(std::string(target)))
          << t->name << ": no schedule in tests/replay/kernel_samples.txt is legal for " << target;
    }
  }
  EXPECT_THAT(sampled.unused, testing::IsEmpty()) << "legal on none of the targets";
}

TEST(Kernels, SamplesAreReadByTheirIndents) {
  const std::vector<KernelSample> all =
      parse_kernel_samples("# note\nrelu(f32[3])\n  map\n\n  map unroll=2\nexp(f32[3])\n");
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].task, "relu(f32[3])");
  EXPECT_THAT(all[0].schedules, testing::ElementsAre("map", "map unroll=2"));
  EXPECT_THAT(all[1].schedules, testing::IsEmpty());
  EXPECT_EQ(error_of([] { parse_kernel_samples("  map\n"); }), "kernel samples: 'map' stands before the first task");
}

TEST(KeptDefaults, DifferencesAreListedByLayerAndField) {
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
