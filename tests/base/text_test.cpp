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
  // From the test vectors of the hash function's authors.
  EXPECT_EQ(hash_text(""), 0xcbf29ce484222325ULL);
  EXPECT_EQ(hash_text("a"), 0xaf63dc4c8601ec8cULL);
  EXPECT_EQ(hash_text("foobar"), 0x85944171f73967e8ULL);
}

TEST(Hash, EveryBitAndTheLengthChangeTheHash) {
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

TEST(Printable, EscapesControlAndReorderingCharacters) {
  EXPECT_EQ(printable("conv1/\xC3\xA9t\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80 a\\b"),
            "conv1/\xC3\xA9t\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80 a\\b")
      << "letters of every script stay";
  EXPECT_EQ(printable("a\x1b[31mb\r\n\tc\x07\x7f"), "a\\x1b[31mb\\x0d\\x0a\\x09c\\x07\\x7f");
  EXPECT_EQ(printable(std::string_view("a\0b", 3)), "a\\x00b");
  EXPECT_EQ(printable("\xC2\x9B"
                      "31m"),
            "\\xc2\\x9b"
            "31m")
      << "a control sequence of 8 bits";
  EXPECT_EQ(printable("\xE2\x80\xAE"
                      "abc\xE2\x81\xA6"),
            "\\xe2\\x80\\xaeabc\\xe2\\x81\\xa6")
      << "text from right to left";
  EXPECT_EQ(printable("\xE2\x80\xA8"), "\\xe2\\x80\\xa8") << "a line separator";
  EXPECT_EQ(printable_lines("a\n\tb\x1b\r"), "a\n\tb\\x1b\\x0d");
}

TEST(Printable, EscapesInvalidUtf8) {
  EXPECT_EQ(printable("\xC3(\xA0"), "\\xc3(\\xa0");
  EXPECT_EQ(printable("\x9b"), "\\x9b") << "a byte that old terminals take for a control sequence";
  EXPECT_EQ(printable("\xC3"), "\\xc3") << "cut off";
  EXPECT_EQ(printable("\xE2\x82"), "\\xe2\\x82");
  EXPECT_EQ(printable("\xC0\x8A"), "\\xc0\\x8a") << "a line end in two bytes";
  EXPECT_EQ(printable("\xE0\x80\x8A"), "\\xe0\\x80\\x8a") << "and in three";
  EXPECT_EQ(printable("\xED\xA0\x80"), "\\xed\\xa0\\x80") << "half of a pair";
  EXPECT_EQ(printable("\xF4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80") << "beyond the last character";
  EXPECT_EQ(printable("\xFF\xFE"), "\\xff\\xfe");
}

TEST(CsvCell, FormulasAreEscaped) {
  EXPECT_EQ(csv_cell("fire2.expand1x1"), "fire2.expand1x1");
  EXPECT_EQ(csv_cell("=HYPERLINK(\"http://x\",\"y\")"), "\"'=HYPERLINK(\"\"http://x\"\",\"\"y\"\")\"");
  EXPECT_EQ(csv_cell("=1+1"), "'=1+1");
  EXPECT_EQ(csv_cell("+cmd"), "'+cmd");
  EXPECT_EQ(csv_cell("-cmd"), "'-cmd");
  EXPECT_EQ(csv_cell("@SUM(A1)"), "'@SUM(A1)");
  EXPECT_EQ(csv_cell("\t=1"), "\\x09=1");
  EXPECT_EQ(csv_cell("\r=1\n"), "\\x0d=1\\x0a");
  EXPECT_EQ(csv_cell("a;=1+1"), "\"a;=1+1\"") << "where ; separates";
  EXPECT_EQ(csv_cell("a,b"), "\"a,b\"");
  EXPECT_EQ(csv_cell(""), "");
}

TEST(CsvCell, NumbersAreUnchanged) {
  for (const char* number : {"-1", "-1.5e-3", "+2", "0", "3.25", "-inf"}) EXPECT_EQ(csv_cell(number), number);
  EXPECT_EQ(csv_cell("-1+1"), "'-1+1");
  EXPECT_EQ(csv_cell("-"), "'-");
}

TEST(ShellWord, IsQuotedAsOneWord) {
  EXPECT_EQ(shell_word("zoo:resnet18"), "zoo:resnet18");
  EXPECT_EQ(shell_word(""), "''");
  EXPECT_EQ(shell_word("a b"), "'a b'");
  EXPECT_EQ(shell_word("it's"), "'it'\\''s'");
  EXPECT_EQ(shell_word("x[0]=1x3"), "'x[0]=1x3'");
  EXPECT_EQ(shell_word("a\x1b'\\n"), "$'a\\x1b\\'\\\\n'");
}

TEST(CpuInfo, MatchesCompilerBuiltins) {
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
  EXPECT_TRUE(tiles_refused().empty() || !cpu_has("amx-tile"));
}

}  // namespace
}  // namespace kilter
