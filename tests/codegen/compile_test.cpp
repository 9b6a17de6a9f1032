#include <numeric>
#include <thread>

#include "codegen/llvm/link.h"
#include "codegen/llvm/llvm_backend.h"
#include "exec/executor.h"
#include "run.h"

namespace kilter::testing {
namespace {

LoopFunc add_rows(int32_t lanes) {
  LoopBuilder b("add_rows");
  const Buf x = b.input("x", DType::f32, 12 * 64);
  const Buf y = b.output("y", DType::f32, 12 * 64);
  const Expr i = b.parallel("i", 3);
  const Expr j = b.parallel("j", 4);
  b.loop("k", 0, 64, lanes, [&](Expr k) {
    const Expr at = (i * 4 + j) * 64 + k;
    b.store(y, at, b.load(x, at, lanes) + imm(DType::f32, 1.5, lanes));
  });
  return b.finish();
}

TEST(Compile, AddsOverTheWholeParallelRange) {
  for (const Target& target : targets_here()) {
    const LoopFunc func = add_rows(target.limits.lanes_f32());
    const MachineCode code = compile(std::span(&func, 1), target);
    const Mapped mapped(code);
    std::vector<float> x(768), y(768, -1.0F);
    std::iota(x.begin(), x.end(), 0.0F);
    const std::vector<std::byte*> args = {reinterpret_cast<std::byte*>(x.data()),
                                          reinterpret_cast<std::byte*>(y.data())};
    EXPECT_EQ(call(func, mapped.entry(0), args, 2, 12), 0);
    for (size_t i = 0; i < y.size(); ++i) {
      ASSERT_EQ(y[i], i < 128 ? -1.0F : static_cast<float>(i) + 1.5F) << target.name << " element " << i;
    }
    EXPECT_EQ(call(func, mapped.entry(0), args, 0, 2), 0);
    EXPECT_EQ(y[127], 128.5F);
  }
}

TEST(Compile, FailedChecksAreReported) {
  for (const Target& target : targets_here()) {
    LoopBuilder b("checked");
    const Buf k = b.input("k", DType::i64, 3 * 19);
    const Buf y = b.output("y", DType::i64, 3 * 19);
    const Expr row = b.parallel("row", 3) * Expr(19);
    b.vector_loop("v", 19, [&](const Expr& v) {
      const Expr index = b.let("index", b.load(k, row + v));
      b.check(binary(Op::lt, bitcast(DType::u64, index), imm_int(DType::u64, 5)));
      b.store(y, row + v, index);
    });
    const LoopFunc func = loop_passes::lower(b.finish(), target.limits);
    const Mapped mapped(compile(std::span(&func, 1), target));
    for (size_t bad = 0; bad <= 57; ++bad) {
      std::vector<int64_t> ks(57, 4), ys(57);
      if (bad < 57) ks[bad] = -1;
      const std::vector<std::byte*> args{reinterpret_cast<std::byte*>(ks.data()),
                                         reinterpret_cast<std::byte*>(ys.data())};
      for (int64_t i = 0; i < 3; ++i)
        EXPECT_EQ(call(func, mapped.entry(0), args, i, i + 1), static_cast<int64_t>(bad / 19) == i ? kCheckFailed : 0)
            << target.name << " " << bad;
      EXPECT_EQ(call(func, mapped.entry(0), args, 0, 3), bad < 57 ? kCheckFailed : 0);
      EXPECT_EQ(ys, ks);
    }
  }
}

template <class F>
std::string error_of(F f, ErrorKind kind = ErrorKind::internal) {
  try {
    f();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), kind) << e.message();
    return e.message();
  }
  ADD_FAILURE() << "no error";
  return {};
}

