// The driver of the passes and its results: options, bisecting, reproducible bytes, and bitwise identical results on
// any number of threads.
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "../base/scratch_folder.h"
#include "exec/plan_file.h"
#include "guarded_run.h"
#include "ops/support/evaluate.h"
#include "random_net.h"
#include "zoo/zoo.h"

namespace kilter {
namespace {

constexpr Tolerance kTolerance{.rtol = 1e-4, .atol = 1e-5};

CompileOptions native() {
  CompileOptions options;
  options.target = native_target();
  return options;
}

std::string usage_error(const CompileOptions& options) {
  SweepNet net(1);
  draw_nodes(net, 3);
  try {
    compile_graph(net.graph(), options);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage);
    return error.message();
  }
  return "no error";
}

TEST(Pipeline, UnknownPassesAreErrors) {
  std::vector<std::string_view> names;
  for (const PassRow& row : all_passes()) names.push_back(row.name);
  CompileOptions options = native();
  options.debug.stop_after = "fusion";
  EXPECT_EQ(usage_error(options),
            fmt::format("--stop-after: no pass 'fusion'; legal values are {}", fmt::join(names, ", ")));
  options = native();
  options.debug.disable = {"fuse", "layouts"};
  EXPECT_EQ(usage_error(options),
            fmt::format("--disable: no pass 'layouts'; legal values are {}", fmt::join(names, ", ")));
}

/// The group {a, z} reads g, so {g, n} must not read a, not even through the transpose.
TEST(Fusion, GroupsHaveNoCyclicDependencies) {
  SweepNet net(1);
  const ValueId x = net.input({1, 16, 9, 9});
  const ValueId a =
      net.b.add("Conv", {x, net.constant({16, 16, 3, 3}, 0.1F)}, {{"pads", std::vector<int64_t>{1, 1, 1, 1}}});
  const ValueId g = net.b.add(
      "MaxPool", {x}, {{"kernel_shape", std::vector<int64_t>{3, 3}}, {"pads", std::vector<int64_t>{1, 1, 1, 1}}});
  const ValueId turned = net.b.add("Transpose", {a}, {{"perm", std::vector<int64_t>{0, 1, 3, 2}}});
  net.output(net.b.add("Add", {a, g}));
  net.output(net.b.add("Mul", {g, turned}));
  const Compiled compiled = compile_for(net.graph(), native_target());
  EXPECT_EQ(run_guarded(std::make_shared<const Program>(compiled.plan), net.inputs(),
                        evaluate(net.graph(), net.inputs()), kTolerance, 0),
            "")
      << steps_text(compiled.plan);
}

/// Adds Conv, BatchNormalization, Relu and a residual sum.
void draw_block(SweepNet& net) {
  const ValueId x = net.input({1, 8, 5, 6});
  ValueId v = net.b.add("Conv", {x, net.constant({8, 8, 3, 3}, 0.2F)}, {{"pads", std::vector<int64_t>{1, 1, 1, 1}}});
  const Shape c{8};
  Tensor variance = net.draw.tensor(c);
  for (float& f : variance.span<float>()) f = 1 + f * f;
  v = net.b.add("BatchNormalization", {v, net.constant(c), net.constant(c), net.constant(c), net.b.constant(variance)});
  net.output(net.b.add("Relu", {net.b.add("Add", {v, x})}));
}

int64_t kernels(const Compiled& compiled) {
  return std::count_if(compiled.plan.steps.begin(), compiled.plan.steps.end(),
                       [](const Step& s) { return s.kind == StepKind::kernel; });
}

std::vector<std::string> pass_names(const Compiled& compiled) {
  std::vector<std::string> names;
  for (const PassTiming& t : compiled.timings) names.push_back(t.name);
  return names;
}

TEST(Pipeline, DisabledPassesAreSkipped) {
  SweepNet net(7);
  draw_block(net);
  const std::vector<Tensor> want = evaluate(net.graph(), net.inputs());
  const auto right = [&](const Compiled& c) {
    return run_guarded(std::make_shared<const Program>(c.plan), net.inputs(), want, kTolerance, 0);
  };
  const Compiled whole = compile_graph(net.graph(), native());
  EXPECT_EQ(whole.timings.size(), all_passes().size() + all_stages().size());
  EXPECT_EQ(whole.timings.back().name, "generate_code");
  CompileOptions options = native();
  options.debug.stop_after = "canonicalise";
  const Compiled stopped = compile_graph(net.graph(), options);
  EXPECT_EQ(
      pass_names(stopped),
      (std::vector<std::string>{"integer_arithmetic", "simplify", "block_weights", "fold_constants", "widen_floats",
                                "fold_padding", "split_recurrent", "decompose", "canonicalise", "split_groups",
                                "place_values", "choose_schedules", "emit_steps", "plan_memory", "fit_memory",
                                "take_records", "share_kernels", "pack_constants", "generate_code"}));
  EXPECT_GT(kernels(stopped), kernels(whole));
  EXPECT_EQ(right(stopped), "");
  for (const PassRow& row : all_passes()) {
    options = native();
    options.debug.disable = {std::string(row.name)};
    const Compiled without = compile_graph(net.graph(), options);
    EXPECT_EQ(without.timings.size(), all_passes().size() - 1 + all_stages().size());
    for (const std::string& name : pass_names(without)) EXPECT_NE(name, row.name);
    EXPECT_EQ(right(without), "") << row.name;
  }
}

TEST(Pipeline, NaivePlanMatchesReferenceExactly) {
  SweepNet net(7);
  draw_block(net);
  CompileOptions options = native();
  options.debug.naive = true;
  const Compiled naive = compile_graph(net.graph(), options);
  EXPECT_EQ(kernels(naive), 0);
  const std::vector<Tensor> got = run_on(std::make_shared<const Program>(naive.plan), net.inputs(), 1);
  EXPECT_TRUE(got.at(0).same(evaluate(net.graph(), net.inputs()).at(0)));
}

int64_t counted(const Compiled& compiled) {
  int64_t sum = 0;
  for (const PassTiming& t : compiled.timings) sum += t.name == "dead_code" ? 0 : t.rewrites;
  return sum;
}

/// A plan compiled with any limit on the number of rewrites gives the right results and stays within the limit.
TEST(Pipeline, RewritesCanBeBisected) {
  for (uint64_t seed = 0; seed < 4; ++seed) {
    SweepNet net(seed);
    seed == 0 ? draw_block(net) : draw_nodes(net, 9);
    const std::vector<Tensor> want = evaluate(net.graph(), net.inputs());
    const int64_t all = counted(compile_graph(net.graph(), native()));
    for (int64_t most = 0; most <= all + 1; ++most) {
      CompileOptions options = native();
      options.debug.max_rewrites = most;
      const Compiled compiled = compile_graph(net.graph(), options);
      EXPECT_LE(counted(compiled), most);
      const auto program = std::make_shared<const Program>(compiled.plan);
      EXPECT_EQ(run_guarded(program, net.inputs(), want, kTolerance, 0), "")
          << "seed " << seed << ", " << most << " rewrites" << steps_text(compiled.plan);
    }
  }
}

std::string bytes_of(const std::filesystem::path& file) {
  std::stringstream out;
  out << std::ifstream(file, std::ios::binary).rdbuf();
  return out.str();
}

TEST(Pipeline, DumpsParseAsGraphs) {
  const ScratchFolder folder;
  CompileOptions options = native();
  options.debug.dump_ir = folder.path() / "ir";
  SweepNet net(7);
  draw_block(net);
  compile_graph(net.graph(), options);
  EXPECT_EQ(bytes_of(options.debug.dump_ir / "00_import.graph"), print(net.graph()));
  for (size_t i = 0; i < all_passes().size(); ++i) {
    const auto file = options.debug.dump_ir / fmt::format("{:02}_{}.graph", i + 1, all_passes()[i].name);
    const std::string text = bytes_of(file);
    EXPECT_FALSE(text.empty()) << file;
    EXPECT_NO_THROW(verify(parse_graph(text))) << file;
  }
  for (size_t i = 1; i + 2 < all_stages().size(); ++i) {  // the stages that work on tasks
    const auto file =
        options.debug.dump_ir / fmt::format("{:02}_{}.tasks", all_passes().size() + 1 + i, all_stages()[i].name);
    EXPECT_TRUE(bytes_of(file).starts_with("tasks of ")) << file;
  }
  EXPECT_FALSE(std::filesystem::is_empty(options.debug.dump_ir / "loops"));
}

TEST(Pipeline, UnwritableFolderIsAnError) {
  const ScratchFolder folder;
  SweepNet net(7);
  draw_block(net);
  const auto error = [&] {
    CompileOptions options = native();
    options.debug.dump_ir = folder.path() / "ir";
    try {
      compile_graph(net.graph(), options);
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::io);
      return e.message();
    }
    return std::string("no error");
  };
  std::filesystem::create_directories(folder.path() / "ir");
  std::ofstream(folder.path() / "ir" / "loops") << "a file where a folder is wanted";
  const std::string prefix = "--dump-ir: cannot write " + (folder.path() / "ir" / "loops").string() + "/";
  EXPECT_EQ(error().substr(0, prefix.size()), prefix);
  std::filesystem::remove_all(folder.path() / "ir");
  std::ofstream(folder.path() / "ir") << "a file";
  EXPECT_EQ(error(), "--dump-ir: cannot write " + (folder.path() / "ir" / "00_import.graph").string());
}

