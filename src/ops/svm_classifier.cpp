#include <algorithm>
#include <cmath>
#include <numeric>

#include "ops/support/operands.h"
#include "ops/support/svm.h"

namespace kilter {
namespace {

/// A classifier: one with support vectors, which compares every pair of classes, or one that scores each class by a
/// linear function.
struct Svm {
  LabelList labels;
  std::vector<int64_t> first;  ///< per class its first support vector, then their number; empty: a linear one
  std::vector<double> coefficients, vectors, rho, prob_a, prob_b;
  SvmKernel kernel;
  PostTransform how = PostTransform::none;

  size_t classes() const { return labels.size(); }
  size_t pairs() const { return classes() * (classes() - 1) / 2; }
  bool has_vectors() const { return !first.empty(); }
  /// Scores of a row before the transform.
  size_t scores() const { return has_vectors() && prob_a.empty() ? pairs() : classes(); }
  bool both() const { return has_vectors() && prob_a.empty() && classes() == 2; }
  size_t outputs() const { return both() ? 2 : scores(); }
};

std::vector<double> doubles(const Node& node, std::string_view key) {
  const std::vector<float> values = node.floats_attr(key);
  return {values.begin(), values.end()};
}

/// Sets Svm::first from attribute vectors_per_class.
void read_classes(const Node& node, Svm& svm) {
  constexpr int64_t kMost = int64_t{1} << 31;
  const std::vector<int64_t> counts = node.ints_attr("vectors_per_class");
  if (counts.empty()) return;
  check_count(node, "numbers in attribute vectors_per_class, one for each class label", svm.classes(), counts.size());
  svm.first = {0};
  for (const int64_t count : counts) {
    if (count < 0 || count > kMost) {
      node_error(node, fmt::format("attribute vectors_per_class has {}; legal values are 0 to {}", count, kMost));
    }
    svm.first.push_back(svm.first.back() + count);
  }
  if (svm.first.back() == 0) svm.first.clear();
}

Svm read_svm(const Node& node, int64_t columns) {
  Svm svm;
  svm.labels = label_list(node, "classlabels_ints", "classlabels_strings");
  if (svm.classes() == 0) node_error(node, "has no class labels, expected classlabels_ints or classlabels_strings");
  read_classes(node, svm);
  svm.kernel = svm_kernel(node);
  svm.how = post_transform_of(node);
  svm.coefficients = doubles(node, "coefficients"), svm.rho = doubles(node, "rho");
  svm.vectors = doubles(node, "support_vectors");
  svm.prob_a = doubles(node, "prob_a"), svm.prob_b = doubles(node, "prob_b");
  if (!svm.has_vectors()) {
    const int64_t expected = checked_mul(node, static_cast<int64_t>(svm.classes()), columns);
    check_count(node, "coefficients, one for each feature of each class", static_cast<size_t>(expected),
                svm.coefficients.size());
    if (svm.rho.empty()) node_error(node, "attribute rho is empty, expected one number");
    return svm;
  }
  if (svm.classes() < 2) node_error(node, "has 1 class label with support vectors, expected 2 or more");
  const int64_t vectors = svm.first.back(), others = static_cast<int64_t>(svm.classes()) - 1;
  check_count(node, fmt::format("coefficients, {} for each of {} support vectors", others, vectors),
              static_cast<size_t>(checked_mul(node, others, vectors)), svm.coefficients.size());
  check_count(node, fmt::format("numbers in support_vectors, {} for each of {} vectors", columns, vectors),
              static_cast<size_t>(checked_mul(node, columns, vectors)), svm.vectors.size());
  check_count(node, "numbers in attribute rho, one for each pair of classes", svm.pairs(), svm.rho.size());
  if (svm.prob_a.empty()) return svm;
  check_count(node, "numbers in attribute prob_a, one for each pair of classes", svm.pairs(), svm.prob_a.size());
  check_count(node, "numbers in attribute prob_b, one for each pair of classes", svm.pairs(), svm.prob_b.size());
  return svm;
}

size_t best(std::span<const double> values) {
  return static_cast<size_t>(std::ranges::max_element(values) - values.begin());
}

/// Returns the scores of all pairs (i, j) of classes, i < j, in order; a positive one is a vote for i.
std::vector<double> pair_scores(const Svm& svm, std::span<const double> x) {
  const auto vectors = static_cast<size_t>(svm.first.back());
  std::vector<double> kernel(vectors);
  for (size_t v = 0; v < vectors; ++v)
    kernel[v] = svm.kernel(x, std::span(svm.vectors).subspan(v * x.size(), x.size()));
  const auto sum = [&](size_t of, size_t row) {  // over the support vectors of class `of`
    double total = 0;
    for (auto v = static_cast<size_t>(svm.first[of]); v < static_cast<size_t>(svm.first[of + 1]); ++v)
      total += svm.coefficients[row * vectors + v] * kernel[v];
    return total;
  };
  std::vector<double> scores;
  for (size_t i = 0; i < svm.classes(); ++i) {
    for (size_t j = i + 1; j < svm.classes(); ++j) scores.push_back(svm.rho[scores.size()] + sum(i, j - 1) + sum(j, i));
  }
  return scores;
}

/// Returns the class with the most votes; the first of several.
size_t winner(const Svm& svm, std::span<const double> scores) {
  std::vector<double> votes(svm.classes());
  size_t pair = 0;
  for (size_t i = 0; i < svm.classes(); ++i) {
    for (size_t j = i + 1; j < svm.classes(); ++j) ++votes[scores[pair++] > 0 ? i : j];
  }
  return best(votes);
}

/// Returns the probabilities of the classes from those of pairs, by the second method of Wu, Lin and Weng,
/// "Probability estimates for multi-class classification by pairwise coupling" (2004).
std::vector<double> coupled(const std::vector<double>& pairs, size_t k) {
  std::vector<double> q(k * k), p(k, 1 / static_cast<double>(k)), qp(k);
  for (size_t t = 0; t < k; ++t) {
    for (size_t j = 0; j < k; ++j) {
      if (j == t) continue;
      q[t * k + t] += pairs[j * k + t] * pairs[j * k + t];
      q[t * k + j] = -pairs[j * k + t] * pairs[t * k + j];
    }
  }
  const double limit = 0.005 / static_cast<double>(k);
  const size_t rounds = std::max<size_t>(100, k);
  for (size_t round = 0; round < rounds; ++round) {
    double pqp = 0, most = 0;
    for (size_t t = 0; t < k; ++t) {
      qp[t] = std::inner_product(p.begin(), p.end(), q.begin() + static_cast<int64_t>(t * k), 0.0);
      pqp += p[t] * qp[t];
    }
    for (size_t t = 0; t < k; ++t) most = std::max(most, std::abs(qp[t] - pqp));
    if (most < limit) break;
    for (size_t t = 0; t < k; ++t) {
      const double step = (pqp - qp[t]) / q[t * k + t];
      p[t] += step;
      pqp = (pqp + step * (step * q[t * k + t] + 2 * qp[t])) / (1 + step) / (1 + step);
      for (size_t j = 0; j < k; ++j) {
        qp[j] = (qp[j] + step * q[t * k + j]) / (1 + step);
        p[j] /= 1 + step;
      }
    }
  }
  return p;
}

std::vector<double> probabilities(const Svm& svm, std::span<const double> scores) {
  constexpr double kLeast = 1e-7;
  const size_t k = svm.classes();
  std::vector<double> pairs(k * k);
  size_t at = 0;
  for (size_t i = 0; i < k; ++i) {
    for (size_t j = i + 1; j < k; ++j, ++at) {
      const double p = 1 - 1 / (1 + std::exp(-(scores[at] * svm.prob_a[at] + svm.prob_b[at])));
      pairs[i * k + j] = std::clamp(p, kLeast, 1 - kLeast);
      pairs[j * k + i] = 1 - pairs[i * k + j];
    }
  }
  return coupled(pairs, k);
}

/// Returns the class of a linear classifier. Of two classes, it is the second if the larger score exceeds a limit, even
/// if it is that of the first.
size_t linear_class(const Svm& svm, std::span<const double> scores) {
  const size_t most = best(scores);
  if (svm.classes() != 2) return most;
  const bool positive = std::ranges::all_of(svm.coefficients, [](double c) { return c >= 0; });
  return (positive ? scores[most] >= 0.5 : scores[most] > 0) ? 1 : most;
}

/// Replaces the score of a pair of classes by one for each class.
void both_scores(PostTransform how, std::vector<double>& scores) {
  const double s = scores[0];
  if (how == PostTransform::softmax || how == PostTransform::softmax_zero) {
    scores = {1 - s, s};
    return;
  }
  if (how != PostTransform::logistic) transform_scores(how, scores);
  scores = {-scores[0], scores[0]};
  if (how == PostTransform::logistic) transform_scores(how, scores);
}

/// Computes the class of one row and its scores.
size_t classify(const Svm& svm, std::span<const double> x, std::vector<double>& scores) {
  if (!svm.has_vectors()) {
    scores.clear();
    for (size_t i = 0; i < svm.classes(); ++i) {
      scores.push_back(std::inner_product(x.begin(), x.end(),
                                          svm.coefficients.begin() + static_cast<int64_t>(i * x.size()), svm.rho[0]));
    }
    const size_t found = linear_class(svm, scores);
    transform_scores(svm.how, scores);
    return found;
  }
  scores = pair_scores(svm, x);
  const size_t found = winner(svm, scores);
  if (!svm.prob_a.empty()) scores = probabilities(svm, scores);
  if (svm.both()) {
    both_scores(svm.how, scores);
  } else {
    transform_scores(svm.how, scores);
  }
  return found;
}

void infer(InferContext& ctx) {
  check_types(FeatureTypes{}, ctx, 0);
  const FeatureRows rows = feature_rows(ctx.node, ctx.shape(0));
  const Svm svm = read_svm(ctx.node, rows.columns);
  ctx.set(0, svm.labels.dtype(), {rows.count});
  if (ctx.outputs.size() > 1) ctx.set(1, DType::f32, {rows.count, static_cast<int64_t>(svm.outputs())});
}

void reference(ReferenceContext& ctx) {
  const FeatureRows rows = feature_rows(ctx.node, ctx.in(0).shape());
  const Svm svm = read_svm(ctx.node, rows.columns);
  const Tensor labels = svm.labels.tensor();
  const std::vector<double> x = load_doubles(ctx.in(0));
  std::vector<double> scores, all;
  for (int64_t i = 0; i < rows.count; ++i) {
    const std::span row(x.data() + i * rows.columns, static_cast<size_t>(rows.columns));
    const size_t found = classify(svm, row, scores);
    if (ctx.wants(0)) copy_element(labels, static_cast<int64_t>(found), ctx.out(0), i);
    all.insert(all.end(), scores.begin(), scores.end());
  }
  if (ctx.wants(1)) store_doubles(ctx.out(1), all);
}

int64_t flops(const OpView& view) {
  const auto vectors = static_cast<int64_t>(view.node.floats_attr("support_vectors").size());
  const auto coefficients = static_cast<int64_t>(view.node.floats_attr("coefficients").size());
  const int64_t rows = feature_rows(view.node, view.inputs[0].shape).count;
  return 2 * rows * (vectors + coefficients);
}

}  // namespace

KILTER_OP(SVMClassifier){
    .name = "SVMClassifier",
    .domain = kMlDomain,
    .min_outputs = 2,
    .max_outputs = 2,
    .attrs = {{"classlabels_ints", "ints", ""},
              {"classlabels_strings", "strings", ""},
              {"coefficients", "floats", "required"},
              {"kernel_params", "floats", ""},
              {"kernel_type", "string", "LINEAR"},
              {"post_transform", "string", "NONE"},
              {"prob_a", "floats", ""},
              {"prob_b", "floats", ""},
              {"rho", "floats", "required"},
              {"support_vectors", "floats", ""},
              {"vectors_per_class", "ints", ""}},
    .summary =
        "y [n] = the labels of x [n, c] or [c], z = the scores after post_transform: those of all pairs of classes (of "
        "both classes if there are two), or probabilities of the classes with prob_a and prob_b. Without support "
        "vectors, the scores of the classes are x coefficients^T + rho.",
    .infer = infer,
    .reference = reference,
    .flops = flops,
    .cases = {"f32[5,2] | classlabels_ints=[3,8] coefficients=[1,-2,-0.5] rho=[0.1] support_vectors=[1,2,3,4,-1,-2] "
              "vectors_per_class=[2,1] kernel_type=RBF kernel_params=[0.25,0,3]",
              "f64[2,1] | classlabels_strings=[a,b,c] coefficients=[1,-2,-0.5,1,0.25,1] rho=[0.1,0.2,-0.3] "
              "support_vectors=[1,2,-1] vectors_per_class=[1,1,1] prob_a=[-1,-2,-0.5] prob_b=[0.1,0.2,0.3]",
              "f32[3] | classlabels_ints=[3,8] coefficients=[1,-2,-0.5,1,0.25,1] rho=[0.1] post_transform=SOFTMAX",
              "i64[4,2] | classlabels_ints=[3,8] coefficients=[1,-2] rho=[0.1] support_vectors=[1,2,3,4] "
              "vectors_per_class=[1,1] kernel_type=SIGMOID kernel_params=[0.01,0,3] post_transform=LOGISTIC"},
};

}  // namespace kilter
