// Tensors: element types, typed and raw data, shapes, external files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>

#include "../base/scratch_folder.h"
#include "model_maker.h"
#include "onnx/tensor_reader.h"

namespace kilter::onnx {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

Tensor read(const pb::TensorProto& proto, const fs::path& folder = {}) {
  return TensorReader("m.onnx", folder.empty() ? DataFolders{} : DataFolders{folder}).read(proto, "initializer 'w'");
}
std::string read_error(const pb::TensorProto& proto, const fs::path& folder = {}) {
  return error_of([&] { read(proto, folder); });
}

pb::TensorProto typed(int32_t type, std::initializer_list<int64_t> dims) {
  pb::TensorProto proto;
  proto.set_name("w");
  proto.set_data_type(type);
  for (const int64_t d : dims) proto.add_dims(d);
  return proto;
}

TEST(TensorData, TypedFields) {
  auto f = typed(1, {2});
  f.add_float_data(1.5f);
  f.add_float_data(std::numeric_limits<float>::quiet_NaN());
  const Tensor floats = read(f);
  EXPECT_EQ(floats.data<float>()[0], 1.5f);
  EXPECT_TRUE(std::isnan(floats.data<float>()[1])) << "NaN weights are legal";
  auto half = typed(10, {1});
  half.add_int32_data(0x3c00);
  EXPECT_EQ(static_cast<float>(read(half).data<Half>()[0]), 1.0f);
  auto brain = typed(16, {1});
  brain.add_int32_data(0x4000);
  EXPECT_EQ(static_cast<float>(read(brain).data<BFloat16>()[0]), 2.0f);
  auto i8 = typed(3, {2});
  i8.add_int32_data(-128);
  i8.add_int32_data(127);
  EXPECT_EQ(read(i8).ints(), (std::vector<int64_t>{-128, 127}));
  auto u32 = typed(12, {});
  u32.add_uint64_data(4294967295u);
  EXPECT_EQ(read(u32).data<uint32_t>()[0], 4294967295u);
  auto u64 = typed(13, {});
  u64.add_uint64_data(~uint64_t{0});
  EXPECT_EQ(read(u64).data<uint64_t>()[0], ~uint64_t{0});
  auto f64 = typed(11, {});
  f64.add_double_data(0.1);
  EXPECT_EQ(read(f64).data<double>()[0], 0.1);
  auto boolean = typed(9, {2});
  boolean.add_int32_data(1);
  boolean.add_int32_data(0);
  EXPECT_EQ(read(boolean).ints(), (std::vector<int64_t>{1, 0}));
  auto strings = typed(8, {2});
  strings.add_string_data("a");
  strings.add_string_data(std::string("b\0c", 3));
  EXPECT_EQ(read(strings).strings(), (std::vector<std::string>{"a", std::string("b\0c", 3)}));
}

TEST(TensorData, RawDataIsAlignedAndBoolsAreNormalised) {
  auto raw = typed(6, {3});
  const int32_t values[] = {1, -2, 3};
  raw.set_raw_data(values, sizeof values);
  const Tensor tensor = read(raw);
  EXPECT_EQ(tensor.ints(), (std::vector<int64_t>{1, -2, 3}));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor.raw()) % 64, 0u);
  auto boolean = typed(9, {3});
  boolean.set_raw_data(std::string("\x00\x02\xff", 3));
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(read(boolean).raw()), 3), std::string("\x00\x01\x01", 3));
}

TEST(TensorData, EmptyTensorsNeedNoData) {
  const Tensor empty = read(typed(1, {0, 5}));
  EXPECT_EQ(empty.elems(), 0);
  EXPECT_EQ(empty.shape(), (Shape{0, 5}));
}

