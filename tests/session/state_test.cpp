// State that runs of a session pass on: which ports are bound, its initial values, and when it changes.
#include "compile/state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../base/error_of.h"
#include "../base/scratch_folder.h"
#include "../onnx/model_maker.h"
#include "models.h"

namespace kilter {
namespace {

using onnx::ModelMaker;
using testing::ElementsAre;
using testing::Pair;

onnx::Port port(const std::string& name, const std::vector<onnx::Dim>& dims, DType type = DType::f32) {
  return {name, type, dims};
}

const onnx::Dim kTwo{2, ""}, kThree{3, ""}, kOpen{std::nullopt, "n"}, kOther{std::nullopt, "m"};

StatePairs pairs_of(const std::vector<onnx::Port>& inputs, const std::vector<onnx::Port>& outputs) {
  return find_state_pairs(inputs, outputs, nullptr);
}

TEST(StatePairs, CacheNamesArePaired) {
  EXPECT_THAT(pairs_of({port("ids", {kOpen}), port("past.0.key", {kOpen}), port("past.0.value", {kOpen})},
                       {port("logits", {kOpen}), port("present.0.value", {kOther}), port("present.0.key", {kOther})}),
              ElementsAre(Pair("past.0.key", "present.0.key"), Pair("past.0.value", "present.0.value")));
  EXPECT_THAT(pairs_of({port("past_key_values.1.key", {kOpen}), port("past_key_values.1.value", {kOpen})},
                       {port("present.1.key", {kOpen}), port("present_key_values.1.value", {kOpen})}),
              ElementsAre(Pair("past_key_values.1.key", "present.1.key"),
                          Pair("past_key_values.1.value", "present_key_values.1.value")));
}

TEST(StatePairs, OtherNamesNeedTheSameTypesAndSizes) {
  EXPECT_THAT(pairs_of({port("h", {kTwo}), port("c_in", {kOpen})}, {port("hn", {kTwo}), port("c_out", {kTwo})}),
              ElementsAre(Pair("c_in", "c_out"), Pair("h", "hn")));
  EXPECT_TRUE(pairs_of({port("h", {kTwo})}, {port("hn", {kThree})}).empty());
  EXPECT_TRUE(pairs_of({port("h", {kTwo})}, {port("hn", {kTwo, kTwo})}).empty());
  EXPECT_TRUE(pairs_of({port("h", {kTwo})}, {port("hn", {kTwo}, DType::f64)}).empty());
  EXPECT_TRUE(pairs_of({port("x", {kTwo})}, {port("y", {kTwo})}).empty());
}

TEST(StatePairs, AmbiguousPairsAreNotGuessed) {
  EXPECT_TRUE(pairs_of({port("h", {kTwo})}, {port("hn", {kTwo}), port("new_h", {kTwo})}).empty());
  EXPECT_TRUE(pairs_of({port("h", {kTwo}), port("h0", {kTwo})}, {port("hn", {kTwo})}).empty());
}

/// c = Concat(a, part of x) along the axis, under a different name; y = -x.
ModelMaker cache_model(const onnx::TestDims& cache, const onnx::TestDims& grown, int64_t axis) {
  ModelMaker maker(17);
  maker.input("x", {"batch", 1, 4});
  maker.input("a", cache);
  maker.node("Identity", {"a"}, {"same"});
  maker.node("Neg", {"x"}, {"y"});
  auto& concat = maker.node("Concat", {"same", "y"}, {"all"}, "grow");
  onnx::add_attribute(concat, "axis", onnx::kIntAttr).set_i(axis);
  maker.node("Identity", {"all"}, {"c"});
  maker.output("y", {"batch", 1, 4});
  maker.output("c", grown);
  return maker;
}

class Files {
 public:
  std::unique_ptr<Session> open(const ModelMaker& maker) {
    const std::string file = (folder_.path() / (std::to_string(count_++) + ".onnx")).string();
    write_file_atomically(file, maker.bytes());
    names_.push_back(file);
    return open_session(file);
  }
  /// The message of an error without the name of the last file.
  std::string without_name(const std::string& message) const {
    return message.starts_with(names_.back()) ? message.substr(names_.back().size() + 2) : message;
  }

