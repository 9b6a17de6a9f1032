// Translates TVM's schedules to Kilter's if there is a counterpart: conv2d_NCHWc on CPUs becomes conv2d_direct.

#include <algorithm>

#include "base/error.h"
#include "schedule/templates/conv_core.h"
#include "tune/records/tvm.h"

namespace kilter::tune {
namespace {

/// Returns the nest that conv2d_direct would use for the convolution: one long row if it treats the image as one.
ConvNest nest_of(const ConvWords& c, const CpuLimits& limits) {
  const int64_t lanes = limits.lanes_f32();
  ConvNest nest;
  nest.n = c.n;
  nest.in_block = c.groups == 1 && c.c < lanes ? 1 : lanes;
  set_channels(nest, c.c, c.k, c.groups, lanes);
  nest.kernel_h = c.r, nest.kernel_w = c.s;
  nest.dilation_h = c.dilation[0], nest.dilation_w = c.dilation[1];
  nest.step_h = c.stride[0], nest.step_w = c.stride[1];
  nest.first_h = -c.pad[0], nest.first_w = -c.pad[1];
  nest.out_h = c.out_h(), nest.out_w = c.out_w();
  return nest;
}

class ConvTranslator {
 public:
  ConvTranslator(const TvmLine& line, const ConvNest& nest, const CpuLimits& limits)
      : line_(line), nest_(nest), limits_(limits) {}

  Translation run() {
    ConvTile tile;
    tile.vectors = vectors();
    tile.tile = pixels(tile.vectors);
    without_counterpart();
    const std::vector<Knob> space = tile_space(nest_, limits_);
    Schedule schedule{"conv2d_direct",
                      {{"vectors", tile.vectors}, {"rows", tile.rows}, {"tile", tile.tile}, {"prefetch", 0}}};
    std::vector<Knob> all = space;
    all.push_back(prefetch_knob());
    auto rejected = check_knobs(schedule, all);
    if (!rejected) rejected = check_tile(nest_, tile, limits_);
    if (rejected) {
      note("not translated: {}", rejected->text());
      return {std::nullopt, std::move(notes_)};
    }
    return {schedule, std::move(notes_)};
  }

 private:
  template <class... Args>
  void note(fmt::format_string<Args...> format, Args&&... args) {
    notes_.push_back(fmt::format(format, std::forward<Args>(args)...));
  }

  /// Number of vectors of output channels: the largest number, up to tile_oc, that divides the number of blocks and
  /// leaves registers for a pixel.
  int64_t vectors() {
    const int64_t lanes = limits_.lanes_f32();
    const int64_t channels = line_.last_of("tile_oc");
    const int64_t wanted = std::max<int64_t>(channels / lanes, 1);
    if (channels < lanes)
      note("tile_oc={} is less than one vector ({} channels): using vectors=1", channels, lanes);
    else if (channels % lanes != 0)
      note("tile_oc={} is not a multiple of a vector ({} channels): using vectors={}", channels, lanes, wanted);
    int64_t v = std::min<int64_t>(wanted, nest_.out_blocks);
    while (v > 1 && (nest_.out_blocks % v != 0 || register_rows(v, limits_) < 1)) --v;
    if (v != wanted) {
      note("tile_oc={} would be {} vectors; with {} blocks of channels and {} registers, vectors={} is used", channels,
           wanted, nest_.out_blocks, limits_.vector_registers, v);
    }
    return v;
  }

  /// Number of pixels of one row that are kept in registers.
  int64_t pixels(int64_t vectors) {
    const int64_t width = std::max<int64_t>(line_.last_of("tile_ow"), 1);
    const int64_t rows = std::max<int64_t>(line_.last_of("tile_oh"), 1);
    const int64_t wanted = width * rows;
    if (rows > 1) {
      note(
          "tile_oh={} with tile_ow={}: a tile here has several rows only if it spans whole rows; using tile={}, the "
          "same number of pixels in one row",
          rows, width, wanted);
    }
    const int64_t most = std::min(register_rows(vectors, limits_), nest_.out_w);
    if (wanted > most)
      note("{} pixels with {} vectors each do not fit: with {} registers and rows of {} pixels, tile={} is used",
           wanted, vectors, limits_.vector_registers, nest_.out_w, most);
    return std::max<int64_t>(std::min(wanted, most), 1);
  }

  void without_counterpart() {
    note("tile_ic={} has no counterpart: the layout determines the input's block, {}", line_.last_of("tile_ic"),
         nest_.in_block == 1 ? "plain" : std::to_string(nest_.in_block));
    for (const auto& [name, value] : line_.knobs) {
      if (name == "unroll_kw")
        note(
            "unroll_kw={} has no counterpart: taps are unrolled if the input is plain; otherwise channels are unrolled "
            "by {}",
            value, kReductionUnroll);
    }
    note("prefetch=0: TVM's kernels do not prefetch");
  }

  const TvmLine& line_;
  const ConvNest& nest_;
  const CpuLimits& limits_;
  std::vector<std::string> notes_;
};

}  // namespace

Translation translate(const TvmLine& line, std::string_view problem, const Target& target) {
  const auto kept = [](std::string why) { return Translation{std::nullopt, {std::move(why)}}; };
  if (!line.cpu())
    return kept(fmt::format("not translated: {} is not a CPU; kept as a record of another device", line.target));
  const bool blocked = line.task.find("conv2d_NCHWc") != std::string::npos;
  const bool dense = blocked && line.task.find("depthwise") == std::string::npos &&
                     line.task.find("int8") == std::string::npos && line.algorithm == "direct";
  if (!dense)
    return kept(
        fmt::format("not translated: {} ({}) has no counterpart; only conv2d_NCHWc (direct) has one, conv2d_direct",
                    line.task, line.algorithm));
  const std::optional<ConvWords> conv = conv_words(problem);
  if (!conv || !problem.ends_with(" f32")) return kept("not translated: conv2d_direct supports only f32");
  const ConvNest nest = nest_of(*conv, target.limits);
  return ConvTranslator(line, nest, target.limits).run();
}

}  // namespace kilter::tune