TEST(TensorData, SizesMustFit) {
  auto raw = typed(1, {3, 4});
  raw.set_raw_data(std::string(40, 'a'));
  EXPECT_EQ(read_error(raw),
            "bad_model: m.onnx: initializer 'w' (f32[3,4]): expected 48 bytes of raw_data for its shape, got 40");
  auto floats = typed(1, {3, 4});
  floats.add_float_data(1);
  EXPECT_EQ(read_error(floats),
            "bad_model: m.onnx: initializer 'w' (f32[3,4]): expected 12 values in float_data for its shape, got 1");
  auto strings = typed(8, {2});
  strings.add_string_data("a");
  EXPECT_THAT(read_error(strings), HasSubstr("expected 2 values in string_data for its shape, got 1"));
  auto other_field = typed(7, {1});
  other_field.add_float_data(1);
  EXPECT_THAT(read_error(other_field), HasSubstr("expected 1 values in int64_data for its shape, got 0"));
  auto both = typed(1, {1});
  both.set_raw_data(std::string(4, 'a'));
  both.add_float_data(1);
  EXPECT_THAT(read_error(both), HasSubstr("has data twice, in raw_data and in a typed field"));
  auto raw_strings = typed(8, {1});
  raw_strings.set_raw_data("a");
  EXPECT_THAT(read_error(raw_strings), HasSubstr("a tensor of strings cannot have raw_data; expected string_data"));
}

TEST(TensorData, ValuesMustFitTheirType) {
  auto i8 = typed(3, {2});
  i8.add_int32_data(1);
  i8.add_int32_data(200);
  EXPECT_EQ(read_error(i8),
            "bad_model: m.onnx: initializer 'w': value 200 at position 1 of int32_data does not fit element type i8");
  auto half = typed(10, {1});
  half.add_int32_data(-1);
  EXPECT_THAT(read_error(half), HasSubstr("value -1 at position 0 of int32_data does not fit element type f16"));
}

TEST(TensorData, AbsurdShapes) {
  EXPECT_EQ(
      read_error(typed(1, {2, -3})),
      "bad_model: m.onnx: initializer 'w': dimension -3 of shape 2x-3 is negative; dimensions of data are 0 or more");
  EXPECT_THAT(read_error(typed(1, {0, -3})), HasSubstr("dimension -3 of shape 0x-3 is negative"));
  EXPECT_EQ(
      read_error(typed(1, {int64_t{1} << 40, 2})),
      "bad_model: m.onnx: initializer 'w': shape 1099511627776x2 has more than 2^40 elements; the limit is 2^40 per "
      "tensor");
  const int64_t huge = std::numeric_limits<int64_t>::max();
  EXPECT_THAT(read_error(typed(1, {huge, huge, huge})), HasSubstr("has more than 2^40 elements"));
  EXPECT_THAT(read_error(typed(1, {int64_t{1} << 40})), HasSubstr("expected 1099511627776 values in float_data"));
  pb::TensorProto deep = typed(1, {});
  for (int i = 0; i < 65; ++i) deep.add_dims(1);
  EXPECT_EQ(read_error(deep), "unsupported: m.onnx: initializer 'w': has 65 dimensions; Kilter handles up to 64");
}

TEST(TensorData, UnsupportedElementTypes) {
  const std::map<int32_t, std::string> kNames = {{14, "complex64"},  {15, "complex128"}, {27, "float6e2m3"},
                                                 {28, "float6e3m2"}, {29, "unknown"},    {1000, "unknown"},
                                                 {-1, "unknown"}};
  for (const auto& [number, name] : kNames) {
    auto proto = typed(number, {1});
    proto.set_raw_data("a");
    EXPECT_EQ(read_error(proto), "unsupported: m.onnx: initializer 'w' has element type " + name + " (" +
                                     std::to_string(number) +
                                     "); Kilter reads all but complex numbers and floats of 6 bits; convert the "
                                     "tensor to another type");
  }
  EXPECT_EQ(read_error(typed(0, {1})),
            "bad_model: m.onnx: initializer 'w' has no element type; export the model again");
}

TEST(TensorData, ElementTypesOfPortsAndAttributes) {
  ModelMaker port = relu_model();
  port.graph().mutable_input(0)->mutable_type()->mutable_tensor_type()->set_elem_type(27);
  EXPECT_THAT(error_of([&] { port.parse(); }), HasSubstr("input 'x' has element type float6e2m3 (27)"));
  ModelMaker attribute = relu_model();
  auto& constant = attribute.node("Constant", {}, {"c"}, "const");
  add_attribute(constant, "value", kTensorAttr).mutable_t()->set_data_type(15);
  EXPECT_THAT(error_of([&] { attribute.parse(); }),
              HasSubstr("Constant 'const': attribute 'value' has element type complex128 (15)"));
}

