#include "ops/support/operands.h"
#include "ops/support/svm.h"

namespace kilter {
namespace {

/// Returns the values [n, vectors] of the kernel function for the rows of x and the support vectors.
ValueId kernel_values(ExpandContext& ctx, const SvmKernel& kernel, ValueId x, ValueId vectors) {
  const auto number = [&](double value) { return ctx.scalar(DType::f32, value); };
  if (kernel.kind == SvmKernel::Kind::rbf) {
    const ValueId rows = ctx.add("Unsqueeze", {x, ctx.builder.list(std::vector<int64_t>{1})});
    const ValueId last = ctx.builder.list(std::vector<int64_t>{2});
    const ValueId squares =
        ctx.add("ReduceSumSquare", {ctx.add("Sub", {rows, vectors}), last}, {{"keepdims", int64_t{0}}});
    return ctx.add("Exp", {ctx.add("Mul", {squares, number(-kernel.gamma)})});
  }
  const ValueId products =
      ctx.add("MatMul", {x, ctx.add("Transpose", {vectors}, {{"perm", std::vector<int64_t>{1, 0}}})});
  if (kernel.kind == SvmKernel::Kind::linear) return products;
  const ValueId scaled = ctx.add("Add", {ctx.add("Mul", {products, number(kernel.gamma)}), number(kernel.coef0)});
  if (kernel.kind == SvmKernel::Kind::sigmoid) return ctx.add("Tanh", {scaled});
  return ctx.add("Pow", {scaled, number(kernel.degree)});
}

// Attribute post_transform has no effect on a single score.
std::vector<ValueId> expand(ExpandContext& ctx) {
  const Node& node = ctx.node;
  ValueId x = features(ctx, 0);
  const int64_t columns = ctx.builder.type(x).shape[1], supports = node.int_attr("n_supports", 0);
  const std::vector<float> coefficients = node.floats_attr("coefficients"), rho = node.floats_attr("rho");
  const std::vector<float> vectors = node.floats_attr("support_vectors");
  post_transform_of(node);
  if (supports < 0) node_error(node, fmt::format("attribute n_supports is {}, expected 0 or more", supports));
  const int64_t terms = supports > 0 ? supports : columns;
  check_count(node, supports > 0 ? "coefficients, one for each support vector" : "coefficients, one for each feature",
              static_cast<size_t>(terms), coefficients.size());
  if (supports > 0) {
    check_count(node, fmt::format("numbers in support_vectors, {} for each of {} vectors", columns, supports),
                static_cast<size_t>(checked_mul(node, supports, columns)), vectors.size());
    const ValueId matrix = ctx.builder.constant(Tensor::of<float>({supports, columns}, vectors), "support_vectors");
    x = kernel_values(ctx, svm_kernel(node), x, matrix);
  }
  const ValueId weights = ctx.builder.constant(Tensor::of<float>({terms, 1}, coefficients), "coefficients");
  ValueId y = ctx.add("MatMul", {x, weights});
  check_count(node, "numbers in attribute rho", 1, rho.size());
  y = ctx.add("Add", {y, ctx.scalar(DType::f32, static_cast<double>(rho[0]))});
  if (node.int_attr("one_class", 0) == 0) return {y};
  const ValueId inside = ctx.add("Greater", {y, ctx.scalar(DType::f32, 0)});
  return {ctx.add("Where", {inside, ctx.scalar(DType::f32, 1), ctx.scalar(DType::f32, -1)})};
}

}  // namespace

KILTER_OP(SVMRegressor){
    .name = "SVMRegressor",
    .domain = kMlDomain,
    .attrs = {{"coefficients", "floats", "required"},
              {"kernel_params", "floats", ""},
              {"kernel_type", "string", "LINEAR"},
              {"n_supports", "int", "0"},
              {"one_class", "int", "0"},
              {"post_transform", "string", "NONE"},
              {"rho", "floats", "required"},
              {"support_vectors", "floats", ""}},
    .summary =
        "y [n, 1] = the sum of coefficients times the kernel function of x [n, c] or [c] and each support vector, plus "
        "rho; without support vectors, x coefficients + rho. With one_class, 1 where y > 0, else -1.",
    .expand = expand,
    .tolerance = {.rtol = 1e-4, .atol = 1e-5},
    .cases = {"f32[3,2] | coefficients=[1,-2] rho=[0.5]",
              "f32[4,2] | coefficients=[1,-2,0.5] rho=[0.1] n_supports=3 support_vectors=[1,2,3,4,-1,-2] "
              "kernel_type=RBF kernel_params=[0.25,0,3]",
              "f64[2,2] | coefficients=[1,-2] rho=[0.1] n_supports=2 support_vectors=[1,2,3,4] kernel_type=POLY "
              "kernel_params=[0.25,1,3]",
              "i64[2] | coefficients=[1,-2] rho=[0.1] n_supports=2 support_vectors=[1,2,3,4] kernel_type=SIGMOID "
              "kernel_params=[0.01,0.5,3] one_class=1"},
};

}  // namespace kilter
