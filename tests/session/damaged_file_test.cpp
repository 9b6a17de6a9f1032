// Damaged files of a compiled network: none is loaded unless the check is turned off.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "../base/error_of.h"
#include "../base/scratch_folder.h"
#include "base/random.h"
#include "exec/executor.h"
#include "exec/plan_file.h"
#include "exec/plan_meta.h"
#include "kilter/kilter.h"
#include "models.h"

namespace kilter {
namespace {

using testing::HasSubstr;

constexpr const char* kDamaged = "damaged: its";

class DamagedFile : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    const ScratchFolder folder;
    const std::string path = (folder.path() / "net.kilter").string();
    Network::load("zoo:squeezenet1_1", {.threads = 1, .shapes = {{"input", {1, 3, 32, 32}}}}).save(path);
    whole_ = read_file(path);
    meta_end_ = 64 + 3 * 24 + write_plan_meta(load_plan(path)).size();
  }
  static Plan parse(const std::string& file, bool verify) {
    return parse_plan(std::as_bytes(std::span(file.data(), file.size())), nullptr, "net", {.verify = verify});
  }
  static std::string flipped(uint64_t bit) {
    std::string file = whole_;
    file[bit / 8] = static_cast<char>(file[bit / 8] ^ static_cast<char>(1U << (bit % 8)));
    return file;
  }
  /// The number of bits to flip: KILTER_FLIPS, or a number that is quick enough for ordinary runs.
  static int64_t flips() {
    const char* text = std::getenv("KILTER_FLIPS");
    return text == nullptr ? 200 : std::atoll(text);
  }
  static std::string whole_;
  static size_t meta_end_;  ///< end of the plan's fields, whose separate hash is checked first
};
std::string DamagedFile::whole_;
size_t DamagedFile::meta_end_;

TEST_F(DamagedFile, FlippedBitsAreRefused) {
  const Random random(30, "flips");
  const size_t last = whole_.size() * 8;
  for (int64_t i = 0; i < flips(); ++i) {
    // Half of the flips are anywhere, mostly in constants; half are in the first twentieth, which contains fields and
    // code.
    const auto n = static_cast<uint64_t>(i);
    const uint64_t bit = random.bits(n) % (i % 2 == 0 ? last : last / 20);
    const std::string message = error_of([&] { parse(flipped(bit), true); }, ErrorKind::bad_input);
    ASSERT_THAT(message, HasSubstr("compiled file 'net': ")) << "bit " << bit;
    if (bit / 8 >= meta_end_) {
      ASSERT_THAT(message, HasSubstr(kDamaged)) << "bit " << bit;
    }
  }
}

TEST_F(DamagedFile, ZeroedPagesAndWrongEndsAreRefused) {
  const Random random(31, "pages");
  for (uint64_t i = 0; i < 50; ++i) {
    std::string file = whole_;
    const size_t page = random.bits(i) % (file.size() / 4096);
    if (file.compare(page * 4096, 4096, std::string(4096, '\0')) == 0) continue;
    file.replace(page * 4096, 4096, 4096, '\0');
    EXPECT_NE(error_of([&] { parse(file, true); }, ErrorKind::bad_input), "no error") << "page " << page;
  }
  for (const size_t cut : {size_t{1}, size_t{64}, size_t{4096}, whole_.size() / 2}) {
    EXPECT_THAT(error_of([&] { parse(whole_.substr(0, whole_.size() - cut), true); }, ErrorKind::bad_input),
                HasSubstr("the file is cut off"));
    EXPECT_THAT(error_of([&] { parse(whole_ + std::string(cut, '\0'), true); }, ErrorKind::bad_input),
                HasSubstr("the file is too long"));
  }
}

TEST_F(DamagedFile, CppInterfaceRefusesItByDefault) {
  const ScratchFolder folder;
  const std::string path = (folder.path() / "net.kilter").string();
  write_file_atomically(path, flipped(whole_.size() * 8 - 3));
  try {
    Network::load(path, {.threads = 1});
    FAIL() << "a damaged file was loaded";
  } catch (const ApiError& error) {
    EXPECT_THAT(error.what(), HasSubstr("compiled file '" + path + "': " + kDamaged));
    EXPECT_THAT(error.what(), HasSubstr("; nothing in it was run; copy the file again or compile the model again"));
  }
  EXPECT_EQ(Network::load(path, {.threads = 1, .verify_file = false}).inputs().size(), 1U);
}

TEST(OutOfMemoryError, HasItsOwnClass) {
  const ScratchFolder folder;
  const std::string path = (folder.path() / "net.kilter").string();
  Network::load("zoo:squeezenet1_1", {.threads = 1, .shapes = {{"input", {1, 3, 32, 32}}}}).save(path);
  Plan plan = load_plan(path);
  plan.arena_bytes = int64_t{1} << 45;
  save_plan(plan, path);
  try {
    Network::load(path, {.threads = 1});
    FAIL() << "35 TB were to be had";
  } catch (const OutOfMemory& error) {
    EXPECT_THAT(error.what(), HasSubstr("cannot allocate 35 TB for the arena of 'squeezenet1_1': out of memory ("));
  }
}

}  // namespace
}  // namespace kilter
