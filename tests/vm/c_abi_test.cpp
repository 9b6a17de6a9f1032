// Files of programs through the C interface of libkilter_runtime.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kilter/runtime.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "../base/scratch_folder.h"
#include "compile/memory_model.h"
#include "compile/session.h"
#include "program_models.h"

namespace kilter {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

struct Freed {
  void operator()(kilter_program* p) const { kilter_program_free(p); }
  void operator()(kilter_instance* p) const { kilter_instance_free(p); }
  void operator()(kilter_value* p) const { kilter_value_free(p); }
};
using Value = std::unique_ptr<kilter_value, Freed>;

/// A compiled file of a model, loaded by the runtime library.
class Runtime {
 public:
  explicit Runtime(const onnx::ModelMaker& maker, const std::map<std::string, Shape>& shapes = {},
                   const std::vector<std::string>& ranges = {}) {
    const MemoryModel model(maker.parse());
    Session::Options options;
    options.compile.target = parse_target("native");
    options.shapes = shapes;
    options.ranges = ShapeRanges::parse(ranges);
    const std::string file = (folder_.path() / "net.kilter").string();
    Session::open(model.name(), options)->save(file);
    kilter_program* loaded = nullptr;
    EXPECT_EQ(kilter_program_load(file.c_str(), &loaded), KILTER_OK) << kilter_last_error();
    program.reset(loaded);
    kilter_instance* made = nullptr;
    EXPECT_EQ(kilter_instance_create(loaded, 1, &made), KILTER_OK) << kilter_last_error();
    instance.reset(made);
  }
  kilter_status run(const std::vector<const kilter_value*>& inputs, std::vector<Value>& outputs) const {
    std::vector<kilter_value*> made(kilter_program_output_count(program.get()));
    const kilter_status status =
        kilter_instance_run_values(instance.get(), inputs.data(), inputs.size(), made.data(), made.size());
    outputs.clear();
    for (kilter_value* value : made) outputs.emplace_back(value);
    return status;
  }

  std::unique_ptr<kilter_program, Freed> program;
  std::unique_ptr<kilter_instance, Freed> instance;

