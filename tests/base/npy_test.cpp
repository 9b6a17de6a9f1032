#include "base/npy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/files.h"
#include "scratch_folder.h"

namespace kilter {
namespace {

using testing::HasSubstr;

/// Returns a file in NumPy's format: version, header with the given dictionary padded to 64 bytes, data.
std::string npy(std::string dictionary, const std::string& data, char version = 1) {
  const size_t prefix = version == 1 ? 10 : 12;
  while ((prefix + dictionary.size() + 1) % 64 != 0) dictionary += ' ';
  dictionary += '\n';
  std::string file = "\x93NUMPY";
  file += version;
  file += '\0';
  file += static_cast<char>(dictionary.size() & 0xff);
  file += static_cast<char>(dictionary.size() >> 8);
  if (version > 1) file += std::string(2, '\0');
  return file + dictionary + data;
}

Tensor parse(const std::string& file) { return parse_npy(std::as_bytes(std::span(file.data(), file.size())), "t.npy"); }

std::string error_of(const std::string& file) {
  try {
    parse(file);
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::bad_input);
    EXPECT_THAT(e.message(), HasSubstr("t.npy"));
    return e.message();
  }
  return "no error";
}

TEST(Npy, EveryTypeRoundTrips) {
  const ScratchFolder folder;
  for (DType type : {DType::f32, DType::f64, DType::f16, DType::i8, DType::i16, DType::i32, DType::i64, DType::u8,
                     DType::u16, DType::u32, DType::u64, DType::boolean}) {
    const Tensor tensor(type, {2, 3});
    for (int64_t i = 0; i < tensor.bytes(); ++i)
      tensor.raw()[i] = static_cast<std::byte>(type == DType::boolean ? i % 2 : i);
    save_npy(folder.path() / "t.npy", tensor);
    EXPECT_TRUE(load_npy(folder.path() / "t.npy").same(tensor)) << name(type);
  }
}

TEST(Npy, WritesWhatNumpyWrites) {
  const ScratchFolder folder;
  const auto written = [&](const Tensor& tensor) {
    save_npy(folder.path() / "t.npy", tensor);
    return read_file(folder.path() / "t.npy");
  };
  EXPECT_EQ(written(Tensor::of<int16_t>({2, 1}, {1, 2})),
            npy("{'descr': '<i2', 'fortran_order': False, 'shape': (2, 1), }", std::string("\1\0\2\0", 4)));
  EXPECT_EQ(written(Tensor::of<uint8_t>({1}, {9})),
            npy("{'descr': '|u1', 'fortran_order': False, 'shape': (1,), }", "\x09"));
  EXPECT_EQ(written(Tensor::scalar<bool>(true)), npy("{'descr': '|b1', 'fortran_order': False, 'shape': (), }", "\1"));
}

TEST(Npy, Bf16IsWrittenAsFloat) {
  const ScratchFolder folder;
  save_npy(folder.path() / "t.npy", Tensor::of<BFloat16>({2}, {BFloat16(1.5F), BFloat16(-2.0F)}));
  EXPECT_TRUE(load_npy(folder.path() / "t.npy").same(Tensor::of<float>({2}, {1.5F, -2.0F})));
}

TEST(Npy, EmptyAndScalar) {
  const ScratchFolder folder;
  for (const Tensor& tensor : {Tensor(DType::f32, {0, 3}), Tensor::scalar<int64_t>(-5)}) {
    save_npy(folder.path() / "t.npy", tensor);
    EXPECT_TRUE(load_npy(folder.path() / "t.npy").same(tensor));
  }
}

TEST(Npy, ReadsEveryVersionAndHeaderForm) {
  const std::string data("\1\2\3\4\5\6", 6);
  const Tensor expected = Tensor::of<uint8_t>({2, 3}, {1, 2, 3, 4, 5, 6});
  EXPECT_TRUE(parse(npy("{\"shape\":(2,3),\"fortran_order\":False,\"descr\":\"|u1\"}", data)).same(expected));
  EXPECT_TRUE(parse(npy("{'descr': '|u1', 'fortran_order': False, 'shape': (2, 3), }", data, 2)).same(expected));
  EXPECT_TRUE(parse(npy("{'descr': '|u1', 'fortran_order': False, 'shape': (2, 3), }", data, 3)).same(expected));
}

TEST(Npy, FortranOrderIsTransposed) {
  const std::string data("\1\2\3\4\5\6\7\10\11\12\13\14", 12);
  const Tensor tensor = parse(npy("{'descr': '|i1', 'fortran_order': True, 'shape': (2, 3, 2), }", data));
  EXPECT_TRUE(tensor.same(Tensor::of<int8_t>({2, 3, 2}, {1, 7, 3, 9, 5, 11, 2, 8, 4, 10, 6, 12})));
}

TEST(Npy, BooleansAreNormalised) {
  const Tensor tensor = parse(npy("{'descr': '|b1', 'fortran_order': False, 'shape': (2,), }", std::string("\7\0", 2)));
  EXPECT_EQ(tensor.raw()[0], std::byte{1});
  EXPECT_EQ(tensor.raw()[1], std::byte{0});
}

TEST(Npy, BadFilesGiveOneClearError) {
  EXPECT_THAT(error_of(""), HasSubstr("not a .npy file"));
  EXPECT_THAT(error_of("PK\3\4 something else"), HasSubstr("not a .npy file"));
  EXPECT_THAT(error_of(npy("{'descr': '>f4', 'fortran_order': False, 'shape': (1,), }", "1234")), HasSubstr("'>f4'"));
  EXPECT_THAT(error_of(npy("{'descr': '|S8', 'fortran_order': False, 'shape': (1,), }", "")), HasSubstr("astype"));
  EXPECT_THAT(error_of(npy("{'descr': '<U8', 'fortran_order': False, 'shape': (1,), }", "")),
              HasSubstr("expected 32 bytes of data for str [1], got 0"));
  EXPECT_THAT(error_of(npy("{'descr': '<U-1', 'fortran_order': False, 'shape': (1,), }", "")),
              HasSubstr("element type '<U-1'"));
  EXPECT_THAT(error_of(npy("{'descr': '<U1', 'fortran_order': False, 'shape': (1,), }", std::string("\0\xd8\0\0", 4))),
              HasSubstr("element 0 contains 0xd800, which is not a character"));
  EXPECT_THAT(error_of(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", "1234")),
              HasSubstr("expected 8 bytes of data for f32 [2], got 4; the file is cut off"));
  EXPECT_THAT(error_of(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }", "12345")),
              HasSubstr("too long"));
  EXPECT_THAT(error_of(npy("{'descr': '<f4', 'fortran_order': False}", "")), HasSubstr("a key is missing"));
  EXPECT_THAT(error_of(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }", "")), HasSubstr("dimension"));
  EXPECT_THAT(error_of(npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }", "")),
              HasSubstr("malformed"));
  EXPECT_THAT(error_of(npy("{'descr': '<f4', 'fortran_order': Maybe, 'shape': (1,), }", "")),
              HasSubstr("neither True"));
}

TEST(Npy, StringsRoundTrip) {
  const ScratchFolder folder;
  const auto path = folder.path() / "t.npy";
  Tensor words(DType::string, {2, 2});
  words.strings() = {"a", "", "gr\u00fcn", "\U0001f600!"};
  save_npy(path, words);
  EXPECT_TRUE(load_npy(path).same(words));
  save_npy(path, Tensor(DType::string, {3, 0}));
  EXPECT_EQ(load_npy(path).shape(), (Shape{3, 0}));
  const auto refusal = [&](const std::string& text) {
    words.strings()[1] = text;
    try {
      save_npy(path, words);
    } catch (const Error& e) {
      return e.message().substr(e.message().find("string"));
    }
    return std::string("no error");
  };
  EXPECT_EQ(refusal("a\xff"), "string 1 is not UTF-8 at byte 1; .npy files can contain only valid text");
  EXPECT_EQ(refusal(std::string("a\0", 2)), "string 1 ends with a zero, which .npy files cannot represent");
}

TEST(Npy, StringsInFortranOrderAreTransposed) {
  std::string data;
  for (const char c : {'a', 'c', 'b', 'd'}) data += std::string(1, c) + std::string(3, '\0');
  const Tensor words = parse(npy("{'descr': '<U1', 'fortran_order': True, 'shape': (2, 2), }", data));
  EXPECT_EQ(words.strings(), (std::vector<std::string>{"a", "b", "c", "d"}));
}

TEST(Npy, AbsurdShapeIsAnError) {
  EXPECT_THROW(parse(npy("{'descr': '<U0', 'fortran_order': False, 'shape': (1099511627776,), }", "")), Error);
  EXPECT_THROW(parse(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296), }", "")), Error);
}

TEST(Npy, EveryTruncationIsAnError) {
  const std::string file = npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", "12345678");
  for (size_t size = 0; size < file.size(); ++size) EXPECT_NE(error_of(file.substr(0, size)), "no error") << size;
}

}  // namespace
}  // namespace kilter
