// Winograd convolutions: every form gives the reference kernel's results on every instruction set, its errors are
// within the limits of doc/accuracy.md, and it is the default for the convolutions that gain by it.
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "codegen/disassemble.h"
#include "compile/compile.h"
#include "compile/session.h"
#include "ops/support/cases.h"
#include "ops/support/evaluate.h"
#include "ops/support/iterate.h"
#include "schedule/templates/winograd_core.h"

namespace kilter {
namespace {

/// A convolution with constant weights and bias.
OpCase conv_case(const std::string& text) {
  const OpDef& conv = *find_op("", "Conv", 11);
  ParsedCase parsed = parse_case(conv, text);
  for (size_t i = 1; i < parsed.operands.size(); ++i) parsed.operands[i].kind = CaseOperand::Kind::constant;
  return make_case(conv, parsed, text);
}

struct Answered {
  Tensor y;
  std::string schedule;  ///< that of the convolution
};

Answered run(const OpCase& c, const std::string& schedule, std::string_view target, int threads = 2,
             Accuracy accuracy = Accuracy::normal) {
  CompileOptions options;
  options.target = parse_target(target);
  options.accuracy = accuracy;
  if (!schedule.empty())
    options.choices[c.graph.node(c.graph.order().front()).name].schedule = parse_schedule(schedule);
  Compiled compiled = compile_graph(c.graph, options);
  Answered out;
  for (const Step& step : compiled.plan.steps) {
    if (step.ops == "Conv") out.schedule = step.schedule;
  }
  const auto program = std::make_shared<const Program>(std::move(compiled.plan));
  Loaded loaded{program, std::make_unique<Instance>(program, std::make_shared<ThreadPool>(threads)), {}};
  out.y = run_plan(loaded, c.inputs).at(0);
  return out;
}

std::vector<std::string_view> targets() {
  std::vector<std::string_view> here;
  for (const std::string_view name : {"x86-64-v2", "x86-64-v3", "x86-64-v4"}) {
    if (runs_here(parse_target(name))) here.push_back(name);
  }
  return here;
}

TEST(Winograd, EveryFormGivesTheSameResult) {
  // Odd extents and channel counts leave partial tiles and blocks. The second case has no padding, the third uneven
  // padding of up to two.
  for (const std::string text :
       {"f32[2,20,13,18] f32[64,20,3,3] f32[64] | pads=[1,1,1,1]", "f32[1,35,21,15] f32[33,35,3,3]",
        "f32[1,16,16,16] f32[32,16,3,3] f32[32] | pads=[2,0,1,2]", "f32[2,20,13,18] f32[64,20,1,3] | pads=[0,1,0,1]",
        "f32[1,35,13,18] f32[33,35,3,1] f32[33] | pads=[1,0,1,0]"}) {
    const OpCase c = conv_case(text);
    const Tensor want = evaluate(c.graph, c.inputs).at(0);
    for (const std::string_view target : targets()) {
      for (const std::string form :
           {"m=4 vectors=1 tile=3 count=1 split=0 prefetch=0", "m=4 vectors=1 tile=5 count=2 split=1 prefetch=0",
            "m=2 vectors=1 tile=7 count=3 split=0 prefetch=0", "m=2 vectors=1 tile=1 count=1 split=1 prefetch=0"}) {
        const Answered got = run(c, "conv2d_winograd " + form, target);
        EXPECT_EQ(got.schedule, "conv2d_winograd " + form);
        const auto difference = compare(got.y, want, {1e-4F, 1e-4F});
        EXPECT_FALSE(difference.has_value()) << text << " | " << form << " on " << target << ": " << *difference;
      }
    }
  }
}

TEST(Winograd, SevenTapsGiveTheSameResult) {
  for (const std::string text : {"f32[2,20,9,17] f32[64,20,1,7] f32[64] | pads=[0,3,0,3]",
                                 "f32[1,35,17,9] f32[33,35,7,1] | pads=[3,0,3,0]", "f32[1,16,16,16] f32[32,16,1,7]"}) {
    const OpCase c = conv_case(text);
    const Tensor want = evaluate(c.graph, c.inputs).at(0);
    for (const std::string_view target : targets()) {
      for (const std::string form :
           {"m=2 vectors=1 tile=7 count=3 split=0 prefetch=1024", "m=2 vectors=1 tile=1 count=1 split=1 prefetch=0"}) {
        const Answered got = run(c, "conv2d_winograd " + form, target);
        EXPECT_EQ(got.schedule, "conv2d_winograd " + form);
        const auto difference = compare(got.y, want, {1e-4F, 1e-4F});
        EXPECT_FALSE(difference.has_value()) << text << " | " << form << " on " << target << ": " << *difference;
      }
    }
  }
}

TEST(Winograd, DoesNotDependOnThreadCount) {
  const OpCase c = conv_case("f32[1,64,28,28] f32[64,64,3,3] f32[64] | pads=[1,1,1,1]");
  for (const std::string form :
       {"m=4 vectors=2 tile=6 count=2 split=0 prefetch=0", "m=4 vectors=2 tile=6 count=9 split=1 prefetch=0"}) {
    const Tensor one = run(c, "conv2d_winograd " + form, "x86-64-v3", 1).y;
    EXPECT_TRUE(one.same(run(c, "conv2d_winograd " + form, "x86-64-v3", 3).y)) << form;
  }
}

/// The convolution computed in f64, and the convolution of the magnitudes, which is the scale of errors.
struct Exact {
  std::vector<double> y, magnitude;
};

Exact exact(const Tensor& x, const Tensor& w) {
  const int64_t channels = x.shape()[1], side = x.shape()[2], filters = w.shape()[0];
  const int64_t down = w.shape()[2], across = w.shape()[3];
  Exact out;
  for (int64_t k = 0; k < filters; ++k) {
    for (int64_t at = 0; at < side * side; ++at) {
      double sum = 0, all = 0;
      for (int64_t i = 0; i < channels * down * across; ++i) {
        const int64_t channel = i / (down * across), r = i / across % down, s = i % across;
        const int64_t row = at / side + r - down / 2, column = at % side + s - across / 2;
        if (row < 0 || row >= side || column < 0 || column >= side) continue;
        const double product = double{x.data<float>()[(channel * side + row) * side + column]} *
                               double{w.data<float>()[k * channels * down * across + i]};
        sum += product, all += std::abs(product);
      }
      out.y.push_back(sum), out.magnitude.push_back(all);
    }
  }
  return out;
}

struct Errors {
  double most = 0;  ///< max |e| over max of the convolution of magnitudes, in units of 2^-24
  double rms = 0;   ///< rms of e over rms of y
};

Errors errors(const Tensor& got, const Exact& want) {
  double most = 0, scale = 0, squares = 0, all = 0;
  for (size_t i = 0; i < want.y.size(); ++i) {
    const double e = double{got.data<float>()[i]} - want.y[i];
    most = std::max(most, std::abs(e)), scale = std::max(scale, want.magnitude[i]);
    squares += e * e, all += want.y[i] * want.y[i];
  }
  return {most / scale * 16777216, std::sqrt(squares / all)};
}

/// The largest permitted error of a form, for a convolution of 64 channels.
struct Gate {
  std::string text, m;
  double most, rms;
};

TEST(Winograd, ErrorsStayWithinLimits) {
  // An rms error of 1.2e-6 separates good interpolation points from others, such as +-1, +-2.
  for (const Gate& gate : {Gate{"f32[48,64,3,3] | pads=[1,1,1,1]", "m=4", 64 + 8, 1.2e-6},
                           Gate{"f32[48,64,3,3] | pads=[1,1,1,1]", "m=2", 16 + 8, 6e-7},
                           Gate{"f32[48,64,1,3] | pads=[0,1,0,1]", "m=4", 16 + 8, 1.2e-6},
                           Gate{"f32[48,64,3,1] | pads=[1,0,1,0]", "m=2", 16 + 8, 6e-7},
                           Gate{"f32[48,64,1,7] | pads=[0,3,0,3]", "m=2", 16 + 8, 1.2e-6},
                           Gate{"f32[48,64,7,1] | pads=[3,0,3,0]", "m=2", 16 + 8, 1.2e-6}}) {
    const OpCase c = conv_case("f32[1,64,20,20] " + gate.text);
    const Tensor& w = *c.graph.value(c.graph.node(c.graph.order().front()).inputs[1]).constant;
    const Exact want = exact(c.inputs.at(0), w);
    for (const std::string_view target : targets()) {
      const std::string form = "conv2d_winograd " + gate.m + " vectors=1 tile=5 count=1 split=0 prefetch=0";
      const Errors found = errors(run(c, form, target).y, want);
      const Errors direct = errors(run(c, "", target, 2, Accuracy::strict).y, want);
      EXPECT_LE(found.most, gate.most) << gate.text << " " << gate.m << " on " << target;
      EXPECT_LE(found.rms, gate.rms) << gate.text << " " << gate.m << " on " << target;
      std::cout << target << " " << gate.text << " " << gate.m << ": max " << found.most << "u rms " << found.rms
                << "; direct " << direct.most << "u " << direct.rms << "\n";
    }
  }
}

/// A compiled convolution for whose image wrong() replaces single pixels by special values.
class Spoiled {
 public:
  Spoiled(const std::string& text, const std::string& form, std::string_view target) : c_(conv_case(text)) {
    weights_ = *c_.graph.value(c_.graph.node(c_.graph.order().front()).inputs[1]).constant;
    // Zero weights turn an infinity into NaN, as they do by the definition of a convolution.
    for (int64_t i = 3; i < weights_.elems(); i += 7) weights_.data<float>()[i] = 0;
    for (int64_t i = 0; i < weights_.elems(); ++i)
      heaviest_ = std::max(heaviest_, std::abs(double{weights_.data<float>()[i]}));
    clean_ = evaluate(c_.graph, c_.inputs).at(0);
    CompileOptions options;
    options.target = parse_target(target);
    options.choices["case"].schedule = parse_schedule("conv2d_winograd " + form);
    program_ = std::make_shared<const Program>(std::move(compile_graph(c_.graph, options).plan));
    loaded_ = {program_, std::make_unique<Instance>(program_, std::make_shared<ThreadPool>(1)), {}};
    const auto& pads = c_.graph.node(c_.graph.order().front()).ints_attr("pads", {0, 0, 0, 0});
    top_ = pads[0], left_ = pads[1];
  }