std::vector<LoopFunc> several(const Target& target) {
  std::vector<LoopFunc> funcs;
  for (const int32_t lanes : {1, 2, 4, 8, 16, 32}) {
    funcs.push_back(loop_passes::lower(add_rows(lanes), target.limits));
    LoopBuilder b(fmt::format("silu{}", lanes));
    const Buf x = b.input("x", DType::f32, 1024);
    const Buf y = b.output("y", DType::f32, 1024);
    const Expr at = b.parallel("i", 32) * 32;
    const Expr v = b.load(x, at, lanes);
    b.store(y, at, v * unary(Op::sigmoid, v));
    funcs.push_back(loop_passes::lower(b.finish(), target.limits));
  }
  return funcs;
}

TEST(Compile, CodeDependsOnlyOnTheFunctions) {
  const Target target = native_target();
  const std::vector<LoopFunc> funcs = several(target);
  const MachineCode one = compile(funcs, target, 1);
  const MachineCode again = compile(funcs, target, 1);
  const MachineCode two = compile(funcs, target, 2);
  MachineCode elsewhere;
  std::jthread([&] { elsewhere = compile(funcs, target, 3); }).join();
  for (const MachineCode& other : {again, two, elsewhere}) {
    EXPECT_EQ(one.bytes, other.bytes);
    EXPECT_EQ(one.entries, other.entries);
  }
  ASSERT_EQ(one.entries.size(), funcs.size());
  for (size_t i = 0; i < one.entries.size(); ++i) EXPECT_EQ(one.entries[i] % 64, 0) << funcs[i].name;
  EXPECT_TRUE(compile({}, target, 2).bytes.empty());
}

TEST(Compile, FunctionsOfOneBlobKeepTheirOwnConstants) {
  const Target target = native_target();
  const std::vector<LoopFunc> funcs = several(target);
  const Mapped mapped(compile(funcs, target, 2));
  for (size_t i = 1; i < funcs.size(); i += 2) {
    std::vector<float> x(1024, 1.0F), y(1024);
    const std::vector<std::byte*> args = {reinterpret_cast<std::byte*>(x.data()),
                                          reinterpret_cast<std::byte*>(y.data())};
    EXPECT_EQ(call(funcs[i], mapped.entry(i), args, 0, 32), 0);
    EXPECT_NEAR(y[0], 0.7310586F, 1e-6F) << funcs[i].name;
  }
}

TEST(Compile, EveryTargetCompilesWithoutExternalSymbols) {
  for (const TargetRow& row : all_targets()) {
    const Target target = parse_target(row.name);
    EXPECT_FALSE(compile(several(target), target).bytes.empty()) << row.name;
  }
}

TEST(Compile, UnsupportedOperationIsNamed) {
  LoopBuilder b("erf_in_f64");
  const Buf x = b.input("x", DType::f64, 8);
  const Buf y = b.output("y", DType::f64, 8);
  b.store(y, 0, unary(Op::erf, b.load(x, 0, 8)));
  const LoopFunc func = b.finish();
  const std::string message = error_of([&] { compile(std::span(&func, 1), native_target()); });
  EXPECT_NE(message.find("'erf_in_f64'"), std::string::npos) << message;
  EXPECT_NE(message.find("erf of f64"), std::string::npos) << message;
  // The failure does not affect the next compilation.
  const LoopFunc good = add_rows(4);
  EXPECT_FALSE(compile(std::span(&good, 1), native_target()).bytes.empty());
}

TEST(Compile, CpusRefuseBlocksOfThreads) {
  const auto refusal = [](const std::string& statements, const std::string& buffers = "") {
    const LoopFunc f =
        parse_loop_func("func \"f\" {\n  input x: f32[4]\n  output y: f32[4]\n" + buffers + statements + "}\n");
    const Target target = parse_target("x86-64-v3");
    try {
      compile(std::span(&f, 1), target);
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::unsupported);
      return e.message();
    }
    return std::string();
  };
  const std::string who = "kernel 'f': the back end 'llvm' does not accept it: ";
  EXPECT_EQ(refusal("for t in [0, 4) thread_x { y[t] = x[t] }"),
            who + "loops: limit serial, unrolled and vector, got 't' bound to thread_x");
  EXPECT_EQ(refusal("for b in [0, 4) block_y { y[b] = x[b] }"),
            who + "loops: limit serial, unrolled and vector, got 'b' bound to block_y");
  EXPECT_EQ(refusal("for t in [0, 4) thread_x { y[t] = s[t] }", "  scratch s: shared f32[4]\n"),
            who + "memory of buffers: limit global, got 's' in shared memory");
  EXPECT_EQ(refusal("y[0] = c[0]", "  input c: constant f32[4]\n"),
            who + "memory of buffers: limit global, got 'c' in constant memory");
  EXPECT_EQ(refusal("for i in [0, 4) { if x[i] < 1:f32 { } else { barrier } }"), who + "barriers: limit none, got one");
  EXPECT_EQ(refusal("for i in [0, 4) { y[i] = x[i] }"), "");
}

