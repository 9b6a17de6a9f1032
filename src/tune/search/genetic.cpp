// The genetic searcher: generations of points. The fittest are kept, and children are created from them by crossover of
// knobs and by mutation.
#include <algorithm>
#include <set>

#include "tune/search/walk.h"

namespace kilter::tune {
namespace {

class Genetic : public Walk {
 public:
  Genetic(const SearchOptions& options, SearchSpace space)
      : Walk(options, std::move(space)), draws_(static_cast<uint64_t>(options.seed), "genetic search") {
    for (const Trial& t : search().known) {
      if (const auto i = find(t.point)) generation_.push_back(*i);
    }
  }

 protected:
  std::vector<size_t> choose(size_t most) override {
    if (next_ == queue_.size()) breed();
    std::vector<size_t> out;
    while (next_ < queue_.size() && out.size() < most) {
      const size_t i = queue_[next_++];
      if (is_free(i)) out.push_back(i);
    }
    if (out.empty()) out.push_back(draw_free(draws_));  // all points of the queue were learned by other means
    return out;
  }

  void learned(size_t point) override { generation_.push_back(point); }

 private:
  /// Selects the fittest of the last generation and of the previous elite.
  void select() {
    std::set<size_t> all(elite_.begin(), elite_.end());
    all.insert(generation_.begin(), generation_.end());
    elite_.assign(all.begin(), all.end());
    std::stable_sort(elite_.begin(), elite_.end(), [&](size_t a, size_t b) { return cost(a) < cost(b); });
    const auto keep = static_cast<size_t>(static_cast<double>(options().population) * options().elite);
    if (elite_.size() > std::max<size_t>(keep, 2)) elite_.resize(std::max<size_t>(keep, 2));
    generation_.clear();
  }

  void breed() {
    select();
    const size_t wanted = std::min(static_cast<size_t>(options().population), free_count());
    std::set<size_t> made;
    queue_.clear(), next_ = 0;
    const auto add = [&](size_t i) {
      if (is_free(i) && made.insert(i).second) queue_.push_back(i);
    };
    // Once the neighbourhood of the fittest is used up, new children are hard to find, so random points fill the
    // generation.
    const size_t tries = elite_.empty() ? 0 : 20 * wanted;
    for (size_t t = 0; t < tries && queue_.size() < wanted; ++t) {
      if (const auto i = find(child())) add(*i);
    }
    for (size_t t = 0; t < 20 * wanted && queue_.size() < wanted; ++t) add(draw_free(draws_));
    if (queue_.empty()) add(draw_free(draws_));
  }

  size_t parent() {
    size_t best = draws_.below(elite_.size());
    for (int64_t i = 1; i < options().tournament; ++i) best = std::min(best, draws_.below(elite_.size()));
    return elite_[best];
  }

  Point child() {
    Point out = at(parent());
    if (draws_.share() < options().crossover) {
      const Point& other = at(parent());
      for (size_t k = 0; k < kMostKnobs && other.part == out.part; ++k) {
        if (draws_.share() < 0.5) out.at[k] = other.at[k];
      }
    }
    if (space().parts().size() > 1 && draws_.share() < options().mutation / 4) out = at(draws_.below(count()));
    const std::vector<Knob>& knobs = space().parts()[out.part].knobs;
    for (size_t k = 0; k < knobs.size(); ++k) {
      if (draws_.share() < options().mutation) out.at[k] = static_cast<uint16_t>(draws_.below(knobs[k].values.size()));
    }
    return out;
  }

  Draws draws_;
  std::vector<size_t> elite_;       ///< fittest first
  std::vector<size_t> generation_;  ///< measured since the last selection
  std::vector<size_t> queue_;       ///< the generation being proposed
  size_t next_ = 0;
};

}  // namespace

std::unique_ptr<Searcher> make_genetic(const SearchOptions& options, SearchSpace space) {
  return std::make_unique<Genetic>(options, std::move(space));
}

}  // namespace kilter::tune
