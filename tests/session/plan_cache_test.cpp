// The plan cache of a session: its keys are shapes and values, its plans share packed weights, and its bytes are
// limited.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <thread>

#include "../base/error_of.h"
#include "../base/scratch_folder.h"
#include "exec/plan_file.h"
#include "kilter/kilter.h"
#include "models.h"

namespace kilter {
namespace {

Tensor image(int64_t batch, int64_t size) { return random_input("input", DType::f32, {batch, 3, size, size}); }

bool same(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Tensor& x, const Tensor& y) { return x.same(y); });
}

/// Whether results are the same except for rounding: a layer may run a different schedule, depending on earlier shapes.
bool alike(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  const auto near = [](float x, float y) { return std::abs(x - y) <= 1e-5F * std::max(1.0F, std::abs(y)); };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](const Tensor& x, const Tensor& y) {
    return x.shape() == y.shape() && std::equal(x.data<float>(), x.data<float>() + x.elems(), y.data<float>(), near);
  });
}

TEST(PlanCache, PlansShareEqualPackedWeights) {
  const ScratchFolder folder;
  const std::string model = open_zoo(folder.path(), "resnet18", 64);
  const auto session = open_session(model);
  session->run({{"input", image(1, 64)}});
  int64_t before = session->held_bytes();
  for (const auto& [batch, size] : {std::pair<int64_t, int64_t>{2, 64}, {1, 72}, {3, 64}}) {
    const std::map<std::string, Tensor> inputs{{"input", image(batch, size)}};
    const std::vector<Tensor> out = session->run(inputs);
    const Loaded& loaded = session->prepare_for(inputs);
    const Plan& plan = loaded.plan();
    const int64_t working =
        plan.arena_bytes + 2 * plan.code_bytes + least_scratch_stride(plan) + staging_bytes(plan) + out[0].bytes();
    const int64_t weights = session->held_bytes() - before - working;
    EXPECT_GT(loaded.constants_bytes(), int64_t{40} << 20);
    EXPECT_LT(weights, loaded.constants_bytes() / 2) << batch << " images of " << size;
    std::printf("%ld images of %ld: %.1f MB of weights more, of %.1f MB\n", batch, size,
                static_cast<double>(weights) * 1e-6, static_cast<double>(loaded.constants_bytes()) * 1e-6);
    before = session->held_bytes();
    EXPECT_TRUE(same(out, open_session(model)->run(inputs))) << "shared weights change a result";
  }
  EXPECT_EQ(session->plans(), 4U);
}

