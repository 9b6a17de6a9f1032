#include "tune/cost/xgboost_model.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "base/error.h"
#include "base/text.h"

namespace kilter::tune {
namespace {

using Functions = XgboostFunctions;

/// For ranking, all rows of a group are paired with up to this many rows rated best.
constexpr uint32_t kMostPairs = 256;

/// NumPy's array interface for memory that outlives the call.
template <class T>
std::string array(const T* data, const std::vector<size_t>& shape, std::string_view type) {
  std::string dims;
  for (const size_t d : shape) dims += (dims.empty() ? "" : ",") + std::to_string(d);
  return fmt::format(R"({{"data":[{},true],"shape":[{}],"typestr":"{}","version":3}})",
                     reinterpret_cast<uintptr_t>(data), dims, type);
}

class DenseMatrix {
 public:
  DenseMatrix(const XgboostLibrary& library, const Matrix& rows, int threads) : library_(library) {
    const std::string data = array(rows.values.data(), {rows.rows(), rows.columns()}, "<f4");
    const std::string config = fmt::format(R"({{"missing":NaN,"nthread":{}}})", threads);
    library.check(library.functions().matrix_from_dense(data.c_str(), config.c_str(), &handle_), "creating a matrix");
  }
  ~DenseMatrix() { (void)library_.functions().matrix_free(handle_); }
  DenseMatrix(const DenseMatrix&) = delete;
  DenseMatrix& operator=(const DenseMatrix&) = delete;

  void set(const char* field, const std::vector<float>& values) {
    set(field, array(values.data(), {values.size()}, "<f4"));
  }
  void set(const char* field, const std::vector<uint32_t>& values) {
    set(field, array(values.data(), {values.size()}, "<u4"));
  }
  Functions::Handle handle() const { return handle_; }

 private:
  void set(const char* field, const std::string& data) {
    library_.check(library_.functions().matrix_set_info(handle_, field, data.c_str()), field);
  }

  const XgboostLibrary& library_;
  Functions::Handle handle_ = nullptr;
};

std::vector<std::pair<std::string, std::string>> parameters(Objective objective, const BoostOptions& options) {
  return {{"objective", objective == Objective::cost ? "reg:squarederror" : "rank:pairwise"},
          {"booster", "gbtree"},
          {"tree_method", "hist"},
          {"verbosity", "0"},
          {"max_depth", std::to_string(options.depth)},
          {"eta", format_float(options.rate)},
          {"min_child_weight", format_float(options.min_child_weight)},
          {"lambda", format_float(options.l2)},
          {"max_bin", std::to_string(options.bins)},
          {"nthread", std::to_string(options.threads)},
          {"seed", std::to_string(options.seed % (1U << 31U))}};
}

/// Rows sorted by group, as XGBoost requires for ranking.
struct Grouped {
  TrainingSet set;
  std::vector<uint32_t> sizes;
};

Grouped by_group(const TrainingSet& set) {
  std::vector<size_t> order(set.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return set.groups[a] < set.groups[b]; });
  Grouped out{set.take(order), {}};
  for (size_t i = 0; i < set.size(); ++i) {
    if (i == 0 || out.set.groups[i] != out.set.groups[i - 1]) out.sizes.push_back(0);
    ++out.sizes.back();
  }
  return out;
}

/// Returns, for each row, the number of distinct worse costs in its group; it is highest for the best row.
std::vector<float> relevances(const Grouped& grouped) {
  std::vector<float> out;
  size_t begin = 0;
  for (const uint32_t size : grouped.sizes) {
    const auto from = grouped.set.costs.begin() + static_cast<long>(begin);
    std::vector<double> different(from, from + size);
    std::sort(different.begin(), different.end(), std::greater<>());
    different.erase(std::unique(different.begin(), different.end()), different.end());
    for (size_t i = begin; i < begin + size; ++i) {
      const auto at = std::lower_bound(different.begin(), different.end(), grouped.set.costs[i], std::greater<>());
      out.push_back(static_cast<float>(at - different.begin()));
    }
    begin += size;
  }
  return out;
}

std::vector<float> group_weights(const Grouped& grouped) {
  std::vector<float> out;
  size_t begin = 0;
  for (const uint32_t size : grouped.sizes) {
    const auto from = grouped.set.weights.begin() + static_cast<long>(begin);
    out.push_back(static_cast<float>(std::accumulate(from, from + size, 0.0) / size));
    begin += size;
  }
  return out;
}

std::vector<float> floats(const std::vector<double>& values, float sign = 1) {
  std::vector<float> out;
  for (const double v : values) out.push_back(sign * static_cast<float>(v));
  return out;
}

}  // namespace

