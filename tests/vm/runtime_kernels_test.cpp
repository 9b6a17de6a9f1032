// Operators on the host (runtime kernels, views and copies of regions) compute the same as their reference kernels.
#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <set>

#include "../base/error_of.h"
#include "exec/kernels/kernel.h"
#include "exec/thread_pool.h"
#include "ops/support/cases.h"
#include "vm/host_op.h"

namespace kilter {
namespace {

struct HostCase {
  Node node;
  std::vector<AnyValue> inputs;
};

HostCase host_case(const OpDef& op, const ParsedCase& parsed) {
  HostCase made;
  made.node.name = "n";
  made.node.op = &op;
  made.node.opset = parsed.opset;
  made.node.attrs = parsed.attrs;
  ValueId id = 0;
  for (const CaseOperand& operand : parsed.operands) {
    made.node.inputs.push_back(operand.tensor.defined() ? id++ : kNone);
    made.inputs.push_back(operand.tensor.defined() ? AnyValue(operand.tensor) : AnyValue());
  }
  for (size_t i = 0; i < parsed.outputs; ++i) made.node.outputs.push_back(id++);
  return made;
}

/// Runs a case on the host and with the reference kernel, and expects the same result.
void expect_same(const OpDef& op, const ParsedCase& parsed, CaseText text) {
  static ThreadPool pool(3);
  const HostCase c = host_case(op, parsed);
  const std::vector<AnyValue> want = vm::run_op(c.node, c.inputs, {.pool = nullptr, .reference_only = true});
  for (ThreadPool* threads : {static_cast<ThreadPool*>(nullptr), &pool}) {
    const std::vector<AnyValue> got = vm::run_op(c.node, c.inputs, {.pool = threads});
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < got.size(); ++i) {
      ASSERT_EQ(kilter::text(got[i]), kilter::text(want[i])) << op.name << ": " << text;
      const auto difference = compare(got[i].tensor(), want[i].tensor(), op.tolerance);
      EXPECT_FALSE(difference) << op.name << ": " << text << ", output " << i << ": " << *difference;
    }
  }
}

bool has_kernel(const OpDef& op, const ParsedCase& parsed) {
  const RuntimeKernel* kernel = find_runtime_kernel(op.domain, op.name, parsed.opset);
  if (kernel == nullptr) return false;
  std::vector<KernelOperand> operands;
  for (const CaseOperand& operand : parsed.operands) {
    const Tensor& t = operand.tensor;
    operands.push_back(t.defined() ? KernelOperand{true, t.dtype(), t.shape(), t.elems(), t.raw()} : KernelOperand{});
  }
  return kernel->takes({op.name, "n", parsed.opset, parsed.attrs}, operands);
}

TEST(HostOperators, MatchReferenceKernels) {
  std::set<std::string_view> with_kernel;
  int moved = 0;
  for (const OpDef* op : all_ops()) {
    if (op->run != nullptr || op->reference == nullptr || !op->deterministic) continue;
    for (const CaseText text : op->cases) {
      const ParsedCase parsed = parse_case(*op, text);
      if (has_kernel(*op, parsed)) {
        with_kernel.insert(op->name);
      } else if (op->regions != nullptr || op->family == Family::reshape) {
        ++moved;
      } else {
        continue;
      }
      expect_same(*op, parsed, text);
    }
  }
  EXPECT_EQ(with_kernel.size(), all_runtime_kernels().size());
  EXPECT_GT(moved, 100);
}

struct Extra {
  std::string_view op;
  CaseText text;
};

/// Movements that are large enough to run as copies of regions.
constexpr Extra kMoves[] = {
    {"Transpose", "f32[20,7,5] | perm=[2,0,1]"},
    {"Slice", "i64[40,9] i64[2]=3,-1 i64[2]=-1,-9 i64[2]=0,1 i64[2]=2,-1"},
    {"Slice", "u8[1000,4] i64[1]=1 i64[1]=3 i64[1]=1"},
    {"Concat", "f32[30,1] f32[30,4] f32[30,2] | axis=1"},
    {"Tile", "f16[10,3] i64[2]=2,5"},
    {"Expand", "bool[1,7] i64[2]=30,7"},
    {"Pad", "f32[9,9] i64[4]=1,2,3,4 f32[]=-1.5"},
    {"Split", "f64[90,3] i64[3]=20,30,40 | axis=0 | | 3"},
    {"Reshape", "f32[30,4] i64[2]=8,-1"},
};

/// Cases that the operators' own do not cover: sizes at which kernels work in blocks or on several threads.
constexpr Extra kExtra[] = {
    {"TopK", "f32[3,900] i64[1]=7 | | | 2"},
    {"TopK", "f32[3,900] i64[1]=7 | largest=0 | | 2"},
    {"TopK", "f32[70,331] i64[1]=20 | axis=1 | | 2"},
    {"TopK", "f32[331,70] i64[1]=20 | axis=0 largest=0 | | 2"},
    {"TopK", "f32[2,500,3] i64[1]=300 | axis=1 | | 2"},
    {"TopK", "f64[4000] i64[1]=11 | | | 2"},
    {"TopK", "i64[4000] i64[1]=60 | | | 2"},
    {"TopK", "u8[4000] i64[1]=4000 | largest=0 | | 2"},
    {"TopK", "i8[3,700] i64[1]=3 | largest=0 | | 2"},
    {"TopK", "f16[2,700] i64[1]=9 | | | 2"},
    {"TopK", "bf16[2,700] i64[1]=9 | largest=0 | | 2"},
    {"NonMaxSuppression", "f32[2,300,4] f32[2,3,300] i64[1]=40 f32[1]=0.3 f32[1]=0.1"},
    {"NonMaxSuppression", "f32[1,700,4] f32[1,2,700] i64[1]=9223372036854775807 f32[1]=0.5"},
    {"NonMaxSuppression", "f32[1,3000,4] f32[1,2,3000] i64[1]=9223372036854775807 f32[1]=0.2"},
    {"NonMaxSuppression", "f32[1,2000,4] f32[1,1,2000] i64[1]=2000 f32[1]=0.6 f32[1]=0 | center_point_box=1"},
    {"NonMaxSuppression", "f32[1,200,4] f32[1,1,200] i64[1]=100 f32[1]=0 f32[1]=-inf | center_point_box=1"},
    {"NonMaxSuppression", "f32[1,0,4] f32[1,2,0] i64[1]=5 f32[1]=0.5"},
    {"NonMaxSuppression", "f32[1,9,4] f32[1,1,9] i64[1]=-3 f32[1]=0.5"},
    {"NonZero", "bool[7,5,33]"},
    {"NonZero", "i32[]=3"},
    {"NonZero", "f64[4,0,2]"},
    {"NonZero", "f16[3,40]"},
    {"Unique", "f32[2,300] | | | 4"},
    {"Unique", "u8[900] | sorted=0 | | 4"},
    {"Unique", "i64[300] | axis=0 | | 4"},
    {"Compress", "f32[70,3] bool[70] | axis=0"},
    {"Compress", "u8[3,70,5] bool[64] | axis=1"},
    {"CumSum", "f32[37,1000] i64[]=1"},
    {"CumSum", "f32[37,1000] i64[]=0 | exclusive=1"},
    {"CumSum", "f32[2,19,1100] i64[]=-2 | reverse=1"},
    {"CumSum", "i32[70,70] i32[]=1 | reverse=1 exclusive=1"},
    {"CumSum", "f64[3,70,5] i32[]=1"},
    {"CumSum", "u8[300] i64[]=0"},
    {"RoiAlign", "f32[2,70,12,9] f32[40,4] i64[40]=1 | output_height=7 output_width=5 spatial_scale=4"},
    {"RoiAlign", "f32[1,3,12,9] f32[40,4] i64[40]=0 | output_height=2 output_width=3 spatial_scale=6 sampling_ratio=2"},
    {"RoiAlign", "f32[1,40,12,9] f32[9,4] i64[9]=0 | output_height=3 output_width=3 spatial_scale=6 mode=max"},
    {"RoiAlign", "f32[1,1,5,1] f32[60,4] i64[60]=0 | output_height=9 output_width=9 spatial_scale=3 | 10"},
    {"RoiAlign", "f32[1,2,5,6] f32[0,4] i64[0] | output_height=2 output_width=2"},
    {"Gather", "f32[100,3,5] i64[4,3] | axis=0"},
    {"Gather", "u8[100,3] i32[4] | axis=0"},
    {"GatherElements", "f32[3,100,4] i64[3,7,2] | axis=1"},
    {"GatherND", "f32[100,100,3] i64[5,2]"},
    {"ScatterND", "f32[100,4] i64[60,1] f32[60,4]"},
    {"ScatterElements", "i64[100,3] i64[50,2] i64[50,2]"},
    {"Add", "i64[3,1,5] i64[4,1]"},
    {"Sub", "f32[3,0,5] f32[]=2"},
    {"Mul", "i32[1] i32[3,3]"},
    {"Less", "f32[7,1] f32[1,7]"},
    {"Compress", "f32[1099511627776,0] bool[1]=0 | axis=1"},
    {"CumSum", "f32[1099511627776,0] i64[]=1"},
    {"TopK", "f32[1099511627776,0] i64[1]=0 | | | 2"},
    {"Gather", "f32[1099511627776,0] i64[0] | axis=1"},
    {"Range", "i64[]=9223372036854775807 i64[]=-9223372036854775808 i64[]=-9223372036854775807"},
};

/// Replaces elements of floats by NaN, infinity, equal and negative zeros.
void salt(const Tensor& t) {
  visit_dtype(t.dtype(), [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_floating_point_v<T>) {
      constexpr T kInfinity = std::numeric_limits<T>::infinity();
      const std::array<T, 5> values = {std::numeric_limits<T>::quiet_NaN(), kInfinity, T{-0.0}, T{0}, -kInfinity};
      for (int64_t i = 0; i < t.elems(); i += 3) t.data<T>()[i] = values[static_cast<size_t>(i / 3) % values.size()];
    }
  });
}