TEST(TensorData, SegmentsAndLocations) {
  auto segment = typed(1, {1});
  segment.mutable_segment()->set_begin(0);
  EXPECT_THAT(read_error(segment), HasSubstr("is stored in segments, which Kilter does not read"));
  auto location = typed(1, {1});
  location.set_data_location(5);
  EXPECT_THAT(read_error(location),
              HasSubstr("data_location 5 is unknown; legal values are 0 (inside) and 1 (external)"));
}

/// A folder that contains a model's weights, and a file next to the folder that the model must not reach.
class External : public testing::Test {
 protected:
  External() : root_(scratch_.path()), folder_(root_ / "model") {
    fs::create_directories(folder_ / "sub");
    write(root_ / "secret", std::string(64, 's'));
    std::string bytes(128, '\0');
    const float values[] = {1, 2, 3, 4};
    std::memcpy(bytes.data() + 64, values, sizeof values);
    write(folder_ / "w.bin", bytes);
  }

  static void write(const fs::path& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }

  static pb::TensorProto external(const std::string& location, const std::string& offset = "",
                                  const std::string& length = "") {
    auto proto = typed(1, {4});
    proto.set_data_location(1);
    const auto set = [&](const char* key, const std::string& value) {
      if (value.empty()) return;
      auto* entry = proto.add_external_data();
      entry->set_key(key);
      entry->set_value(value);
    };
    set("location", location);
    set("offset", offset);
    set("length", length);
    return proto;
  }

  std::string error(const std::string& location, const std::string& offset = "", const std::string& length = "") {
    return read_error(external(location, offset, length), folder_);
  }

  ScratchFolder scratch_;
  fs::path root_;
  fs::path folder_;
};

TEST_F(External, ViewsAlignedDataAndCopiesTheRest) {
  TensorReader reader("m.onnx", {folder_});
  const Tensor first = reader.read(external("w.bin", "64", "16"), "initializer 'w'");
  const Tensor second = reader.read(external("w.bin", "64"), "initializer 'v'");
  EXPECT_EQ(first.raw(), second.raw()) << "one mapping serves both";
  EXPECT_EQ(std::vector<float>(first.data<float>(), first.data<float>() + 4), (std::vector<float>{1, 2, 3, 4}));
  const Tensor shifted = reader.read(external("w.bin", "68", "16"), "initializer 'u'");
  EXPECT_EQ(reinterpret_cast<uintptr_t>(shifted.raw()) % 64, 0u);
  EXPECT_EQ(shifted.data<float>()[0], 2);
}

TEST_F(External, SubfoldersAreLegal) {
  fs::copy(folder_ / "w.bin", folder_ / "sub" / "w.bin");
  fs::create_symlink("sub/w.bin", folder_ / "inside");
  EXPECT_EQ(error("sub/w.bin"), "no error");
  EXPECT_EQ(error("./w.bin"), "no error");
  EXPECT_EQ(error("inside"), "no error");
}

TEST_F(External, LoadedModelUsesItsFolder) {
  ModelMaker maker = relu_model();
  *maker.graph().add_initializer() = external("w.bin", "64");
  write(folder_ / "m.onnx", maker.bytes());
  EXPECT_EQ(error_of([&] { Model::load(folder_ / "m.onnx"); }), "no error");
  EXPECT_EQ(
      error_of([&] { maker.parse(); }),
      "bad_model: m.onnx: initializer 'w' keeps its data in the file 'w.bin', but the model was read from memory; "
      "load it from its file");
}