TEST(PlanCache, TwinsSharePlansAndRunConcurrently) {
  const ScratchFolder folder;
  const std::string model = open_zoo(folder.path(), "squeezenet1_1", 64);
  const auto one = open_session(model);
  const std::map<std::string, Tensor> inputs{{"input", image(1, 64)}};
  const std::vector<Tensor> want = one->run(inputs);
  const auto two = one->twin();
  EXPECT_EQ(two->compile({{"input", {1, 3, 64, 64}}}).program, one->compile({{"input", {1, 3, 64, 64}}}).program);
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (Session* session : {one.get(), two.get()}) {
    threads.emplace_back([&, session] {
      for (int i = 0; i < 20; ++i) wrong += same(session->run(inputs), want) ? 0 : 1;
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
  two->run({{"input", image(2, 40)}});
  EXPECT_EQ(two->plans(), 2U);
  EXPECT_EQ(one->plans(), 1U) << "plans that a twin compiles are its own";
}

TEST(PlanCache, PlanWithSharedWeightsIsSavedCompletely) {
  const ScratchFolder folder;
  const std::string model = open_zoo(folder.path(), "squeezenet1_1", 64), file = (folder.path() / "saved").string();
  const std::map<std::string, Tensor> inputs{{"input", image(2, 40)}};
  std::vector<Tensor> out;
  {
    const auto used = open_session(model);
    used->run({{"input", image(1, 64)}});
    used->run({{"input", image(1, 48)}});
    out = used->run(inputs);
    const Loaded& loaded = used->compile({{"input", {2, 3, 40, 40}}});
    EXPECT_NE(loaded.compiled.home, nullptr) << "a plan that shares";
    save_plan(loaded.own_plan(), file);
  }
  EXPECT_TRUE(same(open_session(file)->run(inputs), out));
}

TEST(PlanCache, FirstShapeGetsThePlanOfAFixedShapeNetwork) {
  const ScratchFolder folder;
  const std::string open = open_zoo(folder.path(), "squeezenet1_1", 64);
  const std::string fixed = (folder.path() / "fixed.onnx").string();
  onnx::save(zoo::build("squeezenet1_1", {.size = 64}), fixed, 17);
  const auto saved = [&](const std::string& model, const char* name) {
    save_plan(open_session(model)->compile({{"input", {1, 3, 64, 64}}}).own_plan(), folder.path() / name);
    return read_file(folder.path() / name);
  };
  EXPECT_TRUE(saved(open, "a") == saved(fixed, "b"));
}

TEST(PlanCache, LeastRecentlyUsedPlansAreEvicted) {
  const ScratchFolder folder;
  const std::string model = open_zoo(folder.path(), "squeezenet1_1", 64);
  const auto unlimited = open_session(model), limited = open_session(model, 1, 0), some = open_session(model);
  const std::vector<int64_t> sizes{64, 40, 48, 64, 40, 56};
  std::vector<std::vector<Tensor>> answers;
  for (const int64_t size : sizes) answers.push_back(unlimited->run({{"input", image(1, size)}}));
  EXPECT_EQ(unlimited->plans(), 4U);
  for (size_t i = 0; i < sizes.size(); ++i) {
    EXPECT_TRUE(alike(limited->run({{"input", image(1, sizes[i])}}), answers[i])) << sizes[i];
    EXPECT_EQ(limited->plans(), 1U) << "only the plan in use is kept";
  }
  some->run({{"input", image(1, 64)}});
  const int64_t one = some->held_bytes();
  const std::vector<int64_t> eight{64, 40, 64, 48, 56, 64, 72, 80, 88, 96};
  for (const int64_t size : eight) some->run({{"input", image(1, size)}});
  const int64_t half = (some->held_bytes() - one) / 2;
  const auto few = open_session(model, 1, half);
  for (const int64_t size : eight) few->run({{"input", image(1, size)}});
  EXPECT_GT(few->plans(), 1U);
  EXPECT_LT(few->held_bytes(), some->held_bytes());
  EXPECT_LT(few->plans(), 8U) << "of 8 sizes";
}

TEST(PlanCache, TheCppInterfaceHasTheLimit) {
  const ScratchFolder folder;
  Network net = Network::load(open_zoo(folder.path(), "squeezenet1_1", 64), {.threads = 1, .plan_cache_bytes = 0});
  for (const int64_t size : {40, 48, 40}) {
    const Tensor x = image(1, size);
    EXPECT_EQ(net.run({{"input", f32(x.shape(), x.span<float>())}}).at(0).shape, (std::vector<int64_t>{1, 1000}));
  }
}

/// Writes a model of y = x, expanded to the shape given by the values of input `to`.
std::string expand_model(const ScratchFolder& folder) {
  const auto file = folder.path() / "expand.onnx";
  onnx::pb::ModelProto model;
  model.set_ir_version(8);
  model.add_opset_import()->set_version(17);
  auto& graph = *model.mutable_graph();
  graph.set_name("expand");
  const auto declare = [](onnx::pb::ValueInfoProto& info, const char* name, int type, std::initializer_list<int> dims) {
    info.set_name(name);
    info.mutable_type()->mutable_tensor_type()->set_elem_type(type);
    for (const int d : dims) {
      auto& dim = *info.mutable_type()->mutable_tensor_type()->mutable_shape()->add_dim();
      d > 0 ? dim.set_dim_value(d) : dim.set_dim_param("n");
    }
  };
  declare(*graph.add_input(), "x", 1, {1, 3});
  declare(*graph.add_input(), "to", 7, {2});
  declare(*graph.add_output(), "y", 1, {0, 3});
  auto& node = *graph.add_node();
  node.set_op_type("Expand");
  node.set_name("expand");
  node.add_input("x");
  node.add_input("to");
  node.add_output("y");
  write_file_atomically(file, model.SerializeAsString());
  return file.string();
}

TEST(PlanCache, ValuesThatShapesDependOnAreCompared) {
  const ScratchFolder folder;
  const auto session = open_session(expand_model(folder));
  const Tensor x = Tensor::of<float>({1, 3}, {1, 2, 3});
  const Tensor to = Tensor::of<int64_t>({2}, {2, 3});
  const auto rows = [&](int64_t n) {
    to.data<int64_t>()[0] = n;  // the caller may change its memory between runs
    const Tensor y = session->run({{"x", x}, {"to", to}}).at(0);
    EXPECT_EQ(y.data<float>()[y.elems() - 1], 3);
    return y.shape()[0];
  };
  for (const int64_t n : {2, 5, 2, 7, 5, 2}) EXPECT_EQ(rows(n), n);
  EXPECT_EQ(session->plans(), 3U);
}

TEST(PlanCache, InputsOfDeclaredShapesReuseTheirPlan) {
  const auto session = open_session("zoo:squeezenet1_1");
  session->compile();
  session->run({{"input", image(1, 224)}});
  EXPECT_EQ(session->plans(), 1U);
}

TEST(PlanCache, WrongInputsAreRefusedAfterRightOnes) {
  const ScratchFolder folder;
  const auto session = open_session(open_zoo(folder.path(), "squeezenet1_1", 64));
  session->run({{"input", image(1, 40)}});
  EXPECT_EQ(error_of([&] { session->run({}); }),
            session->name() + ": input 'input' (f32[input0,3,input2,input3]) is missing");
  EXPECT_EQ(error_of([&] { session->run({{"input", Tensor(DType::f64, {1, 3, 40, 40})}}); }),
            session->name() + ": input 'input' must be f32[input0,3,input2,input3], got f64");
  EXPECT_EQ(error_of([&] { session->run({{"input", image(1, 40)}, {"other", image(1, 40)}}); }),
            session->name() + ": no input 'other'; legal values are input");
  EXPECT_THAT(error_of([&] { session->run({{"input", Tensor(DType::f32, {1, 4, 40, 40})}}); }),
              testing::HasSubstr("dimension 1 is 3 in the model, got 4"));
}

TEST(PlanCache, HeldOutputsAreKeptAndOthersReused) {
  const ScratchFolder folder;
  const auto session = open_session(open_zoo(folder.path(), "squeezenet1_1", 64));
  const std::map<std::string, Tensor> first{{"input", image(1, 40)}};
  const std::map<std::string, Tensor> second{{"input", random_input("other", DType::f32, {1, 3, 40, 40})}};
  std::vector<Tensor> kept = session->run(first);
  const Tensor copy = kept[0].clone();
  std::vector<Tensor> other = session->run(second);
  EXPECT_NE(other[0].raw(), kept[0].raw());
  EXPECT_TRUE(kept[0].same(copy)) << "a result that the caller holds was overwritten";
  EXPECT_FALSE(other[0].same(copy));
  const std::byte* memory = other[0].raw();
  other.clear();
  EXPECT_EQ(session->run(first)[0].raw(), memory);
}

TEST(PlanCache, ANullInputIsRefused) {
  Network net = Network::load("zoo:squeezenet1_1", {.threads = 1, .shapes = {{"input", {1, 3, 32, 32}}}});
  try {
    net.run({{"input", View{Type::f32, {1, 3, 32, 32}, nullptr}}});
    FAIL() << "a null pointer was taken";
  } catch (const ApiError& error) {
    EXPECT_STREQ(error.what(), "input 'input' of shape 1x3x32x32 is a null pointer; expected 12288 bytes");
  }
}

}  // namespace
}  // namespace kilter