TEST(HostOperators, MatchReferenceKernelsInBlocks) {
  for (const Extra& extra : kExtra) {
    const OpDef& op = *find_op("", extra.op, 18);
    ParsedCase parsed = parse_case(op, extra.text);
    ASSERT_TRUE(has_kernel(op, parsed)) << extra.op << ": " << extra.text;
    expect_same(op, parsed, extra.text);
    if (extra.op == "RoiAlign") continue;  // regions must be finite
    salt(parsed.operands[0].tensor);
    if (extra.op == "NonMaxSuppression") salt(parsed.operands[1].tensor);
    expect_same(op, parsed, extra.text);
  }
}

TEST(HostOperators, MovesMatchReferenceKernels) {
  for (const Extra& move : kMoves) {
    const OpDef& op = *find_op("", move.op, 18);
    expect_same(op, parse_case(op, move.text), move.text);
  }
}

TEST(HostOperators, RoiAlignReadsPixelsThatAreNotFinite) {
  const OpDef& op = *find_op("", "RoiAlign", 18);
  const CaseText text = "f32[1,70,6,9] f32[40,4] i64[40]=0 | output_height=3 output_width=5 spatial_scale=4";
  const ParsedCase parsed = parse_case(op, text);
  salt(parsed.operands[0].tensor);
  expect_same(op, parsed, text);
}

