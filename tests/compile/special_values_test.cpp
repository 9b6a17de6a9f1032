// NaN, infinities and overflow: compiled kernels give the same kind of value as the reference kernels on every
// instruction set, and these kinds are those in doc/accuracy.md.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "compile/difference.h"
#include "guarded_run.h"
#include "ops/support/cases.h"
#include "ops/support/evaluate.h"

namespace kilter {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

struct Kind {
  const char* op;
  const char* text;
  int opset = 20;
};

constexpr Kind kKinds[] = {
    {"MaxPool", "f32[1,35,9,11] | kernel_shape=[3,3] strides=[2,2] pads=[1,1,1,1]"},
    {"MaxPool", "f32[1,16,7,7] | kernel_shape=[2,2] pads=[1,1,1,1]"},
    {"AveragePool", "f32[1,35,9,11] | kernel_shape=[3,3] strides=[2,2] pads=[1,1,1,1]"},
    {"AveragePool", "f32[1,16,5,6] | kernel_shape=[2,2] strides=[2,2] pads=[2,3,2,3]"},
    {"AveragePool", "f32[1,17,5,6] | kernel_shape=[2,2] strides=[2,2] pads=[2,3,2,3] count_include_pad=1"},
    {"GlobalMaxPool", "f32[1,17,5,7]"},
    {"GlobalAveragePool", "f32[1,17,5,7]"},
    {"ReduceMax", "f32[5,37] i64[1]=1"},
    {"ReduceMax", "f32[9,20] i64[1]=0"},
    {"ReduceMin", "f32[5,37] i64[1]=1"},
    {"ReduceSum", "f32[5,37] i64[1]=1"},
    {"ReduceMean", "f32[5,37] i64[1]=1"},
    {"ReduceMean", "f32[9,20] i64[1]=0"},
    {"ReduceL1", "f32[5,37] i64[1]=1"},
    {"ReduceL2", "f32[5,37] i64[1]=1"},
    {"ReduceSumSquare", "f32[5,37] i64[1]=1"},
    {"ReduceLogSumExp", "f32[5,37] i64[1]=1"},
    {"ArgMax", "f32[5,37] | axis=1"},
    {"ArgMin", "f32[5,37] | axis=0"},
    {"TopK", "f32[5,37] i64[1]=3"},
    {"Softmax", "f32[5,37]"},
    {"LogSoftmax", "f32[5,37]"},
    {"Relu", "f32[5,37]"},
    {"LeakyRelu", "f32[5,37]"},
    {"Sigmoid", "f32[5,37]"},
    {"Tanh", "f32[5,37]"},
    {"Clip", "f32[5,37] f32[]=-2 f32[]=3"},
    {"Max", "f32[5,37] f32[37]"},
    {"Min", "f32[5,37] f32[37]"},
    {"Add", "f32[5,37] f32[37]"},
    {"Mul", "f32[5,37] f32[37]"},
    {"MatMul", "f32[5,37] f32[37,20]"},
    {"LayerNormalization", "f32[5,37] f32[37] f32[37]"},
};

OpCase case_of(const Kind& kind) {
  const OpDef& op = *find_op("", kind.op, kind.opset);
  return make_case(op, parse_case(op, kind.text), kind.text);
}

/// The inputs with these values planted in input 0: adjacent at the start and the end, and five apart in the middle.
std::vector<Tensor> planted(const OpCase& c, const std::vector<float>& values) {
  std::vector<Tensor> inputs;
  for (const Tensor& t : c.inputs) inputs.push_back(t.clone());
  float* x = inputs[0].data<float>();
  const int64_t count = inputs[0].elems();
  for (size_t i = 0; i < values.size(); ++i) {
    const auto n = static_cast<int64_t>(i);
    for (const int64_t at : {n, count / 2 + 5 * n, count - 1 - n}) x[((at % count) + count) % count] = values[i];
  }
  return inputs;
}

double largest_finite(const Tensor& t) {
  double most = 0;
  for (int64_t i = 0; i < t.elems(); ++i) {
    if (const double v = std::abs(t.as_double(i)); std::isfinite(v)) most = std::max(most, v);
  }
  return most;
}

/// Returns how `got` differs from `want`; "" if it does not. `scale` is the magnitude of the inputs, whose sums may
/// cancel.
std::string unlike(const Tensor& got, const Tensor& want, bool finite, double scale) {
  const ReferenceDifference d = difference(got, want, finite);
  if (d.unlike) {
    for (int64_t i = 0; i < want.elems(); ++i) {
      const double g = got.as_double(i), w = want.as_double(i);
      if (std::isfinite(g) != std::isfinite(w) || std::isnan(g) != std::isnan(w))
        return fmt::format("element {}: {}, expected {}", i, g, w);
    }
    return "an infinity of the other sign";
  }
  return d.most <= 1e-4 * std::max(d.scale, scale) ? "" : fmt::format("differs by {} of {}", d.most, d.scale);
}

TEST(SpecialValues, KernelsMatchReference) {
  std::vector<std::vector<float>> all{{kNan},       {kInf},        {-kInf},       {1e38F},        {-1e38F},
                                      {kNan, kInf}, {kInf, -kInf}, {kNan, -kInf}, {1e38F, -1e38F}};
  all.emplace_back(64, 3e38F);
  all.emplace_back(200, -kInf);
  all.emplace_back(200, kNan);
  for (const Kind& kind : kKinds) {
    const OpCase c = case_of(kind);
    for (const Target& target : targets_here()) {
      const auto program = std::make_shared<const Program>(std::move(compile_for(c.graph, target).plan));
      for (const std::vector<float>& values : all) {
        const std::vector<Tensor> inputs = planted(c, values);
        const std::vector<Tensor> want = evaluate(c.graph, inputs), got = run_on(program, inputs, 1);
        const bool finite = std::ranges::all_of(inputs, all_finite);
        for (size_t i = 0; i < want.size(); ++i)
          EXPECT_EQ(unlike(got[i], want[i], finite, largest_finite(inputs[0])), "")
              << kind.op << " " << kind.text << " on " << target.name << " with " << values.size() << " of "
              << values[0] << "\n"
              << steps_text(program->plan());
      }
    }
  }
}

std::vector<double> answered(const Kind& kind, const std::vector<float>& x) {
  const OpDef& op = *find_op("", kind.op, kind.opset);
  ParsedCase parsed = parse_case(op, kind.text);
  std::copy(x.begin(), x.end(), parsed.operands[0].tensor.data<float>());
  const OpCase c = make_case(op, parsed, kind.text);
  const Tensor y = evaluate(c.graph, c.inputs).at(0);
  std::vector<double> out;
  for (int64_t i = 0; i < y.elems(); ++i) out.push_back(y.as_double(i));
  return out;
}

std::string texts(const std::vector<double>& values) {
  std::string out;
  for (const double v : values) out += std::isnan(v) ? "nan " : fmt::format("{:g} ", v);
  return out;
}

TEST(SpecialValues, PoolsUsePoolRows) {
  for (const Kind& kind : kKinds) {
    if (std::string_view(kind.op) != "MaxPool" && std::string_view(kind.op) != "AveragePool") continue;
    for (const Target& target : targets_here()) {
      const std::string steps = steps_text(compile_for(case_of(kind).graph, target).plan);
      EXPECT_NE(steps.find("pool_rows"), std::string::npos) << kind.text << " on " << target.name << "\n" << steps;
    }
  }
}

// The table in doc/accuracy.md.
TEST(SpecialValues, ReferenceFollowsTheStandard) {
  EXPECT_EQ(texts(answered({"MaxPool", "f32[1,1,8] | kernel_shape=[3]"}, {5, kNan, 1, 2, -kInf, 3, 7, kNan})),
            "5 2 2 3 7 7 ");
  EXPECT_EQ(texts(answered({"GlobalMaxPool", "f32[1,1,4]"}, {1, kNan, 3, 2})), "nan ");
  EXPECT_EQ(
      texts(answered({"AveragePool", "f32[1,1,2,2] | kernel_shape=[2,2] strides=[2,2] pads=[2,2,2,2]"}, {1, 2, 3, 4})),
      "nan nan nan nan 2.5 nan nan nan nan ");
  EXPECT_EQ(texts(answered({"ReduceMean", "f32[1,4] i64[1]=1"}, {3e38F, 3e38F, 3e38F, 3e38F})), "inf ");
  EXPECT_EQ(texts(answered({"ReduceMax", "f32[1,4] i64[1]=1"}, {1, kNan, 3, 2})), "nan ");
  EXPECT_EQ(texts(answered({"ArgMax", "f32[1,4] | axis=1"}, {1, kNan, 3, 2})), "1 ");
  EXPECT_EQ(texts(answered({"TopK", "f32[1,4] i64[1]=2"}, {1, kNan, 3, 2})), "nan 3 ");
  EXPECT_EQ(texts(answered({"LayerNormalization", "f32[1,4] f32[4]=1,1,1,1"}, {1e38F, 1e38F, 1e38F, 1e38F})),
            "nan nan nan nan ");
  EXPECT_EQ(texts(answered({"LayerNormalization", "f32[1,4] f32[4]=1,1,1,1"}, {1e38F, -1e38F, 1e38F, -1e38F})),
            "0 0 0 0 ");
  EXPECT_EQ(texts(answered({"MatMul", "f32[1,4] f32[4,1]=10,10,10,10"}, {1e38F, 1e38F, -1e38F, -1e38F})), "nan ");
  EXPECT_EQ(texts(answered({"Softmax", "f32[1,3]"}, {1, kInf, 2})), "nan nan nan ");
  EXPECT_EQ(texts(answered({"ReduceLogSumExp", "f32[1,2] i64[1]=1"}, {-kInf, -kInf})), "-inf ");
}

TEST(SpecialValues, VerifyComparesNanAndInfinity) {
  const auto judged = [](float got, float want, bool finite) {
    return difference(Tensor::scalar(got), Tensor::scalar(want), finite).relative();
  };
  EXPECT_EQ(judged(kNan, kNan, false), 0);
  EXPECT_EQ(judged(kInf, kInf, false), 0);
  EXPECT_EQ(judged(kInf, kNan, true), 0) << "overflow of both";
  EXPECT_EQ(judged(kInf, 3e38F, true), 0) << "next to the end of the range";
  EXPECT_TRUE(std::isinf(judged(kInf, kNan, false)));
  EXPECT_TRUE(std::isinf(judged(kInf, -kInf, false)));
  EXPECT_TRUE(std::isinf(judged(kNan, 1, true)));
  EXPECT_TRUE(std::isinf(judged(1, kInf, true)));
  EXPECT_DOUBLE_EQ(judged(1.5F, 1, true), 0.5);
}

}  // namespace
}  // namespace kilter