TEST(Compile, TheInterpreterRunsBlocksOfThreads) {
  const LoopFunc f = parse_loop_func(
      "func \"turn\" {\n  input x: f32[4]\n  output y: f32[4]\n  scratch s: shared f32[4]\n"
      "  for t in [0, 4) thread_x { s[t] = x[t] barrier y[t] = s[3 - t] }\n}\n");
  const Target target = parse_target("null");
  const MachineCode code = compile(std::span(&f, 1), target);
  Plan plan;
  plan.model = "turn", plan.devices = {"null"};
  plan.code = code.bytes.data(), plan.code_bytes = std::ssize(code.bytes), plan.entries = code.entries;
  plan.inputs = {{"x", DType::f32, {4}}}, plan.outputs = {{"y", DType::f32, {4}}};
  Step step;
  step.name = "turn", step.kernel = 0;
  step.args = {{.space = Space::input, .bytes = 16}, {.space = Space::output, .bytes = 16}};
  plan.steps = {step};
  add_backend_devices();
  Instance instance(std::make_shared<const Program>(plan), std::make_shared<ThreadPool>(2));
  std::vector<float> x{1, 2, 3, 4}, y(4);
  const std::byte* inputs[] = {reinterpret_cast<const std::byte*>(x.data())};
  std::byte* outputs[] = {reinterpret_cast<std::byte*>(y.data())};
  instance.run(inputs, outputs);
  EXPECT_EQ(y, (std::vector<float>{4, 3, 2, 1}));
}

TEST(Compile, PrintsLlvmAfterItsPasses) {
  LoopBuilder b("sum");
  const Buf x = b.input("x", DType::f32, 64);
  const Buf y = b.output("y", DType::f32, 1);
  const int32_t sum = b.reg("total", imm(DType::f32, 0));
  b.loop("i", 0, 64, [&](Expr i) { b.set(sum, b.get(sum) + b.load(x, i)); });
  b.store(y, 0, b.get(sum));
  const std::string text = codegen::print_llvm(b.finish(), native_target());
  EXPECT_NE(text.find("phi float"), std::string::npos) << text;
  EXPECT_EQ(text.find("alloca"), std::string::npos) << text;
  EXPECT_TRUE(codegen_version().starts_with("LLVM ")) << codegen_version();
  for (const Backend* backend : all_backends())
    EXPECT_EQ(backend->version().find(','), std::string::npos) << backend->name;
}

TEST(Link, RefusesInvalidObjects) {
  const std::vector<char> text(100, 'x');
  const std::vector<codegen::Object> objects = {{"conv", "kernel", text}};
  EXPECT_NE(
      error_of([&] { codegen::link(objects, Arch::x86_64); }).find("linking 'conv': not a relocatable x86-64 object"),
      std::string::npos);
  EXPECT_NE(
      error_of([&] { codegen::link(objects, Arch::aarch64); }).find("linking 'conv': not a relocatable AArch64 object"),
      std::string::npos);
  const std::vector<codegen::Object> empty = {{"conv", "kernel", {}}};
  EXPECT_NE(error_of([&] { codegen::link(empty, Arch::x86_64); }).find("linking 'conv'"), std::string::npos);
}

}  // namespace
}  // namespace kilter::testing