class SmallNetwork : public testing::TestWithParam<std::string_view> {
 protected:
  SmallNetwork()
      : graph(zoo::build(
            GetParam(), {.batch = 1, .size = 48, .width = GetParam() == "mobilenet_v2" ? 0.35 : 1.0, .classes = 10})) {}
  Graph graph;
};

TEST_P(SmallNetwork, CompilesToTheSameBytes) {
  const ScratchFolder folder;
  std::vector<Compiled> all;
  std::vector<std::string> files;
  for (int threads : {1, 1, 2}) {
    CompileOptions options = native();
    options.threads = threads;
    all.push_back(compile_graph(graph, options));
    save_plan(all.back().plan, folder.path() / "plan");
    files.push_back(bytes_of(folder.path() / "plan"));
  }
  const auto view = [](const std::byte* data, int64_t size) {
    return std::string_view(reinterpret_cast<const char*>(data), static_cast<size_t>(size));
  };
  for (size_t i = 1; i < all.size(); ++i) {
    const Plan &a = all[0].plan, &b = all[i].plan;
    EXPECT_TRUE(view(a.code, a.code_bytes) == view(b.code, b.code_bytes)) << "compilation " << i;
    EXPECT_TRUE(view(a.constants, a.constants_bytes) == view(b.constants, b.constants_bytes)) << "compilation " << i;
    EXPECT_TRUE(files[0] == files[i]) << "compilation " << i;
  }
}

TEST_P(SmallNetwork, DoesNotDependOnThreadCount) {
  const auto program = std::make_shared<const Program>(compile_graph(graph, native()).plan);
  Draw draw(3);
  const std::vector<Tensor> inputs{draw.tensor(graph.type(graph.inputs()[0]).shape)};
  const std::vector<Tensor> one = run_on(program, inputs, 1);
  const std::vector<Tensor> want = evaluate(graph, inputs);
  for (int threads : {2, 3, 5}) {
    const std::vector<Tensor> got = run_on(program, inputs, threads);
    for (size_t i = 0; i < one.size(); ++i) EXPECT_TRUE(got[i].same(one[i])) << threads << " threads, output " << i;
  }
  EXPECT_EQ(run_guarded(program, inputs, want, {.rtol = 1e-3, .atol = 1e-4}, 0), "");
}

INSTANTIATE_TEST_SUITE_P(Zoo, SmallNetwork, testing::Values("squeezenet1_1", "mobilenet_v2"),
                         [](const auto& network) { return std::string(network.param); });

}  // namespace
}  // namespace kilter
