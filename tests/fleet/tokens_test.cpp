// The file of a broker's tokens.
#include "fleet/broker/tokens.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "../base/error_of.h"
#include "../base/scratch_folder.h"
#include "base/files.h"

namespace kilter::fleet {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class TokensTest : public ::testing::Test {
 protected:
  ScratchFolder folder_;
  std::filesystem::path file_ = folder_.path() / "tokens";
};

TEST_F(TokensTest, AreStoredAsHashesOnly) {
  const std::string agent = Tokens::add(file_, TokenUse::agent, "board*");
  const std::string reader = Tokens::add(file_, TokenUse::read, "dashboard");
  EXPECT_EQ(agent.size(), 64);
  EXPECT_NE(agent, reader);
  EXPECT_THAT(read_file(file_), Not(HasSubstr(agent)));
  EXPECT_EQ(std::filesystem::status(file_).permissions(), std::filesystem::perms(0600));
  Tokens tokens(file_);
  EXPECT_EQ(tokens.find(agent).name, "board*");
  EXPECT_EQ(tokens.find(agent).use, TokenUse::agent);
  EXPECT_EQ(tokens.find(reader).use, TokenUse::read);
  for (const std::string& other :
       {std::string(), std::string("x"), agent + "0", agent.substr(1), tokens.find(agent).hash})
    EXPECT_EQ(tokens.find(other).name, "") << other;
}

TEST_F(TokensTest, MatchNamePatterns) {
  const TokenLine some{TokenUse::agent, "board*", ""}, one{TokenUse::agent, "board", ""}, any{TokenUse::agent, "*", ""};
  EXPECT_TRUE(some.fits("board") && some.fits("board7") && one.fits("board") && any.fits("x"));
  EXPECT_FALSE(some.fits("boar") || one.fits("board7") || one.fits("boar") || one.fits(""));
}

TEST_F(TokensTest, ChangedFileIsReadAgain) {
  const std::string first = Tokens::add(file_, TokenUse::agent, "a");
  Tokens tokens(file_);
  EXPECT_EQ(tokens.find(first).name, "a");
  const std::string second = Tokens::add(file_, TokenUse::agent, "b");
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));
  EXPECT_EQ(tokens.find(second).name, "b");
  std::ofstream(file_) << "agent a sha256:short\n";
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));
  EXPECT_EQ(tokens.find(second).name, "b") << "a wrong file changes nothing";
  std::ofstream(file_) << "# nobody\n";
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));
  EXPECT_EQ(tokens.find(second).name, "");
}

TEST_F(TokensTest, WrongFilesAndNamesAreErrors) {
  std::ofstream(file_) << "\n# comment\nagent a sha256:" << std::string(64, '0') << "\nwriter a b\n";
  EXPECT_THAT(error_of([&] { Tokens{file_}; }), HasSubstr("tokens, line 4: expected `agent NAME sha256:HASH` or"));
  EXPECT_THAT(error_of([&] { Tokens{folder_.path() / "none"}; }),
              HasSubstr("cannot be read: No such file or directory; `kilter-broker new-token` creates it"));
  EXPECT_THAT(error_of([&] { Tokens::add(file_, TokenUse::agent, "a b"); }),
              HasSubstr("'a b' is not a legal name for a token"));
  EXPECT_THAT(error_of([&] { Tokens::add(folder_.path() / "no/file", TokenUse::agent, "a"); }),
              HasSubstr("cannot be written: No such file"));
}

}  // namespace
}  // namespace kilter::fleet
