// Searchers that learn nothing: random, grid, exhaustive.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "tune/search/walk.h"

namespace kilter::tune {
namespace {

class RandomSearch : public Walk {
 public:
  RandomSearch(const SearchOptions& options, SearchSpace space)
      : Walk(options, std::move(space)), draws_(static_cast<uint64_t>(options.seed), "random search") {}

 protected:
  /// Returns the first `most` free points of a shuffle, without repetition.
  std::vector<size_t> choose(size_t most) override {
    std::vector<size_t> all;
    for (size_t i = 0; i < count(); ++i) {
      if (is_free(i)) all.push_back(i);
    }
    for (size_t i = 0; i < most; ++i) std::swap(all[i], all[i + draws_.below(all.size() - i)]);
    all.resize(most);
    return all;
  }

 private:
  Draws draws_;
};

/// Proposes points in an order fixed at the start.
class Ordered : public Walk {
 public:
  using Walk::Walk;

 protected:
  std::vector<size_t> choose(size_t most) override {
    std::vector<size_t> out;
    for (; next_ < order_.size() && out.size() < most; ++next_) {
      if (is_free(order_[next_])) out.push_back(order_[next_]);
    }
    return out;
  }
  std::vector<size_t> order_;

 private:
  size_t next_ = 0;
};

class Exhaustive : public Ordered {
 public:
  Exhaustive(const SearchOptions& options, SearchSpace space) : Ordered(options, std::move(space)) {
    order_.resize(count());
    std::iota(order_.begin(), order_.end(), size_t{0});
  }
};

/// Proposes every stride-th point, going around repeatedly. The stride is the golden section of the number of points,
/// so that the proposed points are evenly spread at any time.
class Grid : public Ordered {
 public:
  Grid(const SearchOptions& options, SearchSpace search) : Ordered(options, std::move(search)) {
    std::vector<size_t> sorted(count());
    std::iota(sorted.begin(), sorted.end(), size_t{0});
    std::sort(sorted.begin(), sorted.end(),
              [&](size_t a, size_t b) { return space().ordinal(at(a)) < space().ordinal(at(b)); });
    const size_t all = std::max<size_t>(count(), 1);
    auto stride = std::max<size_t>(static_cast<size_t>(std::round(static_cast<double>(all) * 0.6180339887)), 1);
    while (std::gcd(stride, all) != 1) ++stride;
    for (size_t i = 0; i < count(); ++i) order_.push_back(sorted[(i * stride) % all]);
  }
};

}  // namespace

std::unique_ptr<Searcher> make_random(const SearchOptions& options, SearchSpace space) {
  return std::make_unique<RandomSearch>(options, std::move(space));
}
std::unique_ptr<Searcher> make_grid(const SearchOptions& options, SearchSpace space) {
  return std::make_unique<Grid>(options, std::move(space));
}
std::unique_ptr<Searcher> make_exhaustive(const SearchOptions& options, SearchSpace space) {
  return std::make_unique<Exhaustive>(options, std::move(space));
}

}  // namespace kilter::tune
