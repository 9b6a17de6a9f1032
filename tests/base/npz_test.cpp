#include "base/npz.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/files.h"
#include "base/npy.h"
#include "scratch_folder.h"

namespace kilter {
namespace {

using testing::HasSubstr;

std::string number(size_t value, size_t bytes) {
  std::string text;
  for (size_t i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i) & 0xff);
  return text;
}

/// Returns an archive of uncompressed files in the format of numpy.savez. `method`: 8 to declare them as compressed.
std::string archive(const std::vector<std::pair<std::string, std::string>>& files, size_t method = 0) {
  std::string all, directory;
  for (const auto& [name, bytes] : files) {
    const std::string sizes = number(bytes.size(), 4) + number(bytes.size(), 4);
    const std::string common = number(0, 2) + number(method, 2) + std::string(8, '\0') + sizes + number(name.size(), 2);
    directory += number(0x02014b50, 4) + number(20, 2) + number(20, 2) + common + number(0, 2) + number(0, 2) +
                 std::string(8, '\0') + number(all.size(), 4) + name;
    all += number(0x04034b50, 4) + number(20, 2) + common + number(20, 2) + name + std::string(20, 'x') + bytes;
  }
  return all + directory + number(0x06054b50, 4) + std::string(4, '\0') + number(files.size(), 2) +
         number(files.size(), 2) + number(directory.size(), 4) + number(all.size(), 4) + number(0, 2);
}

std::string npy_of(const Tensor& tensor) {
  const ScratchFolder folder;
  save_npy(folder.path() / "t.npy", tensor);
  return read_file(folder.path() / "t.npy");
}

std::vector<std::pair<std::string, Tensor>> parse(const std::string& file) {
  return parse_npz(std::as_bytes(std::span(file.data(), file.size())), "t.npz");
}

std::string error_of(const std::string& file) {
  try {
    parse(file);
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::bad_input);
    return e.message();
  }
  return "no error";
}

const Tensor kA = Tensor::of<float>({2}, {1, 2}), kB = Tensor::of<int64_t>({1, 3}, {4, 5, 6});

TEST(Npz, ArraysInTheOrderOfTheDirectory) {
  const auto arrays = parse(archive({{"arr_1.npy", npy_of(kB)}, {"arr_0.npy", npy_of(kA)}}));
  ASSERT_EQ(arrays.size(), 2U);
  EXPECT_EQ(arrays[0].first, "arr_1");
  EXPECT_TRUE(arrays[0].second.same(kB));
  EXPECT_TRUE(arrays[1].second.same(kA));
  EXPECT_TRUE(parse(archive({})).empty());
}

TEST(Npz, OtherFilesAreRefused) {
  EXPECT_EQ(error_of("text"),
            "t.npz: not an .npz file: it has no directory at its end; the file is cut off or in another format");
  EXPECT_EQ(error_of(archive({{"a.npy", npy_of(kA)}}, 8)),
            "t.npz: 'a.npy' is compressed; write the file with numpy.savez, not with savez_compressed");
  EXPECT_EQ(error_of(archive({{"a.txt", "x"}})), "t.npz: contains 'a.txt', expected only .npy files");
  EXPECT_THAT(error_of(archive({{"a.npy", "x"}})), HasSubstr("t.npz: 'a.npy': not a .npy file"));
  std::string large = archive({{"a.npy", npy_of(kA)}});
  large.replace(large.size() - 6, 4, "\xff\xff\xff\xff");
  EXPECT_THAT(error_of(large), HasSubstr("t.npz: .npz archives of 4 GiB or more are not supported"));
}

TEST(Npz, DamagedFilesAreErrors) {
  const std::string whole = archive({{"a.npy", npy_of(kA)}, {"b.npy", npy_of(kB)}});
  for (size_t size = 0; size < whole.size(); ++size) EXPECT_NE(error_of(whole.substr(0, size)), "no error") << size;
  for (size_t at = 0; at < whole.size(); ++at) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0xff);
    error_of(damaged);  // an error or different numbers, but nothing else
  }
}

}  // namespace
}  // namespace kilter
