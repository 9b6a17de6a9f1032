#include "base/files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <set>

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

TEST(Files, ReplacedFileKeepsItsMode) {
  const ScratchFolder folder;
  const auto path = folder.path() / "file";
  write_file_atomically(path, "old");
  for (const int mode : {0600, 0666}) {
    std::filesystem::permissions(path, static_cast<std::filesystem::perms>(mode));
    write_file_atomically(path, "new");
    EXPECT_EQ(static_cast<int>(std::filesystem::status(path).permissions()), mode);
  }
}

TEST(Files, SymlinkIsKeptAndPointsToNewFile) {
  const ScratchFolder folder;
  write_file_atomically(folder.path() / "file", "old");
  std::filesystem::create_symlink("file", folder.path() / "link");
  write_file_atomically(folder.path() / "link", "new");
  EXPECT_TRUE(std::filesystem::is_symlink(folder.path() / "link"));
  EXPECT_EQ(read_file(folder.path() / "file"), "new");
  EXPECT_EQ(link_target(folder.path() / "link"), std::filesystem::canonical(folder.path() / "file"));
  EXPECT_EQ(link_target(folder.path() / "file"), folder.path() / "file");
  std::filesystem::create_symlink("nowhere", folder.path() / "dangling");
  EXPECT_EQ(link_target(folder.path() / "dangling"), folder.path() / "dangling");
}

TEST(FileNames, AreVisibleAndInsideTheFolder) {
  std::set<std::string> taken;
  EXPECT_EQ(file_name("output", ".npy", taken), "output.npy");
  EXPECT_EQ(file_name("../up", ".npy", taken), "___up.npy");
  EXPECT_EQ(file_name(".hidden", ".npy", taken), "_hidden.npy");
  EXPECT_EQ(file_name("..", ".npy", taken), "__.npy");
  EXPECT_EQ(file_name("/etc/passwd", ".npy", taken), "_etc_passwd.npy");
  EXPECT_EQ(file_name("-rf", ".npy", taken), "_rf.npy");
  EXPECT_EQ(file_name("a.b-c_d", ".npy", taken), "a.b-c_d.npy");
  EXPECT_EQ(file_name("", ".npy", taken), "_.npy");
  EXPECT_EQ(file_name("\x1b[31m\n", ".npy", taken), "__31m_.npy");
}

TEST(FileNames, DoNotCollide) {
  std::set<std::string> taken;
  EXPECT_EQ(file_name("a/", ".npy", taken), "a_.npy");
  EXPECT_EQ(file_name("a?", ".npy", taken), "a_-2.npy");
  EXPECT_EQ(file_name("a_-2", ".npy", taken), "a_-2-2.npy");
  EXPECT_EQ(file_name("a_", ".npy", taken), "a_-3.npy");
}

TEST(FileNames, LongNamesAreShortened) {
  const ScratchFolder folder;
  std::set<std::string> taken;
  for (const char last : {'x', 'y'}) {
    const std::string file = file_name(std::string(300, 'n') + last, ".npy", taken);
    EXPECT_TRUE(file.starts_with(std::string(160, 'n') + "-")) << file;
    EXPECT_LE(file.size(), 200U);
    write_file_atomically(folder.path() / file, "x");
  }
  EXPECT_EQ(taken.size(), 2U) << "they differ behind the cut";
  EXPECT_EQ(file_name(std::string(200, 'm'), ".npy", taken), std::string(200, 'm') + ".npy");
}

}  // namespace
}  // namespace kilter
