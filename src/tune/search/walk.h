// What all searchers share: the points that may be proposed, which of them are gone, what trials cost so far.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/random.h"
#include "tune/search/searcher.h"

namespace kilter::tune {

/// A stream of random numbers that is read one after another.
class Draws {
 public:
  Draws(uint64_t seed, std::string_view name) : random_(seed, name) {}
  /// In [0, count); count is at least 1.
  size_t below(size_t count) {
    return static_cast<size_t>(random_.integer(next_++, 0, static_cast<int64_t>(count) - 1));
  }
  /// In [0, 1).
  double share() { return static_cast<double>(random_.uniform(next_++)); }

 private:
  Random random_;
  uint64_t next_ = 0;
};

/// Keeps the promises of Searcher, so that searchers only choose. They speak of points by their place in
/// SearchSpace::points.
class Walk : public Searcher {
 public:
  Walk(const SearchOptions& options, SearchSpace space);

  std::vector<Point> propose(size_t most) final;
  void learn(std::span<const Trial> measured) final;

 protected:
  /// Up to `most` free points, each once, most wanted first. Called with most >= 1 and at least one free point; answers
  /// at least one.
  virtual std::vector<size_t> choose(size_t most) = 0;
  /// A cost became known: of a point that may be proposed.
  virtual void learned(size_t /*point*/) {}

  const SearchOptions& options() const { return options_; }
  const SearchSpace& search() const { return search_; }
  const Space& space() const { return *search_.space; }
  size_t count() const { return search_.points.size(); }
  const Point& at(size_t point) const { return search_.points[point]; }
  std::optional<size_t> find(const Point& point) const;
  /// Neither proposed nor known.
  bool is_free(size_t point) const { return place_[point] < free_.size(); }
  size_t free_count() const { return free_.size(); }
  /// A free point, all with the same probability. There has to be one.
  size_t draw_free(Draws& draws) const { return free_[draws.below(free_.size())]; }
  bool known(size_t point) const { return costs_[point] > 0; }
  /// Of a known point; infinity for failures.
  double cost(size_t point) const { return costs_[point]; }
  /// That the cost of a known point is of.
  double samples(size_t point) const { return samples_[point]; }

 private:
  void take(size_t point);
  /// Keeps the cost of a trial. Answers what was known of the point before; 0: nothing.
  double keep(const Trial& trial, double cost);
  void note_progress(double before, double cost);
  /// Of all that is known; 0: nothing finite yet.
  double least_cost() const;

  SearchOptions options_;
  SearchSpace search_;
  std::unordered_map<uint64_t, size_t> index_;  ///< by ordinal
  std::vector<size_t> free_;                    ///< in no order
  std::vector<size_t> place_;                   ///< by point: its place in free_; beyond it for those that are gone
  std::vector<double> costs_;                   ///< 0: not known
  std::vector<double> samples_;
  std::map<Point, double> elsewhere_;  ///< costs of points that may not be proposed
  double best_ = 0;                    ///< least of the costs as they are known now; 0: nothing finite yet
  int64_t since_gain_ = 0;             ///< trials
};

std::unique_ptr<Searcher> make_random(const SearchOptions& options, SearchSpace space);
std::unique_ptr<Searcher> make_grid(const SearchOptions& options, SearchSpace space);
std::unique_ptr<Searcher> make_exhaustive(const SearchOptions& options, SearchSpace space);
std::unique_ptr<Searcher> make_genetic(const SearchOptions& options, SearchSpace space);
std::unique_ptr<Searcher> make_model(const SearchOptions& options, SearchSpace space);
std::unique_ptr<Searcher> make_annealing(const SearchOptions& options, SearchSpace space);

}  // namespace kilter::tune
