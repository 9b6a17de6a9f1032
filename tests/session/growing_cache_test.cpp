// A decoder whose cache grows with each token: parts that do not depend on its length are compiled once.
#include <gtest/gtest.h>

#include <cmath>

#include "../base/scratch_folder.h"
#include "base/random.h"
#include "models.h"

namespace kilter {
namespace {

constexpr int64_t kHeads = 4, kSize = 16, kWidth = kHeads * kSize, kLayers = 3;

/// Adds layers of attention over a cache, each followed by a wide product.
class Decoder {
 public:
  Decoder(int64_t tokens, int64_t cached) : builder_(graph_, 17) {
    graph_.name = "decoder";
    ValueId x = builder_.input("x", DType::f32, {1, tokens, kWidth});
    std::vector<std::pair<ValueId, std::string>> caches;
    for (int64_t i = 0; i < kLayers; ++i) {
      std::vector<ValueId> both;
      for (const char* part : {"k", "v"}) {
        const std::string name = part + std::to_string(i);
        const ValueId past = builder_.input(name, DType::f32, {1, kHeads, cached, kSize});
        both.push_back(builder_.add("Concat", {past, heads(x, seed_++)}, {{"axis", int64_t{2}}}, "grow_" + name));
        caches.emplace_back(both.back(), name + "_out");
      }
      x = layer(x, both[0], both[1]);
    }
    graph_.add_output(x, "y");
    for (const auto& [value, name] : caches) graph_.add_output(value, name);
  }
  const Graph& graph() const { return graph_; }

 private:
  ValueId product(ValueId x, int64_t rows, int64_t columns, uint64_t seed) {
    Tensor w = random_input("w", DType::f32, {rows, columns}, seed);
    for (int64_t i = 0; i < w.elems(); ++i) w.data<float>()[i] *= 0.1F;
    return builder_.add("MatMul", {x, builder_.constant(w, "w" + std::to_string(seed))}, {}, "product");
  }
  ValueId heads(ValueId x, uint64_t seed) {
    const ValueId split = builder_.list(std::vector<int64_t>{1, -1, kHeads, kSize}, "split");
    const ValueId parts = builder_.add("Reshape", {product(x, kWidth, kWidth, seed), split}, {}, "parts");
    return builder_.add("Transpose", {parts}, {{"perm", std::vector<int64_t>{0, 2, 1, 3}}}, "heads");
  }
  ValueId layer(ValueId x, ValueId keys, ValueId values) {
    const ValueId turned = builder_.add("Transpose", {keys}, {{"perm", std::vector<int64_t>{0, 1, 3, 2}}}, "turned");
    const ValueId scores = builder_.add("MatMul", {heads(x, seed_++), turned}, {}, "scores");
    const ValueId weights = builder_.add("Softmax", {scores}, {{"axis", int64_t{-1}}}, "weights");
    const ValueId mixed = builder_.add("MatMul", {weights, values}, {}, "mixed");
    const ValueId back = builder_.add("Transpose", {mixed}, {{"perm", std::vector<int64_t>{0, 2, 1, 3}}}, "back");
    const ValueId joined = builder_.list(std::vector<int64_t>{1, -1, kWidth}, "joined");
    const ValueId sum = builder_.add("Add", {x, builder_.add("Reshape", {back, joined}, {}, "rows")}, {}, "sum");
    const ValueId wide = builder_.add("Relu", {product(sum, kWidth, 1024, seed_++)}, {}, "relu");
    return builder_.add("Add", {sum, product(wide, 1024, kWidth, seed_++)}, {}, "out");
  }

  Graph graph_;
  GraphBuilder builder_;
  uint64_t seed_ = 1;
};

std::map<std::string, Tensor> inputs_of(int64_t tokens, int64_t cached, uint64_t seed) {
  std::map<std::string, Tensor> inputs{{"x", random_input("x", DType::f32, {1, tokens, kWidth}, seed)}};
  for (int64_t i = 0; i < kLayers; ++i) {
    for (const char* part : {"k", "v"}) {
      const std::string name = part + std::to_string(i);
      inputs[name] = random_input(name, DType::f32, {1, kHeads, cached, kSize}, seed);
    }
  }
  return inputs;
}

class GrowingCache : public testing::Test {
 protected:
  GrowingCache() : model_(open_model(folder_.path() / "decoder.onnx", Decoder(1, 1).graph(), false)) {
    Session::Options options;
    options.compile.target = parse_target("native");
    options.compile.debug.naive = true;
    options.threads = 1;
    reference_ = Session::open(model_, options);
    session_ = open_session(model_);
  }