XgboostModel::XgboostModel(std::shared_ptr<const XgboostLibrary> library, Objective objective, BoostOptions options)
    : library_(std::move(library)), objective_(objective), options_(options) {}

void XgboostModel::fit(const TrainingSet& given) {
  check_boost_options(options_);
  check_training_set(given);
  check_start(options_.start, objective_);
  const bool rank = objective_ == Objective::rank;
  const Grouped grouped = rank ? by_group(given) : Grouped{given, {}};
  const TrainingSet& set = grouped.set;
  const Functions& f = library_->functions();
  DenseMatrix matrix(*library_, set.rows, options_.threads);
  matrix.set("label", rank ? relevances(grouped) : floats(finite_costs(set)));
  if (rank) matrix.set("group", grouped.sizes);
  if (!set.weights.empty()) matrix.set("weight", rank ? group_weights(grouped) : floats(set.weights));
  auto names = parameters(objective_, options_);
  // By default, XGBoost pairs rows only with the 32 that it rates best. A row below these whose cost equals theirs
  // would then never move.
  if (rank) {
    const uint32_t largest = *std::max_element(grouped.sizes.begin(), grouped.sizes.end());
    names.emplace_back("lambdarank_pair_method", "topk");
    names.emplace_back("lambdarank_num_pair_per_sample", std::to_string(std::min(largest, kMostPairs)));
  }
  if (options_.start != nullptr) {
    matrix.set("base_margin", floats(options_.start->predict(set.rows), rank ? -1.0F : 1.0F));
    names.emplace_back("base_score", "0");
  }
  Functions::Handle handle = nullptr;
  const Functions::Handle matrices[] = {matrix.handle()};
  library_->check(f.booster_create(matrices, 1, &handle), "creating a booster");
  booster_ =
      std::shared_ptr<void>(handle, [library = library_](void* b) { (void)library->functions().booster_free(b); });
  for (const auto& [name, value] : names)
    library_->check(f.booster_set(handle, name.c_str(), value.c_str()), name.c_str());
  for (int i = 0; i < options_.trees; ++i) library_->check(f.booster_update(handle, i, matrix.handle()), "training");
  uint64_t size = 0;
  const char* bytes = nullptr;
  library_->check(f.booster_save(handle, R"({"format":"json"})", &size, &bytes), "saving the model");
  TreeModel::Parts parts = from_xgboost_json({bytes, size}, set.rows.features, objective_, "XGBoost").parts();
  parts.notes = {{"trainer", "xgboost " + library_->version()}, {"rows", std::to_string(set.size())}};
  TreeModel model(std::move(parts));
  model_ = options_.start == nullptr ? std::move(model) : join_models(*options_.start, model);
}

const TreeModel& XgboostModel::trees() const {
  require(model_.has_value(), "a cost model was used before it was trained");
  return *model_;
}

std::vector<double> XgboostModel::predict_by_library(const Matrix& rows) const {
  require(booster_ != nullptr, "a cost model was used before it was trained");
  const bool rank = objective_ == Objective::rank;
  DenseMatrix matrix(*library_, rows, options_.threads);
  if (options_.start != nullptr) matrix.set("base_margin", floats(options_.start->predict(rows), rank ? -1.0F : 1.0F));
  const uint64_t* shape = nullptr;
  uint64_t dims = 0;
  const float* result = nullptr;
  constexpr const char* kConfig =
      R"({"type":1,"training":false,"iteration_begin":0,"iteration_end":0,"strict_shape":false})";
  library_->check(
      library_->functions().booster_predict(booster_.get(), matrix.handle(), kConfig, &shape, &dims, &result),
      "predicting");
  require(dims >= 1 && shape[0] == rows.rows(), "XGBoost returned {} dimensions for {} rows", dims, rows.rows());
  std::vector<double> out;
  for (size_t i = 0; i < rows.rows(); ++i) out.push_back(rank ? -result[i] : result[i]);
  return out;
}

}  // namespace kilter::tune
