// Sparse tensors, which are converted to dense tensors when they are read.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model_maker.h"
#include "onnx/tensor_reader.h"

namespace kilter::onnx {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// A sparse tensor of f32 [3,4] with these elements.
pb::SparseTensorProto sparse(const std::vector<float>& values, const Shape& index_shape,
                             const std::vector<int64_t>& indices) {
  pb::SparseTensorProto proto;
  set_floats(*proto.mutable_values(), "w", {static_cast<int64_t>(values.size())}, values);
  proto.mutable_indices()->set_data_type(7);
  for (const int64_t d : index_shape) proto.mutable_indices()->add_dims(d);
  for (const int64_t index : indices) proto.mutable_indices()->add_int64_data(index);
  proto.add_dims(3), proto.add_dims(4);
  return proto;
}

Tensor read(const pb::SparseTensorProto& proto) {
  return TensorReader("m.onnx", {}).read(proto, "sparse initializer 'w'");
}
std::string read_error(const pb::SparseTensorProto& proto) {
  return error_of([&] { read(proto); });
}
std::vector<float> floats(const Tensor& t) { return {t.span<float>().begin(), t.span<float>().end()}; }

TEST(SparseTensor, PositionsAndCoordinates) {
  const std::vector<float> expected = {0, 5, 0, 0, 0, 0, 6, 0, 0, 0, 0, 7};
  const Tensor linear = read(sparse({5, 6, 7}, {3}, {1, 6, 11}));
  EXPECT_EQ(linear.shape(), (Shape{3, 4}));
  EXPECT_EQ(floats(linear), expected);
  EXPECT_EQ(floats(read(sparse({5, 6, 7}, {3, 2}, {0, 1, 1, 2, 2, 3}))), expected);
}

TEST(SparseTensor, WithoutElements) {
  for (const Shape& indices : {Shape{0}, Shape{0, 2}})
    EXPECT_EQ(floats(read(sparse({}, indices, {}))), std::vector<float>(12));
  pb::SparseTensorProto none = sparse({}, {0}, {});
  none.clear_indices();
  EXPECT_EQ(floats(read(none)), std::vector<float>(12));
  none.clear_dims();
  none.add_dims(0);
  EXPECT_EQ(read(none).shape(), Shape{0});
}

TEST(SparseTensor, OtherElementTypes) {
  pb::SparseTensorProto proto = sparse({1, 1}, {2}, {0, 5});
  proto.clear_values();
  proto.mutable_values()->set_data_type(8);
  proto.mutable_values()->add_dims(2);
  proto.mutable_values()->add_string_data("a");
  proto.mutable_values()->add_string_data("b");
  const Tensor texts = read(proto);
  EXPECT_EQ(texts.strings()[0] + texts.strings()[1] + texts.strings()[5], "ab");
  proto.mutable_values()->clear_string_data();
  proto.mutable_values()->set_data_type(22);  // INT4: 3 and -2 in one byte
  proto.mutable_values()->add_int32_data(0xe3);
  EXPECT_THAT(read(proto).ints(), ElementsAre(3, 0, 0, 0, 0, -2, 0, 0, 0, 0, 0, 0));
  proto.mutable_values()->set_data_type(24);
  proto.mutable_values()->set_raw_data("ab");
  proto.mutable_values()->clear_int32_data();
  EXPECT_EQ(
      read_error(proto),
      "unsupported: m.onnx: sparse initializer 'w': values of f8e8m0 have no 0 for the elements left out; save it as "
      "dense");
}

TEST(SparseTensor, IndicesOutsideTheShape) {
  EXPECT_EQ(
      read_error(sparse({5, 6}, {2}, {1, 12})),
      "bad_model: m.onnx: sparse initializer 'w': indices[1] is 12, outside the shape [3,4]; legal values are 0 to 11");
  EXPECT_THAT(read_error(sparse({5}, {1}, {-1})), HasSubstr("indices[0] is -1, outside the shape [3,4]"));
  EXPECT_EQ(read_error(sparse({5, 6}, {2, 2}, {0, 3, 0, 4})),
            "bad_model: m.onnx: sparse initializer 'w': indices[1] is (0,4), outside the shape [3,4]; legal values are "
            "(0,0) to (2,3)");
  EXPECT_THAT(read_error(sparse({5}, {1, 2}, {1, -1})), HasSubstr("indices[0] is (1,-1), outside the shape"));
  pb::SparseTensorProto empty = sparse({5}, {1}, {0});
  empty.set_dims(0, 0);
  EXPECT_THAT(read_error(empty), HasSubstr("indices[0] is 0, outside the shape [0,4]; the tensor has no elements"));
}

TEST(SparseTensor, IndicesMustIncrease) {
  EXPECT_EQ(
      read_error(sparse({5, 6}, {2}, {4, 4})),
      "bad_model: m.onnx: sparse initializer 'w': indices[1] is 4 after 4; indices must increase and be given once "
      "each: sort them");
  EXPECT_THAT(read_error(sparse({5, 6}, {2, 2}, {1, 0, 0, 3})),
              HasSubstr("indices[1] is (0,3) after (1,0); indices must"));
}

TEST(SparseTensor, TypesAndShapesMustFit) {
  EXPECT_EQ(
      read_error(sparse({5, 6}, {3}, {0, 1, 2})),
      "bad_model: m.onnx: sparse initializer 'w': the indices are i64[3], expected i64[2] or i64[2,2] for 2 values");
  EXPECT_THAT(read_error(sparse({5}, {1, 1}, {0})), HasSubstr("the indices are i64[1,1], expected i64[1] or i64[1,2]"));
  EXPECT_THAT(read_error(sparse({5}, {}, {0})), HasSubstr("the indices are i64[], expected"));
  pb::SparseTensorProto missing = sparse({5}, {1}, {0});
  missing.clear_indices();
  EXPECT_THAT(read_error(missing), HasSubstr("sparse initializer 'w': indices has no element type"));
  pb::SparseTensorProto rows = sparse({5}, {1}, {0});
  rows.mutable_values()->add_dims(1);
  EXPECT_EQ(read_error(rows),
            "bad_model: m.onnx: sparse initializer 'w': the values have shape [1,1], expected one dimension");
  pb::SparseTensorProto scalar = sparse({5}, {1}, {0});
  scalar.clear_dims();
  EXPECT_THAT(read_error(scalar), HasSubstr("has no dims; expected the dimensions of the dense tensor"));
  pb::SparseTensorProto large = sparse({5}, {1}, {0});
  large.set_dims(0, int64_t{1} << 36), large.set_dims(1, 8);
  EXPECT_THAT(read_error(large),
              HasSubstr("out_of_memory: cannot allocate 2.2 TB for m.onnx: sparse initializer 'w' as a "
                        "dense tensor"));
}

/// y = x + w + c with a sparse initializer w and a sparse constant c, also in a branch.
ModelMaker sum_model() {
  ModelMaker maker;
  maker.input("x", {3, 4});
  *maker.graph().add_sparse_initializer() = sparse({1, 2}, {2}, {0, 11});
  auto& constant = maker.node("Constant", {}, {"c"}, "c");
  *add_attribute(constant, "sparse_value", kSparseTensorAttr).mutable_sparse_tensor() = sparse({10}, {1}, {1});
  maker.node("Sum", {"x", "w", "c"}, {"y"});
  maker.output("y", {3, 4});
  return maker;
}

TEST(SparseTensor, InGraphs) {
  const Graph graph = sum_model().parse()->bind({});
  std::vector<std::vector<float>> constants;
  for (size_t v = 0; v < graph.value_count(); ++v) {
    const Value& value = graph.value(static_cast<ValueId>(v));
    if (value.constant && !value.dead) constants.push_back(floats(*value.constant));
  }
  EXPECT_THAT(constants, testing::UnorderedElementsAre(ElementsAre(1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2),
                                                       ElementsAre(0, 10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)));
}

TEST(SparseTensor, AsDefaultOfAnInput) {
  ModelMaker maker = sum_model();
  maker.input("w", {3, 4});
  const auto model = maker.parse();
  ASSERT_EQ(model->inputs().size(), 1U);
  ASSERT_EQ(model->default_inputs().size(), 1U);
  EXPECT_EQ(model->default_inputs()[0].name, "w");
}

TEST(SparseTensor, NamesAreUnique) {
  ModelMaker twice = sum_model();
  set_floats(twice.initializer(), "w", {1}, {0});
  EXPECT_THAT(error_of([&] { twice.parse(); }), HasSubstr("the name 'w' is used by two initializers of the graph"));
  ModelMaker nameless = sum_model();
  nameless.graph().mutable_sparse_initializer(0)->mutable_values()->clear_name();
  EXPECT_THAT(error_of([&] { nameless.parse(); }), HasSubstr("an initializer of the graph has no name"));
}

}  // namespace
}  // namespace kilter::onnx