  const Shape& image() const { return c_.inputs.at(0).shape(); }

  /// Describes the fault in the output if pixel [n, channel, row, column] is `value`; empty if there is none.
  std::string wrong(const Shape& pixel, float value) {
    const Tensor& x = c_.inputs.at(0);
    const int64_t at = ((pixel[0] * x.shape()[1] + pixel[1]) * x.shape()[2] + pixel[2]) * x.shape()[3] + pixel[3];
    const float before = std::exchange(x.data<float>()[at], value);
    const Tensor y = run_plan(loaded_, c_.inputs).at(0);
    x.data<float>()[at] = before;
    std::string out;
    int64_t i = 0;
    for_each_index(y.shape(), [&](std::span<const int64_t> o) {
      const double got = y.data<float>()[i], clean = clean_.data<float>()[i];
      const std::optional<float> w = weight(o, pixel);
      const double want = w ? clean + (double{value} - double{before}) * double{*w} : clean;
      // Next to a huge value, other values that an output reads are lost in rounding, and the weight that the kernel
      // recovers from the transformed filter is inexact.
      const double lost = w && std::isfinite(value) ? 2e-6 * std::abs(double{value}) * heaviest_ : 0;
      if (out.empty() && !alike(got, want, lost))
        out = fmt::format("y[{}] is {}, expected {} (it reads the pixel: {})", fmt::join(o, ","), got, want,
                          w.has_value());
      ++i;
    });
    return out;
  }

