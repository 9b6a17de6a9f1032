// Compiled files of programs: what they contain, what they refuse, and how they run.
#include "vm/program_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../base/scratch_folder.h"
#include "base/files.h"
#include "base/hash.h"
#include "compile/memory_model.h"
#include "compile/session.h"
#include "program_models.h"

namespace kilter {
namespace {

using onnx::error_of;
using onnx::ModelMaker;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;
using Values = std::map<std::string, AnyValue>;

Session::Options options_for(const std::string& target = "native") {
  Session::Options options;
  options.compile.target = parse_target(target);
  options.threads = 1;
  return options;
}

/// A model, a session for it, and the session's compiled file.
class Network {
 public:
  explicit Network(const ModelMaker& maker, Session::Options options = options_for()) : model_(maker.parse()) {
    session_ = Session::open(model_.name(), std::move(options));
  }
  Session* operator->() { return session_.get(); }
  std::string file() {
    session_->save(path());
    return path();
  }
  std::string bytes() { return read_file(file()); }
  std::unique_ptr<Session> saved() { return Session::open(file(), options_for()); }

 private:
  std::string path() const { return (folder_.path() / "net.kilter").string(); }
  ScratchFolder folder_;
  MemoryModel model_;
  std::unique_ptr<Session> session_;
};

std::vector<float> floats(const AnyValue& v) {
  return {v.tensor().span<float>().begin(), v.tensor().span<float>().end()};
}

Tensor numbers(Shape shape, float start) {
  Tensor t(DType::f32, std::move(shape));
  for (int64_t i = 0; i < t.elems(); ++i) t.data<float>()[i] = start + static_cast<float>(i % 7);
  return t;
}

bool same(const AnyValue& a, const AnyValue& b) {
  if (a.is_tensor() && b.is_tensor()) return a.tensor().same(b.tensor());
  if (!a.is_sequence() || !b.is_sequence()) return a.absent() && b.absent();
  return std::ranges::equal(a.elements(), b.elements(), same);
}

vm::ProgramFile parse(const std::string& file, LoadOptions options = {}) {
  return vm::parse_program(std::as_bytes(std::span(file.data(), file.size())), nullptr, "p", options);
}

struct Case {
  std::string name;
  ModelMaker (*model)();
  std::vector<Values> runs;
};

std::vector<Case> cases() {
  const auto n = [](int64_t value) { return Tensor::scalar(value); };
  Tensor boxes(DType::f32, {1, 20, 4});
  for (int64_t i = 0; i < 20; ++i) {
    const auto left = static_cast<float>(i / 2);
    const std::array<float, 4> box = {left, 0, left + 0.9F, 1};
    std::ranges::copy(box, boxes.data<float>() + 4 * i);
  }
  Tensor words(DType::string, {2});
  words.strings() = {"one", std::string("t\0wo", 4)};
  return {{"Loop",
           [] { return onnx::doubling_loop(); },
           {{{"n", n(3)}, {"x", numbers({2}, -1)}}, {{"n", n(0)}, {"x", numbers({2}, 5)}}}},
          {"If", onnx::choosing_model, {{{"x", numbers({2, 3}, -1)}}, {{"x", numbers({2, 3}, -50)}}}},
          {"Scan", onnx::scanning_model, {{{"x", numbers({5, 3}, -2)}}}},
          {"Sequences",
           onnx::splitting_model,
           {{{"x", numbers({3, 2}, 1)}, {"at", n(-1)}}, {{"x", numbers({6, 2}, 1)}, {"at", n(2)}}}},
          {"NonZero", onnx::picking_model, {{{"x", numbers({2, 4}, 0)}}, {{"x", numbers({5, 4}, 0)}}}},
          {"NonMaxSuppression", onnx::suppressing_model, {{{"boxes", boxes}, {"scores", numbers({1, 1, 20}, 0)}}}},
          {"Maps", onnx::mapping_model, {{{"x", numbers({2, 3}, 0)}}, {{"x", numbers({0, 3}, 0)}}}},
          {"Strings", onnx::joining_model, {{{"a", words}}}}};
}

struct RoundTrip : testing::TestWithParam<Case> {};

TEST_P(RoundTrip, GivesTheSameResultsAndTheSameBytes) {
  Network network(GetParam().model());
  std::vector<std::vector<AnyValue>> wanted;
  for (const Values& inputs : GetParam().runs) wanted.push_back(network->run_values(inputs));
  const std::string file = network.file();
  const auto saved = Session::open(file, options_for());
  ASSERT_NE(saved->file_program(), nullptr);
  EXPECT_TRUE(saved->compiled_file());
  EXPECT_TRUE(saved->runs_program());
  for (int round = 0; round < 2; ++round) {
    for (size_t i = 0; i < wanted.size(); ++i) {
      const std::vector<AnyValue> got = saved->run_values(GetParam().runs[i]);
      EXPECT_TRUE(std::ranges::equal(got, wanted[i], same)) << "run " << i;
    }
  }
  const ScratchFolder folder;
  save_program(vm::load_program(file), folder.path() / "again");
  EXPECT_EQ(read_file(folder.path() / "again"), read_file(file)) << "same program, same bytes";
}

INSTANTIATE_TEST_SUITE_P(ProgramFile, RoundTrip, testing::ValuesIn(cases()),
                         [](const auto& test) { return test.param.name; });

TEST(ProgramFile, HasPortsAndFunctions) {
  Network network(onnx::splitting_model());
  network->run_values({{"x", numbers({3, 2}, 1)}, {"at", Tensor::scalar(int64_t{0})}});
  const vm::ProgramFile file = parse(network.bytes());
  EXPECT_EQ(file.model, "m.onnx");
  ASSERT_EQ(file.inputs.size(), 2U);
  EXPECT_EQ(text(file.inputs[0]), "f32[n,2]");
  EXPECT_EQ(text(file.inputs[1]), "i64[]");
  EXPECT_EQ(text(file.outputs[0]), "sequence of f32[...]");
  EXPECT_EQ(text(file.outputs[1]), "f32[2]");
  EXPECT_EQ(text(file.program),
            "function 0(%x, %at) -> (%parts, %one)\n"
            "  %parts = SplitToSequence 'split'(%x)\n"
            "  %one = SequenceAt 'take'(%parts, %at)\n");
  EXPECT_EQ(onnx::text(network.saved()->outputs()[0]), "sequence of f32[...]");
}

TEST(ProgramFile, SegmentsWithKnownShapesHaveOnlyCode) {
  Network network(onnx::choosing_model());
  const vm::ProgramFile file = parse(network.bytes());
  ASSERT_EQ(file.segments.size(), 3U) << text(file.program);
  for (const vm::FileSegment& segment : file.segments) {
    EXPECT_FALSE(segment.has_graph) << segment.name;
    EXPECT_EQ(segment.plans.size(), 1U) << segment.name;
  }
  const auto saved = network.saved();
  EXPECT_EQ(saved->file_program()->text(),
            "  0 (ReduceMax (output 'most') and 2 more nodes): f32[2,3], 3 steps; no other shapes\n"
            "  1 (Relu (output 't')): f32[2,3], 1 step; no other shapes\n"
            "  2 (Neg (output 'e')): f32[2,3], 1 step; no other shapes\n");
  EXPECT_EQ(error_of([&] { saved->run_values({{"x", numbers({2, 4}, 0)}}); }),
            "bad_input: m.onnx: input 'x' must be f32[2,3], got f32[2,4]");
}

TEST(ProgramFile, OtherShapesRunReferenceKernels) {
  Network network(onnx::picking_model());
  for (int i = 0; i < ProgramRunner::kRunsUntilCompiled; ++i) network->run({{"x", numbers({2, 4}, 0)}});
  const auto saved = network.saved();
  EXPECT_THAT(saved->file_program()->text(), HasSubstr("f32[2,4], 2 steps; other shapes by reference kernels"));
  for (const int64_t n : {2, 1, 9}) {
    const Tensor x = numbers({n, 4}, 1);
    const Tensor want = network->run({{"x", x}})[0], got = saved->run({{"x", x}})[0];
    ASSERT_EQ(got.shape(), want.shape());
    for (int64_t i = 0; i < got.elems(); ++i)
      EXPECT_NEAR(got.as_double(i), want.as_double(i), 1e-5 * want.as_double(i)) << n;
  }
}

TEST(ProgramFile, ShapesWithTooMuchWorkAreAnError) {
  Network network(onnx::picking_model());
  for (int i = 0; i < ProgramRunner::kRunsUntilCompiled; ++i) network->run({{"x", numbers({2, 4}, 0)}});
  const auto saved = network.saved();
  EXPECT_EQ(error_of([&] { saved->run({{"x", Tensor(DType::f32, {10'000'000, 4})}}); }),
            "unsupported: m.onnx: segment 0 (Abs 'abs' and 1 more node) has inputs f32[10000000,4], for which the file "
            "has no code; it has code for: f32[2,4]. Reference kernels would take too long: more than 134217728 "
            "operations, most recently for MatMul 'product'. Run the model itself, or run it with such inputs in "
            "Python and then save it (Network.save), which adds their code");
  EXPECT_EQ(saved->run({{"x", Tensor(DType::f32, {2, 4})}})[0].shape(), Shape{0}) << "it can run again";
}

TEST(ProgramFile, OpenShapesAreNeededUnlessTheNetworkHasRun) {
  Network network(onnx::picking_model());
  EXPECT_THAT(error_of([&] { network.file(); }),
              StartsWith("bad_input: m.onnx: input 'x' f32[n,4]: no size for dimension 0 ('n')"));
  Session::Options given = options_for();
  given.shapes["x"] = {3, 4};
  Network fixed(onnx::picking_model(), given);
  const auto saved = fixed.saved();
  EXPECT_EQ(onnx::text(saved->inputs()[0]), "f32[3,4]");
  EXPECT_THAT(saved->file_program()->text(), HasSubstr("f32[3,4], 2 steps; no other shapes"));
}

TEST(ProgramFile, LoopHasCodeForItsState) {
  Network network(onnx::doubling_loop());
  const vm::ProgramFile file = parse(network.bytes());
  for (const vm::FileSegment& segment : file.segments) {
    EXPECT_FALSE(segment.has_graph) << segment.name;
    EXPECT_EQ(segment.plans.size(), 1U);
  }
}

TEST(ProgramFile, ResultsHaveTheirOwnMemory) {
  Network network(onnx::choosing_model());
  const auto saved = network.saved();
  const std::vector<float> positive = floats(saved->run_values({{"x", numbers({2, 3}, 0)}})[0]);
  const AnyValue kept = saved->run_values({{"x", numbers({2, 3}, 0)}})[0];
  saved->run_values({{"x", numbers({2, 3}, 100)}});
  EXPECT_EQ(floats(kept), positive) << "a later run does not change an earlier result";
}

TEST(ProgramFile, TwinsShareAFile) {
  Network network(onnx::doubling_loop());
  const auto saved = network.saved();
  const auto twin = saved->twin();
  const std::map<std::string, Tensor> inputs{{"n", Tensor::scalar(int64_t{2})}, {"x", numbers({2}, 1)}};
  EXPECT_EQ(floats(twin->run(inputs)[0]), floats(saved->run(inputs)[0]));
  EXPECT_EQ(twin->file_program(), saved->file_program());
}

TEST(ProgramFile, OperationsThatNeedTheModelAreErrors) {
  Network network(onnx::doubling_loop());
  const auto saved = network.saved();
  EXPECT_EQ(error_of([&] { saved->graph({}); }),
            "unsupported: net.kilter is a compiled file of a program; Kilter runs such a network as a program, which "
            "has no single plan");
  EXPECT_EQ(error_of([&] { saved->save("x"); }),
            "unsupported: net.kilter is a compiled file of a program; use the model that it was compiled from");
}

TEST(ProgramFile, CodeForAnotherProcessorIsRefused) {
  Network network(onnx::choosing_model(), options_for("aarch64"));
  EXPECT_THAT(error_of([&] { network.saved(); }),
              HasSubstr("'m.onnx' was compiled for target aarch64, so its code is for AArch64; this machine"));
}

// Damaged files.

TEST(DamagedProgram, EveryTruncationGivesOneClearError) {
  const std::string file = Network(onnx::choosing_model()).bytes();
  for (size_t size = 0; size < file.size(); ++size) {
    const std::string message = error_of([&] { parse(file.substr(0, size)); });
    ASSERT_THAT(message, StartsWith("bad_input: compiled file 'p'")) << size;
  }
  EXPECT_THAT(error_of([&] { parse(file + '\0'); }), HasSubstr("too long"));
}

TEST(DamagedProgram, EveryFlippedBitIsFound) {
  std::string file = Network(onnx::doubling_loop()).bytes();
  for (size_t bit = 0; bit < file.size() * 8; bit += bit < size_t{8} * 3000 ? 3 : 23) {
    const auto flip = [&] { file[bit / 8] = static_cast<char>(file[bit / 8] ^ static_cast<char>(1 << (bit % 8))); };
    flip();
    ASSERT_NE(error_of([&] { parse(file); }), "no error") << "bit " << bit;
    flip();
  }
  parse(file);
}

TEST(DamagedProgram, AnotherVersionOrKindIsRefused) {
  std::string file = Network(onnx::doubling_loop()).bytes();
  file[8] = 99;
  EXPECT_EQ(error_of([&] { parse(file); }),
            "bad_input: compiled file 'p': format version 99; this Kilter reads version 2; compile the model again");
  file[7] = '9';
  EXPECT_EQ(error_of([&] { parse(file); }),
            "bad_input: compiled file 'p': not a compiled Kilter file: it does not start with KILTERP1");
}

/// Every byte of the fields is replaced with other values, without a hash that would detect this. The file must be
/// refused with an Error, or yield a program that can be set up.
TEST(DamagedProgram, ForgedFieldsAreRefusedOrHarmless) {
  const LoadOptions forged{.verify = false, .check_meta_hash = false};
  for (const auto& maker : {onnx::choosing_model(), onnx::splitting_model(), onnx::doubling_loop()}) {
    Network network(maker);
    if (!network->inputs()[0].dims->empty() && network->inputs()[0].dims->at(0).size == std::nullopt)
      network->run_values({{"x", numbers({3, 2}, 1)}, {"at", Tensor::scalar(int64_t{0})}});
    const std::string whole = network.bytes();
    std::string file = whole;
    const size_t meta = 64 + 3 * 24;
    size_t refused = 0, accepted = 0;
    for (size_t at = meta; at < std::min(whole.size(), meta + 4000); ++at) {
      for (const int value : {0x00, 0x01, 0x7f, 0xff}) {
        file[at] = static_cast<char>(value);
        const std::string error = error_of([&] {
          vm::ProgramFile program = parse(file, forged);
          for (const vm::FileSegment& segment : program.segments) {
            for (const Plan& plan : segment.plans) {
              if (plan.arena_bytes + plan.scratch_bytes > 1 << 20) return;
            }
          }
          vm::FileRunner(std::make_shared<vm::FileProgram>(std::move(program)), std::make_shared<ThreadPool>(1));
        });
        ++(error == "no error" ? accepted : refused);
      }
      file[at] = whole[at];
    }
    EXPECT_GT(refused, 1000U);
    EXPECT_GT(accepted, 100U);
  }
}

TEST(DamagedProgram, OperatorsThatTheLibraryLacksAreNamed) {
  std::string file = Network(onnx::doubling_loop()).bytes();
  for (size_t i = file.find("Loop"); i != std::string::npos; i = file.find("Loop", i + 1)) file.replace(i, 4, "Poop");
  EXPECT_EQ(error_of([&] { parse(file, {.verify = false, .check_meta_hash = false}); }),
            "unsupported: compiled file 'p': Poop 'loop' needs operator ai.onnx:Poop@17, which this library does not "
            "have; run it with the full Kilter library of the version that wrote it");
}

}  // namespace
}  // namespace kilter
