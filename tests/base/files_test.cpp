#include "base/files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "base/error.h"
#include "error_of.h"
#include "scratch_folder.h"

namespace kilter {
namespace {

using testing::HasSubstr;

TEST(Files, WritesReadsAndMaps) {
  const ScratchFolder folder;
  const auto path = folder.path() / "a.bin";
  const std::string text("one\0two", 7);
  write_file_atomically(path, text);
  EXPECT_EQ(read_file(path), text);
  const auto mapped = MappedFile::open(path);
  ASSERT_EQ(mapped->bytes().size(), 7U);
  EXPECT_EQ(mapped->bytes()[4], std::byte{'t'});
  write_file_atomically(path, "new");
  EXPECT_EQ(read_file(path), "new");
  EXPECT_EQ(mapped->bytes()[0], std::byte{'o'}) << "the old mapping keeps the old file";
}

TEST(Files, EmptyFileMapsToNothing) {
  const ScratchFolder folder;
  write_file_atomically(folder.path() / "empty", "");
  EXPECT_TRUE(MappedFile::open(folder.path() / "empty")->bytes().empty());
  EXPECT_EQ(read_file(folder.path() / "empty"), "");
}

TEST(Files, ErrorsNamePathAndReason) {
  const ScratchFolder folder;
  const auto missing = folder.path() / "missing";
  EXPECT_THAT(error_of([&] { MappedFile::open(missing); }, ErrorKind::io),
              testing::AllOf(HasSubstr(missing.string()), HasSubstr("No such file")));
  EXPECT_THAT(error_of([&] { read_file(missing); }, ErrorKind::io), HasSubstr("No such file"));
  EXPECT_THAT(error_of([&] { MappedFile::open(folder.path()); }, ErrorKind::io), HasSubstr("directory"));
  EXPECT_THAT(error_of([&] { write_file_atomically(folder.path(), "x"); }, ErrorKind::io), HasSubstr("directory"));
  EXPECT_THAT(error_of([&] { write_file_atomically(missing / "deeper", "x"); }, ErrorKind::io),
              HasSubstr("No such file"));
}

TEST(Files, UnreadableFile) {
  if (::geteuid() == 0) GTEST_SKIP() << "root reads every file";
  const ScratchFolder folder;
  const auto path = folder.path() / "secret";
  write_file_atomically(path, "x");
  std::filesystem::permissions(path, std::filesystem::perms::none);
  EXPECT_THAT(error_of([&] { read_file(path); }, ErrorKind::io), HasSubstr("Permission denied"));
}

TEST(Files, FullDiskIsAnErrorThatNamesTheReason) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "no /dev/full";
  EXPECT_THAT(error_of([] { write_file_atomically("/dev/full", "x"); }, ErrorKind::io), HasSubstr("No space left"));
}

TEST(Files, FailedWriteLeavesNoTemporary) {
  const ScratchFolder folder;
  const auto target = folder.path() / "target";
  std::filesystem::create_directory(target);
  EXPECT_NE(error_of([&] { write_file_atomically(target, "x"); }, ErrorKind::io), "no error");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

}  // namespace
}  // namespace kilter
