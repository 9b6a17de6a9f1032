// The common part of all searchers: the points that may be proposed, those used up, and the costs so far.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/random.h"
#include "tune/search/searcher.h"

namespace kilter::tune {

/// A stream of random numbers, read in sequence.
class Draws {
 public:
  Draws(uint64_t seed, std::string_view name) : random_(seed, name) {}
  /// Returns a number in [0, count); count must be at least 1.
  size_t below(size_t count) {
    return static_cast<size_t>(random_.integer(next_++, 0, static_cast<int64_t>(count) - 1));
  }
  /// Returns a number in [0, 1).
  double share() { return static_cast<double>(random_.uniform(next_++)); }

 private:
  Random random_;
  uint64_t next_ = 0;
};

/// Implements the interface of Searcher; the searchers themselves only choose points. They identify points by their
/// index in SearchSpace::points.
class Walk : public Searcher {
 public:
  Walk(const SearchOptions& options, SearchSpace space);

  std::vector<Point> propose(size_t most) final;
  void learn(std::span<const Trial> measured) final;

 protected:
  /// Chooses up to `most` free points, each once, most wanted first. Called with most >= 1 and at least one free point;
  /// must return at least one.
  virtual std::vector<size_t> choose(size_t most) = 0;
  /// Called when the cost of a point that may be proposed becomes known.
  virtual void learned(size_t /*point*/) {}

  const SearchOptions& options() const { return options_; }
  const SearchSpace& search() const { return search_; }
  const Space& space() const { return *search_.space; }
  size_t count() const { return search_.points.size(); }
  const Point& at(size_t point) const { return search_.points[point]; }
  std::optional<size_t> find(const Point& point) const;
  /// Whether the point has been neither proposed nor learned.
  bool is_free(size_t point) const { return place_[point] < free_.size(); }
  size_t free_count() const { return free_.size(); }
  /// Draws a free point uniformly. There must be one.
  size_t draw_free(Draws& draws) const { return free_[draws.below(free_.size())]; }
  bool known(size_t point) const { return costs_[point] > 0; }
  /// Cost of a known point; infinity for failures.
  double cost(size_t point) const { return costs_[point]; }
  /// Number of samples behind the cost of a known point.
  double samples(size_t point) const { return samples_[point]; }

 private:
  void take(size_t point);
  /// Stores the cost of a trial. Returns the point's previous cost; 0: unknown.
  double keep(const Trial& trial, double cost);
  void note_progress(double before, double cost);
  /// Lowest of all known costs; 0: none is finite yet.
  double least_cost() const;

  SearchOptions options_;
  SearchSpace search_;
  std::unordered_map<uint64_t, size_t> index_;  ///< by ordinal
  std::vector<size_t> free_;                    ///< in arbitrary order
  std::vector<size_t> place_;                   ///< by point: its index in free_; past the end for points used up
  std::vector<double> costs_;                   ///< 0: unknown
  std::vector<double> samples_;
  std::map<Point, double> elsewhere_;  ///< costs of points that may not be proposed
  double best_ = 0;                    ///< lowest cost known now; 0: none is finite yet
  int64_t since_gain_ = 0;             ///< number of trials since the last gain
};

std::unique_ptr<Searcher> make_random(const SearchOptions& options, SearchSpace space);
std::unique_ptr<Searcher> make_grid(const SearchOptions& options, SearchSpace space);
std::unique_ptr<Searcher> make_exhaustive(const SearchOptions& options, SearchSpace space);
std::unique_ptr<Searcher> make_genetic(const SearchOptions& options, SearchSpace space);
std::unique_ptr<Searcher> make_model(const SearchOptions& options, SearchSpace space);
std::unique_ptr<Searcher> make_annealing(const SearchOptions& options, SearchSpace space);

}  // namespace kilter::tune