 private:
  ScratchFolder folder_;
  int count_ = 0;
  std::vector<std::string> names_;
};

std::map<std::string, Tensor> x_of(int64_t batch, uint64_t seed) {
  return {{"x", random_input("x", DType::f32, {batch, 1, 4}, seed)}};
}

TEST(State, AnOutputThatAppendsToAnInputIsItsNextValue) {
  Files files;
  for (const int64_t axis : {1, -2}) {
    const auto session = files.open(cache_model({"batch", "past", 4}, {"batch", "past", 4}, axis));
    State state(*session, {});
    EXPECT_THAT(state.pairs(), ElementsAre(Pair("a", "c")));
    EXPECT_TRUE(state.values().empty()) << "the first run shows the batch";
    Tensor past(DType::f32, {3, 0, 4});
    for (uint64_t i = 0; i < 9; ++i) {
      std::map<std::string, Tensor> inputs = x_of(3, i);
      const std::vector<Tensor> kept = state.run(inputs);
      inputs["a"] = past;
      const std::vector<Tensor> by_hand = session->run(inputs);
      ASSERT_EQ(kept.size(), 1U);
      EXPECT_TRUE(kept[0].same(by_hand[0]));
      past = by_hand[1];
      const Tensor& now = state.values().at("a").tensor();
      EXPECT_TRUE(now.same(past));
      EXPECT_EQ(reinterpret_cast<uintptr_t>(now.raw()) % 64, 0U) << "the next run need not copy it";
    }
  }
}

TEST(State, OnlyOpenSizesGrow) {
  Files files;
  const auto session = files.open(cache_model({"batch", 3, 4}, {"batch", 4, 4}, 1));
  EXPECT_EQ(files.without_name(error_of([&] { State(*session, {{"a", "c"}}); }, ErrorKind::bad_input)),
            "output 'c' (f32[batch,4,4]) cannot be the next value of input 'a' (f32[batch,3,4]): dimension 1 differs");
  EXPECT_EQ(
      files.without_name(error_of([&] { State(*session, {}); }, ErrorKind::usage)),
      "bind_state: no output is known to be the next value of an input; inputs are x (f32[batch,1,4]), a "
      "(f32[batch,3,4]); outputs are y (f32[batch,1,4]), c (f32[batch,4,4]); name the pairs, such as {\"x\": \"y\"}");
}

/// y = f(h, x), hn = h + x over [n,2] or as given.
ModelMaker cell_model(const onnx::TestDims& dims, const onnx::TestDims& next) {
  ModelMaker maker(17);
  maker.input("x", {"rows", 2});
  maker.input("h", dims);
  maker.node("Add", {"h", "x"}, {"hn"});
  maker.node("Mul", {"hn", "x"}, {"y"});
  maker.output("y", {"rows", 2});
  maker.output("hn", next);
  return maker;
}

TEST(State, SizesAreInferredOrRequested) {
  Files files;
  const Tensor x = random_input("x", DType::f32, {3, 2});
  const auto shared = files.open(cell_model({"rows", 2}, {"other", 2}));
  State state(*shared, {});
  state.run({{"x", x}});
  EXPECT_EQ(state.values().at("h").tensor().shape(), (Shape{3, 2}));
  const auto apart = files.open(cell_model({"n", 2}, {"n", 2}));
  EXPECT_EQ(files.without_name(error_of([&] { State(*apart, {}); }, ErrorKind::bad_input)),
            "input 'h' (f32[n,2]) needs an initial value: the size of dimension 0 ('n') cannot be determined; give "
            "bind_state() one, such as zeros of shape 1x2");
  State given(*apart, {}, {{"h", x}});
  EXPECT_TRUE(given.values().at("h").tensor().same(x));
  EXPECT_NE(given.values().at("h").tensor().raw(), x.raw()) << "a copy";
}

TEST(State, FailedRunChangesNothing) {
  Files files;
  const auto session = files.open(cell_model({1, 2}, {"n", 2}));
  State state(*session, {});
  state.run({{"x", random_input("x", DType::f32, {1, 2})}});
  const Tensor before = state.values().at("h").tensor();
  EXPECT_EQ(files.without_name(error_of([&] { state.run({{"x", Tensor(DType::f64, {1, 2})}}); })),
            "input 'x' must be f32[rows,2], got f64");
  EXPECT_EQ(files.without_name(error_of([&] { state.run({{"x", Tensor(DType::f32, {3, 2})}}); })),
            "output 'hn', the next value of input 'h', must be f32[1,2], got f32[3,2]");
  EXPECT_EQ(state.values().at("h").tensor().raw(), before.raw());
  state.reset();
  EXPECT_TRUE(state.values().at("h").tensor().same(Tensor(DType::f32, {1, 2})));
  EXPECT_EQ(files.without_name(error_of([&] { state.reset({{"h", Tensor(DType::f32, {2, 2})}}); })),
            "the value of input 'h' must be f32[1,2], got f32[2,2]");
  state.reset({{"h", before}});
  EXPECT_TRUE(state.values().at("h").tensor().same(before));
}

TEST(State, BoundPortsCannotBeGiven) {
  Files files;
  const auto session = files.open(cell_model({1, 2}, {1, 2}));
  State state(*session, {});
  EXPECT_EQ(state.inputs().size(), 1U);
  EXPECT_EQ(state.outputs().size(), 1U);
  const Tensor x(DType::f32, {1, 2});
  EXPECT_EQ(files.without_name(error_of([&] { state.run({{"x", x}, {"h", x}}); }, ErrorKind::bad_input)),
            "input 'h' is state, which the network keeps between runs; leave it out, and use reset_state() to set it");
  EXPECT_EQ(files.without_name(error_of([&] { state.run({{"x", x}}, {{"hn", x}}); }, ErrorKind::bad_input)),
            "memory for output 'hn': it is the next value of input 'h', which the network keeps; leave it out");
  const Tensor y(DType::f32, {1, 2});
  EXPECT_EQ(state.run({{"x", x}}, {{"y", y}}).at(0).raw(), y.raw());
}

}  // namespace
}  // namespace kilter
