// One block of tiles of a Winograd convolution as loop IR, from which conv2d_winograd builds its kernels. v and q are
// the intermediate values described in conv2d_winograd.cpp.
#pragma once

#include <functional>
#include <vector>

#include "base/align.h"
#include "schedule/emit.h"
#include "schedule/model/register_tile.h"
#include "schedule/templates/winograd_core.h"

namespace kilter {

struct WinogradConv {
  int64_t n = 1, in_channels = 0, out_channels = 0;
  int64_t in_blocks = 0, out_blocks = 0;
  int64_t kernel_h = 3, kernel_w = 3;
  int64_t out_h = 0, out_w = 0, pad_h = 0, pad_w = 0;
  int64_t last_row = 0, last_column = 0;  ///< of the padded input
  Multiplicands direct;                   ///< operands of the direct convolution that could replace this one

  bool known(int64_t m) const { return find_winograd(m, kernel_h) != nullptr && find_winograd(m, kernel_w) != nullptr; }
  /// The transforms of the vertical and the horizontal dimension. known(m) must be true.
  const WinogradTransform& down(int64_t m) const { return *find_winograd(m, kernel_h); }
  const WinogradTransform& across(int64_t m) const { return *find_winograd(m, kernel_w); }
  int64_t tiles_w(int64_t m) const { return ceil_div(out_w, across(m).outputs); }
  int64_t tiles(int64_t m) const { return ceil_div(out_h, down(m).outputs) * tiles_w(m); }
  int64_t places(int64_t m) const { return down(m).inputs() * across(m).inputs(); }
};

/// The grouping of an image's tiles.
struct WinogradTiling {
  int64_t m = 4, vectors = 2, tile = 14, count = 1, split = 0;
  int64_t prefetch = 0;  ///< see prefetch_knob()

  int64_t block() const { return tile * count; }  ///< tiles
  int64_t blocks(const WinogradConv& c) const { return ceil_div(c.tiles(m), block()); }
  /// Elements from one place to the next: an odd number of vectors, so that places spread over the sets of the cache.
  int64_t v_place(const WinogradConv& c, int64_t lanes) const { return (c.in_blocks * block() | 1) * lanes; }
  int64_t q_place(int64_t lanes) const { return (block() * vectors | 1) * lanes; }
  int64_t v_elems(const WinogradConv& c, int64_t lanes) const { return c.places(m) * v_place(c, lanes); }
};

/// Emits the stages of work on one block of tiles of image `n`.
class WinogradBlock {
 public:
  WinogradBlock(Emitter& e, const WinogradConv& c, const WinogradTiling& p, const CpuLimits& limits, Expr n,
                Expr block);

  /// Computes the v of input block `icb`, at `base` of `v`.
  void transform_inputs(const Buf& v, const Expr& base, const Expr& icb, const Buf& temp);
  /// Computes the q of channel group `group` from v at `base`.
  void multiply(const Buf& v, const Expr& base, const Expr& group, const Buf& weights, const Buf& q);
  /// Computes the group's outputs from q. Tiles with intermediate values that are too large are recomputed from the
  /// input.
  void finish_outputs(const Expr& group, const Buf& weights, const Buf& q, const Buf& bias, const Buf& temp);

 private:
  using Load = std::function<Expr(int64_t i, int64_t j)>;
  /// A vector of channels of an output tile: first row and column, place in q, block of channels.
  struct Tile {
    Expr row, column, from, block;
  };

  static size_t at(int64_t i) { return static_cast<size_t>(i); }
  /// Elements of the weights for one place.
  int64_t panel() const { return c_.in_blocks * lanes_ * p_.vectors * lanes_; }
  /// The first element of a place in q.
  Expr place(int64_t i, int64_t j) const { return {(i * across_.inputs() + j) * p_.q_place(lanes_)}; }
  /// The place of a filter tap in `temp`. Its rows are as far apart as those of the transformed filter.
  Expr tap(const Expr& r, const Expr& s) const { return (r * Expr(across_.inputs()) + s) * Expr(lanes_); }

  std::pair<Expr, Expr> corner(const Expr& tile);
  std::vector<Expr> column_of(int64_t count, const std::function<Expr(int64_t)>& load);
  void input_rows(const Load& load, const Buf& temp,
                  const std::function<void(int64_t, const std::vector<Expr>&)>& row_done);
  std::function<std::vector<Expr>(int64_t)> output_rows(const Load& load, const Buf& temp, Expr& squares);
  Expr bounded(const Expr& squares);
  void compute_directly(const Tile& tile, const Buf& weights, const Expr& u, const Buf& q, const Buf& bias,
                        const Buf& temp);
  void recover_filter(const Buf& weights, const Expr& u, const Buf& temp);
  void recover(const WinogradTransform& t, const std::function<Expr(int64_t)>& load,
               const std::function<void(int64_t, const Expr&)>& done);
  void guard(const Expr& place, int64_t extent, int64_t size, int64_t i, const std::function<void()>& body);
  void finish_output(const Tile& tile, const Expr& row, const Expr& column, const Expr& y, const Buf& bias);
  void register_tile(const Buf& v, const Expr& from, const Buf& weights, const Expr& u, const Buf& q, const Expr& to);
  void step(const Buf& v, const Expr& x, const Buf& weights, const Expr& w, const std::vector<int32_t>& acc);

  Emitter& e_;
  LoopBuilder& b_;
  const WinogradConv& c_;
  const WinogradTiling& p_;
  const WinogradTransform &down_, &across_;
  int32_t lanes_, line_bytes_;
  Expr n_, first_;
};

}  // namespace kilter