std::string error_of_case(std::string_view name, CaseText text) {
  const OpDef& op = *find_op("", name, 18);
  const HostCase c = host_case(op, parse_case(op, text));
  return error_of([&] { vm::run_op(c.node, c.inputs); });
}

TEST(HostOperators, IllegalValuesAreErrors) {
  EXPECT_EQ(error_of_case("TopK", "f32[4] i64[1]=5"),
            "TopK 'n': k is 5; legal values are 0 to 4, the extent of axis 0");
  EXPECT_EQ(error_of_case("Gather", "f32[4] i64[2]=0,4"),
            "Gather 'n': indices[1] is 4, out of range for axis 0 of size 4; legal values are -4 to 3");
  EXPECT_EQ(error_of_case("RoiAlign", "f32[1,1,4,4] f32[1,4]=0,0,1,1 i64[1]=2"),
            "RoiAlign 'n': batch_indices contains 2; legal values are 0 to 0");
  EXPECT_EQ(error_of_case("RoiAlign", "f32[1,1,4,4] f32[1,4]=0,0,nan,1 i64[1]=0"),
            "RoiAlign 'n': a region from 0 to nan has bins of nan elements; the limit is 32768");
  EXPECT_EQ(error_of_case("Compress", "f32[2] bool[3]=0,0,1"),
            "Compress 'n': condition 2 is true, but there are 2 slices");
  EXPECT_EQ(error_of_case("Add", "f32[2] f32[3]"),
            "Add 'n': input shapes 2, 3 do not broadcast: aligned at the end, extents must be equal or 1");
}

}  // namespace
}  // namespace kilter