TEST_F(External, EscapesAreRefused) {
  const std::string tail = "; expected a relative path to a file under the model's folder";
  const std::string head = "bad_model: m.onnx: initializer 'w': external data location ";
  EXPECT_EQ(error("../secret"), head + "'../secret' leaves the folder through '..'" + tail);
  EXPECT_EQ(error("../../etc/passwd"), head + "'../../etc/passwd' leaves the folder through '..'" + tail);
  EXPECT_EQ(error("sub/../../secret"), head + "'sub/../../secret' leaves the folder through '..'" + tail);
  EXPECT_EQ(error("/etc/passwd"), head + "'/etc/passwd' is an absolute path" + tail);
  EXPECT_EQ(error(std::string("w.bin\0x", 7)), head + "'w.bin\\x00x' has a zero byte" + tail);
  EXPECT_EQ(error(""), head + "'' is empty" + tail);
  EXPECT_EQ(error("sub"), head + "'sub' is not a regular file" + tail);
  fs::create_symlink(root_ / "secret", folder_ / "link");
  EXPECT_EQ(error("link"), head + "'link' is a symbolic link that leaves the folder" + tail);
  fs::create_directory_symlink(root_, folder_ / "up");
  EXPECT_EQ(error("up/secret"), head + "'up/secret' is a symbolic link that leaves the folder" + tail);
  fs::create_directories(root_ / "model_other");
  write(root_ / "model_other" / "w.bin", std::string(64, 'o'));
  fs::create_directory_symlink(root_ / "model_other", folder_ / "other");
  EXPECT_EQ(error("other/w.bin"), head + "'other/w.bin' is a symbolic link that leaves the folder" + tail);
}

TEST_F(External, MissingAndShortFiles) {
  EXPECT_EQ(error("gone.bin"), "io: m.onnx: initializer 'w': cannot read external data file '" +
                                   (folder_ / "gone.bin").string() +
                                   "': No such file or directory; put the file next to the model");
  EXPECT_EQ(
      error("w.bin", "120"),
      "bad_model: m.onnx: initializer 'w': expected 16 bytes at offset 120 of external data file 'w.bin', got a file "
      "of 128 bytes; the file is truncated or belongs to another model");
  EXPECT_THAT(error("w.bin", "9223372036854775807"), HasSubstr("expected 16 bytes at offset 9223372036854775807"));
  EXPECT_EQ(
      error("w.bin", "0", "12"),
      "bad_model: m.onnx: initializer 'w': expected 16 bytes of external data for its type and shape, got length 12");
  EXPECT_EQ(
      error("w.bin", "-8"),
      "bad_model: m.onnx: initializer 'w': external data have offset '-8'; expected a whole number of bytes, 0 or "
      "more");
  EXPECT_THAT(error("w.bin", "99999999999999999999"), HasSubstr("external data have offset '99999999999999999999'"));
  EXPECT_THAT(error("w.bin", "0", "x"), HasSubstr("external data have length 'x'"));
}

std::string tensor_error(const std::string& bytes) {
  return error_of([&] { parse_tensor(std::as_bytes(std::span(bytes.data(), bytes.size())), "input_0.pb"); });
}

TEST_F(External, TensorFiles) {
  auto proto = typed(7, {2});
  proto.add_int64_data(5);
  proto.add_int64_data(6);
  write(folder_ / "input_0.pb", proto.SerializeAsString());
  EXPECT_EQ(load_tensor(folder_ / "input_0.pb").ints(), (std::vector<int64_t>{5, 6}));
  EXPECT_THAT(error_of([&] { load_tensor(folder_ / "input_1.pb"); }), HasSubstr("No such file or directory"));
  const std::string bytes = proto.SerializeAsString();
  EXPECT_THAT(tensor_error(bytes.substr(0, bytes.size() - 1)),
              HasSubstr("bad_input: input_0.pb: not a valid ONNX tensor: cannot be parsed beyond byte"));
  EXPECT_THAT(tensor_error(""), HasSubstr("not a valid ONNX tensor"));
  proto.add_dims(3);
  EXPECT_EQ(tensor_error(proto.SerializeAsString()),
            "bad_input: input_0.pb: tensor 'w' (i64[2,3]): expected 6 values in int64_data for its shape, got 2");
}

/// A SequenceProto has its name in field 1, the kind of its elements in field 2 and tensors in field 3.
TEST(TensorFile, SequencesAreRefused) {
  const std::string tensor = typed(1, {0}).SerializeAsString();
  const std::string sequence = std::string("\x0a\x00\x10\x01\x1a", 5) + static_cast<char>(tensor.size()) + tensor;
  EXPECT_EQ(tensor_error(sequence),
            "bad_input: input_0.pb: contains a sequence or an optional value, expected a single tensor");
}

}  // namespace
}  // namespace kilter::onnx