 private:
  static bool alike(double got, double want, double lost) {
    if (std::isnan(want)) return std::isnan(got);
    if (std::isinf(want)) return got == want;
    return std::abs(got - want) <= 1e-4 + 1e-4 * std::abs(want) + lost;
  }
  /// Returns the weight with which an output reads a pixel; nullopt if it does not read it.
  std::optional<float> weight(std::span<const int64_t> o, const Shape& pixel) const {
    const Shape& w = weights_.shape();
    const int64_t r = pixel[2] - o[2] + top_, s = pixel[3] - o[3] + left_;
    if (o[0] != pixel[0] || r < 0 || r >= w[2] || s < 0 || s >= w[3]) return std::nullopt;
    return weights_.data<float>()[((o[1] * w[1] + pixel[1]) * w[2] + r) * w[3] + s];
  }

  OpCase c_;
  Tensor weights_, clean_;
  std::shared_ptr<const Program> program_;
  Loaded loaded_;
  double heaviest_ = 0;
  int64_t top_ = 0, left_ = 0;
};

/// Replaces every pixel once, hence each position within inner tiles and within tiles at the edges.
TEST(Winograd, BadPixelAffectsOnlyItsReaders) {
  struct Problem {
    std::string text;
    std::vector<std::string> forms;
  };
  const std::vector<std::string> all{"m=4 vectors=1 tile=3 count=1 split=0 prefetch=0",
                                     "m=4 vectors=2 tile=2 count=2 split=1 prefetch=0",
                                     "m=2 vectors=1 tile=4 count=1 split=0 prefetch=0"};
  const std::vector<std::string> two{"m=2 vectors=1 tile=4 count=1 split=0 prefetch=0"};
  for (const Problem& problem :
       {Problem{"f32[2,20,13,11] f32[32,20,3,3] f32[32] | pads=[1,1,1,1]", all},
        Problem{"f32[1,16,9,7] f32[36,16,3,3] | pads=[0,1,1,0]", two}, Problem{"f32[1,16,9,10] f32[32,16,3,3]", all},
        Problem{"f32[1,17,7,13] f32[32,17,1,3] f32[32] | pads=[0,1,0,1]", all},
        Problem{"f32[1,17,13,7] f32[32,17,3,1] | pads=[1,0,1,0]", all},
        Problem{"f32[1,17,6,13] f32[32,17,1,7] f32[32] | pads=[0,3,0,3]", two},
        Problem{"f32[1,17,13,6] f32[32,17,7,1] | pads=[3,0,3,0]", two}}) {
    for (const std::string_view target : targets()) {
      for (const std::string& form : problem.forms) {
        Spoiled spoiled(problem.text, form, target);
        const Shape& image = spoiled.image();
        for (int64_t i = 0; i < image[2] * image[3]; ++i) {
          const int64_t n = i % image[0], channel = i * 7 % image[1];
          for (const float value : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                                    -std::numeric_limits<float>::infinity(), 1e30F, -1e12F}) {
            const std::string wrong = spoiled.wrong({n, channel, i / image[3], i % image[3]}, value);
            ASSERT_EQ(wrong, "") << problem.text << " | " << form << " on " << target << ": " << value << " at [" << n
                                 << "," << channel << "," << i / image[3] << "," << i % image[3] << "]";
          }
        }
      }
    }
  }
}

/// The kernel of the products also recomputes overflowed tiles directly; this must not make the products spill.
TEST(Winograd, ProductsDoNotSpill) {
  const OpCase c = conv_case("f32[1,64,7,7] f32[64,64,3,3] f32[64] | pads=[1,1,1,1]");
  for (const std::string_view split : {"0", "1"}) {
    CompileOptions options;
    options.target = parse_target("x86-64-v3");
    options.choices[c.graph.node(c.graph.order().front()).name].schedule =
        parse_schedule(fmt::format("conv2d_winograd m=2 vectors=2 tile=6 count=3 split={} prefetch=8192", split));
    const Plan plan = compile_graph(c.graph, options).plan;
    const std::span<const std::byte> code(plan.code, static_cast<size_t>(plan.code_bytes));
    InnerLoop products;
    for (const Step& step : plan.steps) {
      if (step.kind != StepKind::kernel) continue;
      for (const InnerLoop& loop :
           inner_loops(disassemble(code, plan.entries.at(static_cast<size_t>(step.kernel)), options.target))) {
        if (loop.fmas > products.fmas) products = loop;
      }
    }
    EXPECT_EQ(products.fmas, 48);
    EXPECT_EQ(products.stack, 0) << "split=" << split;
  }
}

TEST(Winograd, IsTheDefaultWhereItPays) {
  const auto chosen = [](const std::string& text, Accuracy accuracy = Accuracy::normal) {
    const std::string schedule = run(conv_case(text), "", "x86-64-v3", 1, accuracy).schedule;
    return schedule.substr(0, schedule.find(" vectors"));
  };
  EXPECT_EQ(chosen("f32[1,64,28,28] f32[64,64,3,3] | pads=[1,1,1,1]"), "conv2d_winograd m=4");
  EXPECT_EQ(chosen("f32[1,64,7,7] f32[64,64,3,3] | pads=[1,1,1,1]"), "conv2d_winograd m=2");
  EXPECT_EQ(chosen("f32[1,64,17,17] f32[64,64,1,7] | pads=[0,3,0,3]"), "conv2d_winograd m=2");
  EXPECT_EQ(chosen("f32[1,64,17,17] f32[64,64,3,1] | pads=[1,0,1,0]"), "conv2d_winograd m=4");
  EXPECT_EQ(chosen("f32[1,64,28,28] f32[64,64,3,3] | pads=[1,1,1,1]", Accuracy::strict), "conv2d_direct");
  EXPECT_EQ(chosen("f32[1,64,28,28] f32[64,64,3,3] | pads=[1,1,1,1] strides=[2,2]"), "conv2d_direct");
  EXPECT_EQ(chosen("f32[1,64,4,4] f32[64,64,3,3] | pads=[1,1,1,1]"), "conv2d_direct");  // 4 tiles
  EXPECT_EQ(chosen("f32[1,8,28,28] f32[64,8,3,3] | pads=[1,1,1,1]"), "conv2d_direct");  // few channels
}

TEST(Winograd, RefusalsSayWhatIsLegal) {
  const auto refusal = [](const std::string& text, const std::string& schedule) -> std::string {
    try {
      run(conv_case(text), schedule, "x86-64-v3");
    } catch (const Error& error) {
      return error.message();
    }
    return "no error";
  };
  const std::string form = "conv2d_winograd m=4 vectors=1 tile=4 count=1 split=0 prefetch=0";
  EXPECT_EQ(refusal("f32[1,16,28,28] f32[16,16,5,5]", form),
            "--schedule case: '" + form + "' does not apply: kernel: limit 3x3, 1x3, 3x1, 1x7 or 7x1, got 5x5");
  EXPECT_EQ(
      refusal("f32[1,16,28,28] f32[16,16,3,3]", "conv2d_winograd m=3 vectors=1 tile=4 count=1 split=0 prefetch=0"),
      "--schedule case: 'conv2d_winograd m=3 vectors=1 tile=4 count=1 split=0 prefetch=0' does not apply: "
      "conv2d_winograd knob "
      "m: limit one of 2, 4, got 3");
  EXPECT_EQ(
      refusal("f32[1,16,28,28] f32[16,16,3,3]", "conv2d_winograd m=4 vectors=2 tile=9 count=1 split=0 prefetch=0"),
      "--schedule case: 'conv2d_winograd m=4 vectors=2 tile=9 count=1 split=0 prefetch=0' does not apply: register "
      "tile (tiles with 2 vectors each): limit 6, got 9");
}

TEST(WinogradTransform, TransformsOfKnownFilters) {
  for (const int64_t m : {2, 4}) {
    const WinogradTransform& t = *find_winograd(m, 3);
    const auto side = static_cast<size_t>(m + 2);
    // The filter has only a middle row. The points 0 and infinity see the first and the last row, hence zeros.
    const std::array<float, 9> filter{0, 0, 0, 3, -5, 7, 0, 0, 0};
    FilterTransform transformed(t, t);
    const std::vector<double>& u = transformed(filter.data());
    for (size_t j = 0; j < side; ++j) {
      EXPECT_DOUBLE_EQ(u[j], 0);
      EXPECT_DOUBLE_EQ(u[(side - 1) * side + j], 0);
    }
    EXPECT_NE(u[side + side - 1], 0);
  }
}

TEST(WinogradTransform, OneDimensionalTransformsKeepTheOtherDimension) {
  const std::array<float, 3> filter{2, 0, 5};
  const WinogradTransform &identity = *find_winograd(4, 1), &four = *find_winograd(4, 3);
  const std::vector<double> across = FilterTransform(identity, four)(filter.data());
  const std::vector<double> down = FilterTransform(four, identity)(filter.data());
  EXPECT_EQ(across, down);
  EXPECT_EQ(across.size(), 6U);
  EXPECT_DOUBLE_EQ(across.back(), 5);
}

TEST(WinogradTransform, FiltersCanBeRecovered) {
  for (const auto& [m, taps, most] : {std::tuple(2, 3, 4.0), std::tuple(4, 3, 6.0), std::tuple(2, 7, 20.0)}) {
    const WinogradTransform &t = *find_winograd(m, taps), &identity = *find_winograd(m, 1);
    const std::vector<std::vector<double>> back = filter_recovery(t);
    FilterTransform transformed(t, identity);
    Random random(7, "filters");
    double worst = 0;  // in units of 2^-24 of the filter's largest value
    for (uint64_t n = 0; n < 500; ++n) {
      std::vector<float> filter;
      double largest = 0;
      for (int64_t r = 0; r < taps; ++r) {
        filter.push_back(static_cast<float>(random.normal(n * 8 + static_cast<uint64_t>(r))));
        largest = std::max(largest, std::abs(double{filter.back()}));
      }
      const std::vector<double>& u = transformed(filter.data());
      for (int64_t r = 0; r < taps; ++r) {
        double g = 0;
        for (size_t i = 0; i < u.size(); ++i) g += back[static_cast<size_t>(r)][i] * double{static_cast<float>(u[i])};
        worst = std::max(worst, std::abs(g - double{filter[static_cast<size_t>(r)]}) / largest * 16777216);
      }
    }
    EXPECT_LE(worst, most) << "m = " << m << ", " << taps << " taps";
  }
}

TEST(WinogradTransform, CountsItsOperations) {
  EXPECT_EQ(input_transform_flops(*find_winograd(4, 3)), 24);
  EXPECT_EQ(input_transform_flops(*find_winograd(2, 3)), 6);
  EXPECT_EQ(input_transform_flops(*find_winograd(2, 1)), 0);
  EXPECT_EQ(output_transform_flops(*find_winograd(4, 3)), 16);
  EXPECT_EQ(output_transform_flops(*find_winograd(2, 3)), 4);
  EXPECT_EQ(find_winograd(3, 3), nullptr);
  EXPECT_EQ(find_winograd(4, 7), nullptr);
}

}  // namespace
}  // namespace kilter
