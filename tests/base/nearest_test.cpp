#include "base/nearest.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace kilter {
namespace {

const std::vector<std::string> kCommands{"run", "bench", "profile", "tune", "records", "compile", "compare"};

TEST(Nearest, DistanceCountsInsertionsDeletionsReplacementsAndSwaps) {
  EXPECT_EQ(edit_distance("", ""), 0u);
  EXPECT_EQ(edit_distance("", "abc"), 3u);
  EXPECT_EQ(edit_distance("abc", ""), 3u);
  EXPECT_EQ(edit_distance("profil", "profile"), 1u);
  EXPECT_EQ(edit_distance("bnech", "bench"), 1u);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
}

TEST(Nearest, ASimilarWordIsFound) {
  EXPECT_EQ(nearest("profil", kCommands), "profile");
  EXPECT_EQ(nearest("bnech", kCommands), "bench");
  EXPECT_EQ(nearest("recrods", kCommands), "records");
  EXPECT_EQ(nearest("prof", kCommands), "profile");     // its beginning
  EXPECT_EQ(nearest("compale", kCommands), "compile");  // as near as compare, which comes later
}

TEST(Nearest, UnrelatedWordGetsNoSuggestion) {
  EXPECT_EQ(nearest("frobnicate", kCommands), "");
  EXPECT_EQ(nearest("xy", kCommands), "");
  EXPECT_EQ(nearest("", kCommands), "");
  EXPECT_EQ(nearest("profil", {}), "");
}

TEST(Nearest, SuggestionTextContinuesAMessage) {
  EXPECT_EQ(did_you_mean("tnue", kCommands), "; did you mean 'tune'?");
  EXPECT_EQ(did_you_mean("frobnicate", kCommands), ";");
}

}  // namespace
}  // namespace kilter
