#include "base/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <clocale>

#include "base/cpu_info.h"
#include "base/error.h"
#include "base/hash.h"

namespace kilter {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Text, SplitJoinTrim) {
  EXPECT_THAT(split("a,,b", ','), ElementsAre("a", "", "b"));
  EXPECT_THAT(split("", ','), ElementsAre(""));
  EXPECT_THAT(split_words("  a\tb \n"), ElementsAre("a", "b"));
  EXPECT_THAT(split_words(" "), testing::IsEmpty());
  EXPECT_EQ(join({"a", "b", "c"}, ", "), "a, b, c");
  EXPECT_EQ(join({}, ", "), "");
  EXPECT_EQ(trim(" \ta b\r\n"), "a b");
  EXPECT_EQ(trim("  "), "");
  EXPECT_EQ(lower("Conv2D"), "conv2d");
}

TEST(Text, IntegersAndTheirErrors) {
  EXPECT_EQ(try_parse_int("-12"), -12);
  for (std::string_view bad : {"", "1x", " 1", "0x10", "+1", "1.0", "9223372036854775808"}) {
    EXPECT_EQ(try_parse_int(bad), std::nullopt) << bad;
  }
  EXPECT_EQ(parse_int("8", "--threads", 1, 1024), 8);
  try {
    parse_int("1025", "--threads", 1, 1024);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::usage);
    EXPECT_EQ(e.message(), "--threads: expected a whole number from 1 to 1024, got '1025'");
  }
}

TEST(Text, FloatsIgnoreTheLocale) {
  const std::string before = std::setlocale(LC_ALL, nullptr);
  std::setlocale(LC_ALL, "de_DE.UTF-8");
  EXPECT_EQ(format_float(0.1F), "0.1");
  EXPECT_EQ(format_float(0.1), "0.1");
  EXPECT_EQ(format_fixed(3.14159, 3), "3.142");
  EXPECT_EQ(try_parse_float("2.5e-3"), 2.5e-3);
  std::setlocale(LC_ALL, before.c_str());
  EXPECT_EQ(try_parse_float("2,5"), std::nullopt);
  EXPECT_THROW(parse_float("abc", "rtol"), Error);
  EXPECT_EQ(format_float(1e300 * 1e10), "inf");
  EXPECT_EQ(format_fixed(1.7976931348623157e308, 1).size(), 311U);
}

TEST(Text, Shapes) {
  EXPECT_THAT(*try_parse_shape("1x3x224x224"), ElementsAre(1, 3, 224, 224));
  EXPECT_THAT(*try_parse_shape("scalar"), testing::IsEmpty());
  EXPECT_THAT(*try_parse_shape("5"), ElementsAre(5));
  for (std::string_view bad : {"", "x", "1x", "1x-1", "a.npy", "1X2"})
    EXPECT_EQ(try_parse_shape(bad), std::nullopt) << bad;
}

TEST(Hash, Fnv1aKnownAnswers) {
  // From the authors' test vectors.
  EXPECT_EQ(hash_text(""), 0xcbf29ce484222325ULL);
  EXPECT_EQ(hash_text("a"), 0xaf63dc4c8601ec8cULL);
  EXPECT_EQ(hash_text("foobar"), 0x85944171f73967e8ULL);
}

TEST(Hash, EveryBitAndTheLengthCount) {
  for (size_t size : {1, 7, 8, 9, 31, 32, 33, 63, 64, 100}) {
    std::vector<std::byte> bytes(size, std::byte{0x5a});
    const uint64_t hash = hash_bytes(bytes);
    for (size_t bit = 0; bit < size * 8; ++bit) {
      bytes[bit / 8] ^= std::byte{1} << (bit % 8);
      EXPECT_NE(hash_bytes(bytes), hash) << size << " bit " << bit;
      bytes[bit / 8] ^= std::byte{1} << (bit % 8);
    }
    EXPECT_EQ(hash_bytes(bytes), hash);
    bytes.push_back(std::byte{0});
    EXPECT_NE(hash_bytes(bytes), hash);
  }
  EXPECT_NE(hash_bytes({}, 1), hash_bytes({}, 2));
  EXPECT_NE(hash_combine(hash_combine(0, 1), 2), hash_combine(hash_combine(0, 2), 1));
}

TEST(CpuInfo, AnswersWhatTheCompilerSees) {
#if defined(__x86_64__)
  EXPECT_EQ(cpu_has("avx2"), __builtin_cpu_supports("avx2") != 0);
  EXPECT_EQ(cpu_has("fma"), __builtin_cpu_supports("fma") != 0);
  EXPECT_EQ(cpu_has("sse4.2"), __builtin_cpu_supports("sse4.2") != 0);
  EXPECT_EQ(cpu_has("avx512f"), __builtin_cpu_supports("avx512f") != 0);
  EXPECT_EQ(cpu_has("avx512vnni"), __builtin_cpu_supports("avx512vnni") != 0);
#endif
  EXPECT_FALSE(cpu_brand().empty());
  EXPECT_THAT(missing_cpu_features({"no-such-feature"}), ElementsAre("no-such-feature"));
  EXPECT_THAT(missing_cpu_features(cpu_features()), testing::IsEmpty());
}

}  // namespace
}  // namespace kilter