 private:
  ScratchFolder folder_;
};

Value floats(const std::vector<int64_t>& dims, const std::vector<float>& data) {
  kilter_value* made = nullptr;
  EXPECT_EQ(kilter_value_tensor(KILTER_F32, dims.size(), dims.data(), data.data(), &made), KILTER_OK)
      << kilter_last_error();
  return Value(made);
}

Value integer(const int64_t& value) {
  kilter_value* made = nullptr;
  EXPECT_EQ(kilter_value_tensor(KILTER_I64, 0, nullptr, &value, &made), KILTER_OK) << kilter_last_error();
  return Value(made);
}

kilter_tensor_info info_of(const Value& value) {
  kilter_tensor_info info{};
  EXPECT_EQ(kilter_value_info(value.get(), &info), KILTER_OK) << kilter_last_error();
  return info;
}

std::vector<float> elements(const Value& value) {
  std::vector<float> all(info_of(value).bytes / sizeof(float));
  std::memcpy(all.data(), kilter_value_data(value.get()), info_of(value).bytes);
  return all;
}

TEST(CProgram, ResultsMayBeMaps) {
  const Runtime net(onnx::mapping_model(), {{"x", {2, 3}}});
  std::vector<Value> out;
  const std::vector<float> data = {1, 2, 3, 4, 5, 6};
  const Value x = floats({2, 3}, data);
  ASSERT_EQ(net.run({x.get()}, out), KILTER_OK) << kilter_last_error();
  ASSERT_EQ(kilter_value_count(out[0].get()), 2U);
  kilter_value *row = nullptr, *scores = nullptr;
  ASSERT_EQ(kilter_value_element(out[0].get(), 1, &row), KILTER_OK);
  const Value map(row);
  ASSERT_EQ(kilter_value_kind(row), KILTER_MAP);
  ASSERT_EQ(kilter_value_map_elements(row, &scores), KILTER_OK);
  const Value owner(scores);
  std::vector<float> sorted = elements(owner);
  std::ranges::sort(sorted);
  EXPECT_THAT(sorted, ElementsAre(4, 5, 6));
}

TEST(CProgram, ShapesAreKnownAfterTheRun) {
  const Runtime net(onnx::doubling_loop());
  kilter_tensor_info info;
  ASSERT_EQ(kilter_program_output(net.program.get(), 1, &info), KILTER_OK);
  EXPECT_STREQ(info.name, "all");
  ASSERT_EQ(info.rank, 2U);
  EXPECT_EQ(info.dims[0], -1);
  EXPECT_EQ(info.dims[1], 2);
  EXPECT_EQ(info.bytes, 0U);
  std::vector<Value> out;
  const std::vector<float> data = {-1, 3};
  const Value x = floats({2}, data);
  for (const int64_t n : {3, 0, 5}) {
    const Value count = integer(n);
    ASSERT_EQ(net.run({count.get(), x.get()}, out), KILTER_OK) << kilter_last_error();
    const auto factor = static_cast<float>(1 << n);
    EXPECT_THAT(elements(out[0]), ElementsAre(factor, 3 * factor));
    EXPECT_EQ(info_of(out[1]).rank, 2U);
    EXPECT_EQ(info_of(out[1]).dims[0], n);
    EXPECT_EQ(info_of(out[1]).bytes, 8U * static_cast<size_t>(n));
  }
}

TEST(CProgram, AFileForSeveralShapesRunsAllOfThem) {
  onnx::ModelMaker maker;
  maker.input("x", {"n", 4});
  maker.node("Exp", {"x"}, {"e"}, "exp");
  maker.node("Softmax", {"e"}, {"y"}, "softmax");
  maker.output("y", {"n", 4});
  const Runtime net(maker, {}, {"x={1,2,8}x4"});
  kilter_tensor_info info;
  ASSERT_EQ(kilter_program_input(net.program.get(), 0, &info), KILTER_OK);
  ASSERT_EQ(info.rank, 2U);
  EXPECT_EQ(info.dims[0], -1);
  EXPECT_EQ(info.bytes, 0U);
  std::vector<Value> out;
  for (const int64_t n : {8, 1, 2, 8}) {
    const std::vector<float> data(static_cast<size_t>(4 * n), 0.5F);
    const Value x = floats({n, 4}, data);
    ASSERT_EQ(net.run({x.get()}, out), KILTER_OK) << kilter_last_error();
    EXPECT_EQ(info_of(out[0]).dims[0], n);
    EXPECT_EQ(elements(out[0]), std::vector<float>(static_cast<size_t>(4 * n), 0.25F));
  }
  const std::vector<float> other(12);
  EXPECT_EQ(net.run({floats({3, 4}, other).get()}, out), KILTER_ERROR_BAD_INPUT);
  EXPECT_STREQ(
      kilter_last_error(),
      "m.onnx: input 'x': dimension 0 ('n') is 3; expected {1,2,8}, of which 2 and 8 are the nearest; give the "
      "input such a size, or declare 3 as well (--shapes) when the network is compiled");
}

TEST(CProgram, ValuesOutliveTheirInstanceAndInputs) {
  std::vector<Value> out;
  {
    const Runtime net(onnx::doubling_loop());
    auto data = std::make_unique<std::vector<float>>(std::vector<float>{1, 2});
    const Value x = floats({2}, *data);
    const int64_t none = 0;
    const Value count = integer(none);
    ASSERT_EQ(net.run({count.get(), x.get()}, out), KILTER_OK) << kilter_last_error();
  }
  EXPECT_THAT(elements(out[0]), ElementsAre(1, 2));
}

TEST(CProgram, FixedShapesRunOnTheCallersMemory) {
  const Runtime net(onnx::choosing_model());
  const std::array<float, 6> x = {-5, 1, 2, -3, 4, 5};
  std::array<float, 6> y{};
  const void* inputs[] = {x.data()};
  void* outputs[] = {y.data()};
  ASSERT_EQ(kilter_instance_run(net.instance.get(), inputs, 1, outputs, 1), KILTER_OK) << kilter_last_error();
  EXPECT_THAT(y, ElementsAre(0, 1, 2, 0, 4, 5));
  EXPECT_EQ(kilter_instance_run(net.instance.get(), inputs, 1, outputs, 0), KILTER_ERROR_BAD_INPUT);
  EXPECT_STREQ(kilter_last_error(), "0 outputs are given; expected 1");
  const Runtime open(onnx::doubling_loop());
  EXPECT_EQ(kilter_instance_run(open.instance.get(), inputs, 1, outputs, 1), KILTER_ERROR_UNSUPPORTED);
  EXPECT_STREQ(kilter_last_error(),
               "m.onnx: 'all' is f32[n,2], so its size is not known in advance; use kilter_instance_run_values()");
}

TEST(CProgram, SequencesHaveElements) {
  const Runtime net(onnx::splitting_model(), {{"x", {3, 2}}});
  kilter_kind kind = KILTER_TENSOR;
  int optional = 2;
  ASSERT_EQ(kilter_program_output_kind(net.program.get(), 0, &kind, &optional), KILTER_OK);
  EXPECT_EQ(kind, KILTER_SEQUENCE);
  EXPECT_EQ(optional, 0);
  ASSERT_EQ(kilter_program_input_kind(net.program.get(), 0, &kind, &optional), KILTER_OK);
  EXPECT_EQ(kind, KILTER_TENSOR);
  kilter_tensor_info info;
  ASSERT_EQ(kilter_program_output(net.program.get(), 0, &info), KILTER_OK);
  EXPECT_EQ(info.rank, KILTER_UNKNOWN_RANK);
  std::vector<Value> out;
  const std::vector<float> data = {1, 2, 3, 4, 5, 6};
  const Value x = floats({3, 2}, data);
  const int64_t second = 1;
  const Value at = integer(second);
  ASSERT_EQ(net.run({x.get(), at.get()}, out), KILTER_OK) << kilter_last_error();
  ASSERT_EQ(kilter_value_kind(out[0].get()), KILTER_SEQUENCE);
  ASSERT_EQ(kilter_value_count(out[0].get()), 3U);
  kilter_value* last = nullptr;
  ASSERT_EQ(kilter_value_element(out[0].get(), 2, &last), KILTER_OK);
  const Value element(last);
  EXPECT_EQ(kilter_value_element(out[0].get(), 3, &last), KILTER_ERROR_USAGE);
  EXPECT_STREQ(kilter_last_error(), "element 3 was requested; the sequence has 3");
  EXPECT_EQ(last, nullptr);
  const std::vector<float> row = elements(out[1]);
  out.clear();
  EXPECT_THAT(elements(element), ElementsAre(5, 6));
  EXPECT_THAT(row, ElementsAre(3, 4));
}

TEST(CProgram, StringsHaveLengths) {
  const Runtime net(onnx::joining_model(), {{"a", {2}}});
  const char* texts[] = {"one", "a\0b"};
  const size_t lengths[] = {3, 3};
  const int64_t dims[] = {2};
  kilter_value* made = nullptr;
  ASSERT_EQ(kilter_value_strings(1, dims, texts, lengths, &made), KILTER_OK) << kilter_last_error();
  const Value words(made);
  std::vector<Value> out;
  ASSERT_EQ(net.run({words.get()}, out), KILTER_OK) << kilter_last_error();
  const char* text = nullptr;
  size_t length = 0;
  ASSERT_EQ(kilter_value_string(out[0].get(), 1, &text, &length), KILTER_OK);
  EXPECT_EQ(std::string(text, length), std::string("a\0b!", 4));
  ASSERT_EQ(kilter_value_string(out[0].get(), 0, &text, nullptr), KILTER_OK);
  EXPECT_STREQ(text, "one!");
  EXPECT_EQ(kilter_value_data(out[0].get()), nullptr);
  EXPECT_EQ(info_of(out[0]).dtype, KILTER_STRING);
  EXPECT_EQ(kilter_value_string(out[0].get(), 2, &text, nullptr), KILTER_ERROR_USAGE);
}

TEST(CProgram, InputsThatDoNotFitAreErrors) {
  const Runtime net(onnx::choosing_model());
  std::vector<Value> out;
  const std::vector<float> data(8);
  const Value x = floats({2, 4}, data);
  EXPECT_EQ(net.run({x.get()}, out), KILTER_ERROR_BAD_INPUT);
  EXPECT_STREQ(kilter_last_error(), "m.onnx: input 'x' must be f32[2,3], got f32[2,4]");
  EXPECT_EQ(out[0], nullptr);
  EXPECT_EQ(net.run({nullptr}, out), KILTER_ERROR_BAD_INPUT);
  EXPECT_STREQ(kilter_last_error(), "m.onnx: input 'x' must be f32[2,3], got absent");
  EXPECT_EQ(net.run({x.get(), x.get()}, out), KILTER_ERROR_BAD_INPUT);
  EXPECT_STREQ(kilter_last_error(), "2 inputs are given; expected 1");
  kilter_value* made = nullptr;
  const int64_t dims[] = {-1};
  EXPECT_EQ(kilter_value_tensor(KILTER_F32, 1, dims, data.data(), &made), KILTER_ERROR_USAGE);
  EXPECT_STREQ(kilter_last_error(), "a tensor of shape -1; expected dimensions of 0 or more and at most 2^40 elements");
  EXPECT_EQ(kilter_value_tensor(KILTER_STRING, 0, nullptr, data.data(), &made), KILTER_ERROR_USAGE);
  EXPECT_STREQ(kilter_last_error(),
               "element type 13 of kilter_value_tensor(); legal values are 0 (KILTER_F32) to 23 (KILTER_U2) without 13 "
               "(KILTER_STRING), for which there is kilter_value_strings()");
  EXPECT_EQ(kilter_value_tensor(KILTER_F32, 0, nullptr, nullptr, &made), KILTER_ERROR_USAGE);
  EXPECT_EQ(kilter_value_kind(nullptr), KILTER_ABSENT);
  EXPECT_EQ(kilter_value_count(nullptr), 0U);
  kilter_value_free(nullptr);
}

TEST(CProgram, PlanFileRunsOnValues) {
  onnx::ModelMaker maker;
  maker.input("x", {2});
  maker.node("Abs", {"x"}, {"y"});
  maker.output("y", {2});
  const Runtime net(maker);
  std::vector<Value> out;
  const std::vector<float> data = {-1, 2};
  const Value x = floats({2}, data);
  ASSERT_EQ(net.run({x.get()}, out), KILTER_OK) << kilter_last_error();
  const Value kept = std::move(out[0]);
  const std::vector<float> others = {-7, 8};
  const Value z = floats({2}, others);
  ASSERT_EQ(net.run({z.get()}, out), KILTER_OK) << kilter_last_error();
  EXPECT_THAT(elements(kept), ElementsAre(1, 2)) << "a later run does not change an earlier result";
  EXPECT_THAT(elements(out[0]), ElementsAre(7, 8));
}

TEST(CProgram, UnalignedDataAreCopied) {
  const Runtime net(onnx::choosing_model());
  std::vector<std::byte> bytes(25);
  const std::array<float, 6> x = {1, 2, 3, 4, 5, 6};
  std::memcpy(bytes.data() + 1, x.data(), sizeof(x));
  const int64_t dims[] = {2, 3};
  kilter_value* made = nullptr;
  ASSERT_EQ(kilter_value_tensor(KILTER_F32, 2, dims, bytes.data() + 1, &made), KILTER_OK);
  const Value value(made);
  std::vector<Value> out;
  ASSERT_EQ(net.run({value.get()}, out), KILTER_OK) << kilter_last_error();
  EXPECT_THAT(elements(out[0]), ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST(CProgram, EndlessLoopIsCancelled) {
  const Runtime net(onnx::doubling_loop("true"));
  const std::vector<float> data = {1, 2};
  const int64_t count = 1;
  const Value n = integer(count), x = floats({2}, data);
  for (int round = 0; round < 2; ++round) {
    std::atomic<bool> ended = false;
    kilter_status status = KILTER_OK;
    std::thread runs([&] {
      std::vector<Value> out;
      status = net.run({n.get(), x.get()}, out);
      ended = true;
    });
    while (!ended) {
      EXPECT_EQ(kilter_instance_cancel(net.instance.get()), KILTER_OK);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    runs.join();
    EXPECT_EQ(status, KILTER_ERROR_CANCELLED);
  }
}

TEST(CProgram, AProfileHasTheStepsAndTheirCalls) {
  const Runtime net(onnx::doubling_loop());
  const std::vector<float> data = {1, 2};
  const int64_t count = 6;
  const Value n = integer(count), x = floats({2}, data);
  const kilter_value* inputs[] = {n.get(), x.get()};
  kilter_profile* profile = nullptr;
  ASSERT_EQ(kilter_instance_profile(net.instance.get(), inputs, 2, 5, &profile), KILTER_OK) << kilter_last_error();
  size_t loops = 0, six = 0;
  double sum = 0;
  for (size_t i = 0; i < kilter_profile_count(profile); ++i) {
    kilter_profile_row row;
    ASSERT_EQ(kilter_profile_step(profile, i, &row), KILTER_OK);
    EXPECT_GE(row.ms, 0) << row.name;
    EXPECT_STRNE(row.ops, "");
    loops += row.calls == 1 && std::string(row.name) == "Loop 'loop'" ? 1 : 0;
    six += row.calls == 6 ? 1 : 0;
    sum += row.ms;
  }
  EXPECT_EQ(loops, 1U);
  EXPECT_GE(six, 2U) << "the segment in the loop, and its steps";
  EXPECT_DOUBLE_EQ(kilter_profile_steps_ms(profile), sum);
  kilter_profile_free(profile);
}

TEST(CProgram, AnAllocatorProvidesMemoryOfPlansInPrograms) {
  const Runtime net(onnx::doubling_loop());
  std::atomic<int> blocks = 0;
  const kilter_allocator allocator{[](size_t bytes, size_t alignment, void* user) -> void* {
                                     ++*static_cast<std::atomic<int>*>(user);
                                     return std::aligned_alloc(alignment, bytes);
                                   },
                                   [](void* memory, size_t, void* user) {
                                     --*static_cast<std::atomic<int>*>(user);
                                     std::free(memory);
                                   },
                                   &blocks};
  kilter_instance_options options = KILTER_INSTANCE_OPTIONS;
  options.threads = 1;
  options.allocator = &allocator;
  kilter_instance* instance = nullptr;
  ASSERT_EQ(kilter_instance_create_with(net.program.get(), &options, &instance), KILTER_OK) << kilter_last_error();
  const std::vector<float> data = {1, 2};
  const int64_t count = 3;
  const Value n = integer(count), x = floats({2}, data);
  const kilter_value* inputs[] = {n.get(), x.get()};
  std::array<kilter_value*, 2> out{};
  ASSERT_EQ(kilter_instance_run_values(instance, inputs, 2, out.data(), 2), KILTER_OK) << kilter_last_error();
  EXPECT_GT(blocks, 0);
  kilter_instance_free(instance);
  EXPECT_EQ(static_cast<const float*>(kilter_value_data(out[0]))[1], 16.0F);
  for (kilter_value* value : out) kilter_value_free(value);
  EXPECT_EQ(blocks, 0);
}

TEST(CProgram, StateOfAProgramMayChangeItsSize) {
  onnx::ModelMaker maker;
  maker.input("past", {"n", 2});
  maker.input("x", {1, 2});
  auto& joined = maker.node("Concat", {"past", "x"}, {"present"}, "join");
  onnx::add_attribute(joined, "axis", onnx::kIntAttr).set_i(0);
  maker.output("present", {"m", 2});
  const Runtime net(maker, {}, {"past={0..8}x2"});
  const std::vector<float> data = {1, 2};
  const Value empty = floats({0, 2}, data), x = floats({1, 2}, data);
  ASSERT_EQ(kilter_instance_bind_state(net.instance.get(), "past", "present", nullptr), KILTER_ERROR_USAGE);
  EXPECT_STREQ(kilter_last_error(),
               "input 'past' is f32[?,2], so the size of its initial value is not known; give the initial value");
  ASSERT_EQ(kilter_instance_bind_state(net.instance.get(), "past", "present", empty.get()), KILTER_OK)
      << kilter_last_error();
  std::vector<Value> out;
  for (int64_t length = 1; length <= 3; ++length) {
    ASSERT_EQ(net.run({nullptr, x.get()}, out), KILTER_OK) << kilter_last_error();
    EXPECT_EQ(out[0], nullptr);
    kilter_value* value = nullptr;
    ASSERT_EQ(kilter_instance_state(net.instance.get(), "past", &value), KILTER_OK) << kilter_last_error();
    EXPECT_EQ(info_of(Value(value)).dims[0], length);
  }
}

}  // namespace
}  // namespace kilter