  void check(int64_t tokens, int64_t cached) {
    const auto inputs = inputs_of(tokens, cached, static_cast<uint64_t>(cached) + 1);
    const std::vector<Tensor> got = session_->run(inputs), want = reference_->run(inputs);
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < got.size(); ++i) {
      ASSERT_EQ(got[i].shape(), want[i].shape());
      for (int64_t e = 0; e < got[i].elems(); ++e)
        ASSERT_NEAR(got[i].as_double(e), want[i].as_double(e), 5e-4 * (1 + std::abs(want[i].as_double(e))))
            << "output " << i << " with " << cached << " rows";
    }
  }
  void grow(int64_t from, int64_t to) {
    for (int64_t cached = from; cached < to; ++cached) check(1, cached);
  }

  ScratchFolder folder_;
  std::string model_;
  std::unique_ptr<Session> reference_, session_;
};

TEST_F(GrowingCache, CompilesLengthIndependentPartsOnce) {
  grow(1, 60);
  const ProgramRunner* program = session_->varying_program();
  ASSERT_NE(program, nullptr);
  std::map<int32_t, int64_t> shapes;  // by segment
  for (const ProgramRunner::FormState& form : program->forms()) ++shapes[form.segment];
  int64_t once = 0, often = 0;
  for (const auto& [segment, count] : shapes) count == 1 ? ++once : ++often;
  EXPECT_EQ(once, kLayers + 1) << "before, between and behind the layers' attention";
  EXPECT_EQ(often, 1) << "the layers' attention has no weights and is one segment";
}

TEST_F(GrowingCache, OtherShapesHavePlans) {
  grow(1, 6);
  const size_t plans = session_->plans();
  check(7, 3);  // several tokens at once
  EXPECT_EQ(session_->plans(), plans + 1);
  grow(20, 24);
  check(7, 3);
  EXPECT_GE(session_->plans(), plans + 2);
}

TEST_F(GrowingCache, SeveralTokensAtOnceHaveTheirOwnProgram) {
  grow(1, 6);
  const ProgramRunner* one = session_->varying_program();
  for (int64_t cached = 1; cached < 6; ++cached) check(2, cached);
  const ProgramRunner* two = session_->varying_program();
  ASSERT_NE(two, nullptr);
  EXPECT_NE(one, two);
  grow(10, 12);
  EXPECT_EQ(session_->varying_program(), one) << "still known";
}

TEST_F(GrowingCache, FrequentShapeGetsAPlan) {
  grow(1, 6);
  const auto inputs = inputs_of(1, 9, 1);
  const auto has_plan = [&] { return session_->prepare_for(inputs).compiled.notes.size(); };
  const size_t before = session_->plans();
  for (int i = 0; i < 70; ++i) session_->run(inputs);
  const size_t after = session_->plans();
  EXPECT_GT(after, before);
  EXPECT_GT(has_plan(), 0U);
  EXPECT_EQ(session_->plans(), after) << "the plan was there already";
  check(1, 9);
}

TEST_F(GrowingCache, OutputsAreWrittenToCallersMemory) {
  grow(1, 6);
  const auto inputs = inputs_of(1, 30, 5);
  const std::vector<Tensor> want = session_->run(inputs);
  ASSERT_NE(session_->varying_program(), nullptr);
  const Tensor y(DType::f32, {1, 1, kWidth}), keys(DType::f32, {1, kHeads, 31, kSize});
  const std::vector<Tensor> got = session_->run(inputs, {{"y", y}, {"k0_out", keys}});
  EXPECT_EQ(got[0].raw(), y.raw());
  EXPECT_TRUE(got[0].same(y) && got[1].same(keys));
  for (int64_t e = 0; e < y.elems(); ++e) EXPECT_NEAR(y.as_double(e), want[0].as_double(e), 1e-4);
}

TEST_F(GrowingCache, MemoryIsBoundedByTheLimit) {
  const auto limited = open_session(model_, 1, 0);
  for (int64_t cached = 1; cached < 80; ++cached) limited->run(inputs_of(1, cached, 1));
  grow(1, 80);
  EXPECT_LT(limited->plans(), session_->plans());
  for (const int64_t cached : {3, 50, 79}) {
    const auto inputs = inputs_of(1, cached, 2);
    EXPECT_EQ(limited->run(inputs)[0].shape(), session_->run(inputs)[0].shape());
  }
}

}  // namespace
}  // namespace kilter
