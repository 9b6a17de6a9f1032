// Frames: sequences of consecutive frames of volumes, with their channels side by side, as a convolution over depth
// reads them. The sequences are a view if the channels of a frame fill whole blocks.

#include "ops/support/iterate.h"
#include "ops/support/operands.h"
#include "ops/support/regions.h"

namespace kilter {
namespace {

struct Runs {
  int64_t volumes, first, count, stride, frames;

  explicit Runs(const Node& node)
      : volumes(node.int_attr("volumes", 1)),
        first(node.int_attr("first", 0)),
        count(node.int_attr("count", 1)),
        stride(node.int_attr("stride", 1)),
        frames(node.int_attr("frames", 1)) {}
  /// Returns the number of frames of a volume up to the last one that is read.
  int64_t end(const Node& node) const {
    return checked_add(node, checked_add(node, first, checked_mul(node, count - 1, stride)), frames);
  }
};

void infer(InferContext& ctx) {
  const Runs r(ctx.node);
  const Shape& x = ctx.shape(0);
  if (x.size() != 4) ctx.error(fmt::format("input 0 of shape {} is not an image, expected 4 dimensions", text(x)));
  if (r.volumes < 1 || r.first < 0 || r.count < 1 || r.stride < 1 || r.frames < 1) {
    ctx.error(fmt::format("volumes={} first={} count={} stride={} frames={}, expected at least 1, first at least 0",
                          r.volumes, r.first, r.count, r.stride, r.frames));
  }
  const int64_t end = r.end(ctx.node);
  if (x[0] % r.volumes != 0 || end > x[0] / r.volumes) {
    ctx.error(fmt::format("reads {} frames of each of {} volumes, but input 0 of shape {} has {} frames in all", end,
                          r.volumes, text(x), x[0]));
  }
  ctx.set(0, ctx.dtype(0),
          {checked_mul(ctx.node, r.volumes, r.count), checked_mul(ctx.node, r.frames, x[1]), x[2], x[3]});
}

/// Returns the single region of the output: [volumes, count, elements of a sequence].
CopyRegion runs(const Node& node, const Shape& x) {
  const Runs r(node);
  const int64_t frame = x[1] * x[2] * x[3];
  const int64_t stride = r.count > 1 ? r.stride * frame : 0;  // arbitrary if there is only one sequence
  return whole_region(0, {r.volumes, r.count, r.frames * frame}, {x[0] / r.volumes * frame, stride, 1},
                      r.first * frame);
}

void reference(ReferenceContext& ctx) {
  const CopyRegion all = runs(ctx.node, ctx.in(0).shape());
  copy_strided(ctx.in(0), all.in_offset, all.in_strides, ctx.out(), 0, all.out_strides, all.extent);
}

std::optional<std::vector<CopyRegion>> regions(const OpView& view, int32_t) {
  return tidy({runs(view.node, view.inputs[0].shape)});
}

}  // namespace

KILTER_OP(Frames){
    .name = "Frames",
    .domain = "kilter",
    .family = Family::movement,
    .movement = Movement::frames,
    .attrs = {{"volumes", "int", "1"},
              {"first", "int", "0"},
              {"count", "int", "required"},
              {"stride", "int", "1"},
              {"frames", "int", "1"}},
    .summary =
        "Runs of frames of volumes x [volumes * d, c, h, w]: y [volumes * count, frames * c, h, w] has, for volume v "
        "and run j, the channels of the `frames` frames from first + j * stride on; created by the pass "
        "volumes_as_images.",
    .infer = infer,
    .reference = reference,
    .regions = regions,
    .tolerance = {.rtol = 0, .atol = 0},
    .cases = {"f32[6,3,2,5] | count=4 frames=3", "f32[9,16,3,3] | first=1 count=4 stride=2 frames=2",
              "f32[10,4,3,2] | volumes=2 count=2 stride=2 frames=3", "i64[5,1,1,3] | first=4 count=1"},
};

}  // namespace kilter
