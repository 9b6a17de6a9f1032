// GroupNormalization, and InstanceNormalization of blocked images: mean and variance over the pixels of each group of
// channels, then scale, shift and epilogue. Moments are computed for each chunk, which stays in L1 (first the mean,
// then the squared differences from it), and then combined. This is as accurate as two passes over everything but reads
// memory once.
//
//   plain            one stage, one work item per group: its elements are contiguous
//   blocked          1. moments of each channel, one vector per block of channels, one item per block and part of the
//                       rows; 2. moments of the groups in the block, then the outputs
//   blocked, joint   both in one stage, one item per unit of blocks that whole groups fill
//
// For volumes stored with one image per frame (FrameNormalization), sums cover all frames of a volume.

#include <algorithm>
#include <numeric>

#include "base/align.h"
#include "schedule/emit.h"
#include "schedule/model/register_tile.h"
#include "schedule/templates/rows.h"
#include "schedule/templates/templates.h"

namespace kilter {
namespace {

constexpr int64_t kChunk = 4096;     // elements per chunk: 16 KiB
constexpr int64_t kFewItems = 16;    // work items per stage: fewer leave threads idle
constexpr int64_t kSumUnroll = 8;    // independent sums, which hide the latency of an addition
constexpr int64_t kApplyUnroll = 4;  // vectors of outputs

struct Grouped {
  int64_t n = 1, channels = 1, groups = 1;
  int64_t frames = 1;  ///< consecutive images, of the n, that are normalised together
  int64_t each = 1;    ///< channels per group
  int64_t height = 1, width = 1;
  bool blocked = false;
  bool per_group = false;  ///< one scale and bias per group instead of per channel
  int64_t blocks = 1;      ///< of channels
  int64_t unit = 1;        ///< blocks that whole groups fill

  int64_t pixels() const { return height * width; }
  int64_t volumes() const { return n / frames; }
  int64_t units() const { return ceil_div(blocks, unit); }
};

/// The way in which the work on a blocked image is split.
struct Split {
  int64_t joint = 0, parts = 1;
  int64_t rows(const Grouped& s) const { return ceil_div(s.height, parts); }
};

/// Whether the epilogue's operand can be read by channel and position in the image.
bool by_place(const TensorType& type, const Physical& phys, const Shape& domain) {
  if (elems(type.shape) == 1) return true;
  const Shape dense = dense_strides(domain);
  const size_t skip = domain.size() - type.shape.size();
  bool all = true, none = true;
  for (size_t d = std::max<size_t>(2, skip); d < domain.size(); ++d) {
    if (domain[d] == 1) continue;
    const bool spread = type.shape[d - skip] == 1;
    none &= spread;
    all &= !spread && phys.strides[d - skip] == dense[d];
  }
  return none || (all && skip <= 2);
}

std::optional<Rejected> check_operands(const Task& task, const Grouped& s) {
  const Node& node = task.node();
  const int64_t parameters = s.per_group ? s.groups : s.channels;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const Operand& o = task.operand(node.inputs[i]);
    if (o.type.dtype != DType::f32) return Rejected{"element type", "f32", std::string(name(o.type.dtype))};
    if (i > 0 && elems(o.type.shape) != parameters)
      return Rejected{"elements of scale and bias", std::to_string(parameters), std::to_string(elems(o.type.shape))};
    if (i > 0 && !is_dense(o.type.shape, o.phys.strides)) return Rejected{"scale and bias", "dense", "strided"};
  }
  if (s.blocked) return std::nullopt;
  const Shape& shape = task.operand(node.inputs[0]).type.shape;
  for (const auto* list : {&task.inputs, &task.outputs}) {
    for (const Operand& o : *list) {
      const bool parameter = std::find(node.inputs.begin() + 1, node.inputs.end(), o.value) != node.inputs.end();
      if (!parameter && !by_place(o.type, o.phys, shape))
        return Rejected{"operands with adjacent pixels", text(shape), text(o.type)};
    }
  }
  if (const Operand& x = task.operand(node.inputs[0]); s.each > 1 && x.phys.strides[1] != s.pixels())
    return Rejected{"groups contiguous in memory", std::to_string(s.pixels()), std::to_string(x.phys.strides[1])};
  return std::nullopt;
}

Result<Grouped> analyse(const Task& task, const CpuLimits& limits) {
  const Node& node = task.node();
  const Statistics statistics = node.op->statistics;
  const bool instance = statistics == Statistics::channel, of_frames = statistics == Statistics::volume_group;
  if (!over_pixels(statistics))
    return not_for("operator", "GroupNormalization, InstanceNormalization, FrameNormalization", node.op->name);
  const Operand& x = task.operand(node.inputs[0]);
  const TensorType& y = task.graph->type(node.outputs[0]);
  const Shape& shape = x.type.shape;
  const int32_t lanes = lanes_of(limits);
  if (shape.size() < 3 || elems(shape) == 0) return Rejected{"input", "[n, channels, ...], not empty", text(x.type)};
  Grouped s;
  s.blocked = x.type.layout.block > 1;
  if (y.layout.block != x.type.layout.block || (s.blocked && (x.type.layout.block != lanes || shape.size() != 4)))
    return Rejected{"blocks of the layouts", fmt::format("1 or {}, in and out", lanes),
                    fmt::format("{} in, {} out", x.type.layout.block, y.layout.block)};
  s.n = shape[0], s.channels = shape[1];
  s.groups = instance ? s.channels : node.int_attr("num_groups", 1);
  s.each = s.channels / s.groups;
  if (of_frames) s.frames = s.n / node.int_attr("volumes", 1);
  s.per_group = !instance && !of_frames && node.opset < 21;
  s.width = shape.back();
  s.height = elems(shape) / (s.n * s.channels * s.width);
  if (s.blocked) s.blocks = ceil_div(s.channels, lanes), s.unit = std::lcm<int64_t>(s.each, lanes) / lanes;
  if (!task.prologue.empty()) return Rejected{"prologue", "none", std::to_string(task.prologue.size()) + " nodes"};
  if (auto rejected = check_elementwise(task)) return *rejected;
  if (auto rejected = check_operands(task, s)) return *rejected;
  return s;
}

/// Cycles: the input is read twice and the output written once. The rate of the second read depends on the bytes read
/// since the first: those of one item if `joint` is set, otherwise the whole input.
double cycles(const Grouped& s, const Split& p, const CpuLimits& limits) {
  const int64_t elems = s.n * s.pixels() * (s.blocked ? s.blocks * limits.lanes_f32() : s.channels);
  const int64_t items = s.n * (s.blocked ? s.units() : s.groups);
  const auto bytes = static_cast<double>(elems * 4);
  const double again = reread_rate(p.joint != 0 ? elems * 4 / items : elems * 4, limits);
  return bytes * 2 / reread_rate(elems * 4, limits) + bytes / again;
}

/// Mean and sum of squared differences from it, combined chunk by chunk: either vectors with separate moments in every
/// lane, or scalars.
class Moments {
 public:
  Moments(LoopBuilder& b, int32_t lanes) : b_(b), lanes_(lanes) {
    count_ = b.reg("count", imm(DType::f32, 0));
    mean_ = b.reg("mean", imm(DType::f32, 0, lanes));
    squares_ = b.reg("squares", imm(DType::f32, 0, lanes));
  }

  /// Adds a chunk of `count` elements (f32) per lane.
  void join(const Expr& count, const Expr& mean, const Expr& squares) {
    const Expr total = b_.let("total", b_.get(count_) + count);
    const Expr share = b_.let("share", count / total);
    const Expr apart = b_.let("apart", mean - b_.get(mean_));
    b_.set(squares_, b_.get(squares_) + squares + apart * apart * wide(b_.get(count_) * share));
    b_.set(mean_, b_.get(mean_) + apart * wide(share));
    b_.set(count_, total);
  }

  Expr mean() const { return b_.get(mean_); }
  Expr squares() const { return b_.get(squares_); }

 private:
  Expr wide(const Expr& e) const { return lanes_ == 1 ? e : broadcast(e, lanes_); }

  LoopBuilder& b_;
  int32_t lanes_;
  int32_t count_, mean_, squares_;
};

std::vector<int32_t> zeros(LoopBuilder& b, int64_t count, int32_t lanes) {
  std::vector<int32_t> regs;
  for (int64_t i = 0; i < count; ++i) regs.push_back(b.reg("sum", imm(DType::f32, 0, lanes)));
  return regs;
}

void add_to(LoopBuilder& b, int32_t reg, const Expr& value) { b.set(reg, b.get(reg) + value); }

Expr sum_of(LoopBuilder& b, const std::vector<int32_t>& regs) {
  Expr sum = b.get(regs[0]);
  for (size_t i = 1; i < regs.size(); ++i) sum = sum + b.get(regs[i]);
  return b.let("sum", sum);
}

/// Sum of term(position, mask) over `extent` contiguous elements; terms count as 0 where the mask is off.
Expr sum_along(LoopBuilder& b, int64_t extent, int32_t lanes, int64_t unroll,
               const std::function<Expr(const Expr&, const Expr&)>& term) {
  const std::vector<int32_t> sums = zeros(b, unroll, lanes);
  for_vectors(b, extent, lanes, unroll, [&](const Expr& at, const Expr& mask, int64_t u) {
    Expr t = term(at, mask);
    if (mask.defined()) t = select(mask, t, imm(DType::f32, 0, lanes));
    add_to(b, sums[static_cast<size_t>(u)], t);
  });
  return b.let("all", lane_reduce(Op::add, sum_of(b, sums)));
}

/// The common part of the plain and the blocked form: operands and constants of the node.
class Kernel {
 public:
  Kernel(Emitter& e, const Grouped& s, int32_t lanes) : e_(e), b_(e.b), s_(s), lanes_(lanes), node_(e.task().node()) {}

 protected:
  const Operand& x() const { return e_.task().operand(node_.inputs[0]); }
  /// 1 / deviation, from the sum of squared differences of `count` elements.
  Expr inverse(const Expr& squares, int64_t count) const {
    const int32_t lanes = squares.lanes();
    const Expr variance = squares * imm(DType::f32, 1.0 / static_cast<double>(count), lanes);
    const Expr root = unary(Op::sqrt, variance + imm(DType::f32, node_.float_attr("epsilon", 1e-5F), lanes));
    return b_.let("inv", imm(DType::f32, 1, lanes) / root);
  }

  Emitter& e_;
  LoopBuilder& b_;
  const Grouped& s_;
  int32_t lanes_;
  const Node& node_;
};

class PlainKernel : Kernel {
 public:
  using Kernel::Kernel;

  void group(const Expr& volume, const Expr& g) {
    const Buf from = e_.input(node_.inputs[0]);
    const Domain domain = domain_of(x().type);
    Site site;
    site.index.assign(domain.rank(), Expr(0));
    site.index[1] = g * Expr(s_.each);
    const int64_t extent = s_.each * s_.pixels(), chunk = std::min(extent, kChunk);
    Moments all(b_, 1);
    over_frames(volume, [&](const Expr& n) {
      site.index[0] = n;
      const Expr base = b_.let("base", e_.index(x(), domain, site));
      b_.loop("k", 0, extent / chunk, [&](const Expr& k) { join(all, from, base + k * Expr(chunk), chunk); });
      if (extent % chunk != 0) join(all, from, base + Expr(extent / chunk * chunk), extent % chunk);
    });
    const Expr mean = b_.let("mean", all.mean()), inv = inverse(all.squares(), extent * s_.frames);
    over_frames(volume, [&](const Expr& n) {
      b_.loop("c", 0, s_.each, [&](const Expr& c) {
        Site here = site;
        here.index[0] = n, here.index[1] = b_.let("channel", g * Expr(s_.each) + c);
        channel(from, domain, here, mean, inv, s_.per_group ? g : here.index[1]);
      });
    });
  }

 private:
  /// Calls body for the images of a volume.
  void over_frames(const Expr& volume, const std::function<void(const Expr&)>& body) {
    if (s_.frames == 1) return body(volume);
    b_.loop("frame", 0, s_.frames, [&](const Expr& frame) { body(volume * Expr(s_.frames) + frame); });
  }

  void join(Moments& all, Buf from, const Expr& at, int64_t extent) {
    const Expr first = b_.let("first", at);
    const auto value = [&](const Expr& i, const Expr& mask) { return b_.load(from, first + i, lanes_, 1, mask); };
    const Expr share = imm(DType::f32, 1.0 / static_cast<double>(extent));
    const Expr mean = b_.let("m", sum_along(b_, extent, lanes_, kSumUnroll, value) * share);
    const Expr squares = sum_along(b_, extent, lanes_, kSumUnroll, [&](const Expr& i, const Expr& mask) {
      const Expr d = b_.let("d", value(i, mask) - broadcast(mean, lanes_));
      return d * d;
    });
    all.join(imm(DType::f32, static_cast<double>(extent)), mean, squares);
  }

  void channel(Buf from, const Domain& domain, const Site& site, const Expr& mean, const Expr& inv,
               const Expr& parameter) {
    const Expr scale = b_.let("a", inv * b_.load(e_.input(node_.inputs[1]), parameter));
    const Expr bias = b_.let("b", b_.load(e_.input(node_.inputs[2]), parameter));
    const Expr base = b_.let("x0", e_.index(x(), domain, site));
    for_vectors(b_, s_.pixels(), lanes_, kApplyUnroll, [&](const Expr& at, const Expr& mask, int64_t) {
      const Expr apart = b_.load(from, base + at, lanes_, 1, mask) - broadcast(mean, lanes_);
      Site here = site;
      const size_t inner = innermost(domain.shape, 2);
      here.index[inner] = at;
      here.vec_dim = static_cast<int32_t>(inner), here.lanes = lanes_, here.mask = mask;
      const Expr y = fma(apart, broadcast(scale, lanes_), broadcast(bias, lanes_));
      e_.epilogue({{node_.outputs[0], y}}, domain, here);
    });
  }
};

/// Moments of channels (mean, and sum of squared differences from it), passed from measure() to apply():
/// [image][part][2][channel], for the channels of `blocks` blocks. Blocks, channels and groups are counted from the
/// first one in the buffer. The parts of a volume are the parts of its images.
struct Between {
  Buf buf;
  int64_t blocks = 1, parts = 1;
  Expr first_block = 0, first_group = 0, image = 0;

  Expr at(const Expr& part, int64_t which, const Expr& channel, int32_t lanes) const {
    return ((image * Expr(parts) + part) * Expr(2) + Expr(which)) * Expr(blocks * lanes) + channel;
  }
  int64_t elems(int64_t images, int32_t lanes) const { return images * parts * 2 * blocks * lanes; }
};

class BlockedKernel : Kernel {
 public:
  BlockedKernel(Emitter& e, const Grouped& s, const Split& p, int32_t lanes) : Kernel(e, s, lanes), p_(p) {}

  /// Computes the moments of a block's channels over a part of the rows.
  void measure(const Between& to, const Expr& n, const Expr& local, const Expr& part) {
    const Buf from = e_.input(node_.inputs[0]);
    const Expr block = to.first_block + local;
    const Expr end = b_.let("end", min((part + Expr(1)) * Expr(p_.rows(s_)), Expr(s_.height)));
    const int64_t rows = std::clamp<int64_t>(kChunk / (s_.width * lanes_), 1, p_.rows(s_));
    Moments all(b_, lanes_);
    b_.loop("r0", part * Expr(p_.rows(s_)), end, rows, [&](const Expr& r0) {
      const Expr r1 = b_.let("r1", min(r0 + Expr(rows), end));
      const Expr count = b_.let("n", cast(DType::f32, (r1 - r0) * Expr(s_.width)));
      const auto sum = [&](const std::function<Expr(const Expr&)>& term) {
        const std::vector<int32_t> sums = zeros(b_, std::min(kSumUnroll, s_.width), lanes_);
        b_.loop("r", r0, r1, [&](const Expr& r) {
          const Expr row = b_.let("x0", at(n, block, r));
          for_pixels(static_cast<int64_t>(sums.size()), [&](const Expr& w, int64_t u) {
            const Expr value = b_.load(from, row + w * Expr(x().phys.strides[3]), lanes_);
            add_to(b_, sums[static_cast<size_t>(u)], term(value));
          });
        });
        return sum_of(b_, sums);
      };
      const Expr mean = b_.let("m", sum([](const Expr& v) { return v; }) / broadcast(count, lanes_));
      const Expr squares = sum([&](const Expr& v) {
        const Expr d = b_.let("d", v - mean);
        return d * d;
      });
      all.join(count, mean, squares);
    });
    const Expr channel = local * Expr(lanes_);
    b_.store(to.buf, to.at(part, 0, channel, lanes_), all.mean());
    b_.store(to.buf, to.at(part, 1, channel, lanes_), all.squares());
  }

  /// Computes the outputs of a block over a part of the rows.
  void apply(const Between& from, const Expr& n, const Expr& local, const Expr& part) {
    const Buf in = e_.input(node_.inputs[0]);
    const Expr block = from.first_block + local;
    const Factors f = s_.each == 1 ? of_channels(from, local, block) : of_groups(from, local, block);
    const Expr end = b_.let("end", min((part + Expr(1)) * Expr(p_.rows(s_)), Expr(s_.height)));
    const Domain domain = domain_of(x().type);
    b_.loop("r", part * Expr(p_.rows(s_)), end, [&](const Expr& r) {
      const Expr row = b_.let("x0", at(n, block, r));
      for_pixels(kApplyUnroll, [&](const Expr& w, int64_t) {
        const Expr value = b_.load(in, row + w * Expr(x().phys.strides[3]), lanes_);
        const Site site{{n, block, r, w, Expr(0)}, 4, lanes_, {}};
        e_.epilogue({{node_.outputs[0], fma(value - f.mean, f.scale, f.bias)}}, domain, site);
      });
    });
  }

 private:
  /// Vectors for y = (x - mean) * scale + bias, one value per channel of a block; 0 in lanes without a channel.
  struct Factors {
    Expr mean, scale, bias;
  };

  Expr at(const Expr& n, const Expr& block, const Expr& row) const {
    const Shape& strides = x().phys.strides;
    return Expr(x().phys.offset) + n * Expr(strides[0]) + block * Expr(strides[1]) + row * Expr(strides[2]);
  }

  /// Calls body(column, number among the `unroll` neighbours) for all columns of a row.
  void for_pixels(int64_t unroll, const std::function<void(const Expr&, int64_t)>& body) {
    const int64_t full = s_.width / unroll * unroll;
    b_.loop("w", 0, full, unroll, [&](const Expr& w) {
      for (int64_t u = 0; u < unroll; ++u) body(w + Expr(u), u);
    });
    for (int64_t w = full; w < s_.width; ++w) body(Expr(w), w - full);
  }

  /// The lanes of a block that have a channel; undefined if all do.
  Expr valid(const Expr& block) const {
    if (s_.channels % lanes_ == 0) return {};
    return first_lanes(Expr(s_.channels) - block * Expr(lanes_), lanes_);
  }
  Expr only(const Expr& valid, const Expr& value) {
    return b_.let("f", valid.defined() ? select(valid, value, imm(DType::f32, 0, lanes_)) : value);
  }
  Expr parameter(size_t input, const Expr& block) {
    return b_.load(e_.input(node_.inputs[input]), block * Expr(lanes_), lanes_, 1, valid(block));
  }

  /// The number of pixels in a part, as f32.
  Expr pixels_of(const Expr& of_volume) {
    const int64_t parts = ceil_div(s_.height, p_.rows(s_));
    const Expr part = s_.frames > 1 ? binary(Op::mod, of_volume, Expr(parts)) : of_volume;
    const Expr rows = min(Expr(p_.rows(s_)), Expr(s_.height) - part * Expr(p_.rows(s_)));
    return b_.let("n", cast(DType::f32, rows * Expr(s_.width)));
  }

  Factors of_channels(const Between& from, const Expr& local, const Expr& block) {
    Moments all(b_, lanes_);
    b_.loop("p", 0, from.parts, [&](const Expr& part) {
      const Expr channel = local * Expr(lanes_);
      const auto stored = [&](int64_t which) {
        return b_.let("s", b_.load(from.buf, from.at(part, which, channel, lanes_), lanes_));
      };
      all.join(pixels_of(part), stored(0), stored(1));
    });
    const Expr mask = valid(block);
    const Expr inv = inverse(all.squares(), s_.pixels() * s_.frames);
    return {only(mask, all.mean()), only(mask, inv * parameter(1, block)), only(mask, parameter(2, block))};
  }

  /// Groups occupy ascending lanes, so each overwrites the lanes from its first channel on.
  Factors of_groups(const Between& from, const Expr& local, const Expr& block) {
    const Expr zero = imm(DType::f32, 0, lanes_);
    const int32_t mean = b_.reg("means", zero), scale = b_.reg("scales", zero), bias = b_.reg("biases", zero);
    const Expr first = b_.let("c0", local * Expr(lanes_));
    const Expr beyond = Expr(s_.channels) - from.first_block * Expr(lanes_);
    const Expr last = b_.let("c1", min(first + Expr(lanes_), beyond) - Expr(1));
    const Expr from_group = b_.let("g0", binary(Op::div, first, Expr(s_.each)));
    const Expr to_group = b_.let("g1", binary(Op::div, last, Expr(s_.each)) + Expr(1));
    b_.loop("g", from_group, to_group, [&](const Expr& g) {
      const auto [m, inv] = group(from, g);
      const Expr before = b_.let("before", first_lanes(max(g * Expr(s_.each) - first, Expr(0)), lanes_));
      const auto put = [&](int32_t reg, const Expr& value) {
        b_.set(reg, select(before, b_.get(reg), broadcast(value, lanes_)));
      };
      put(mean, m);
      const Expr whole = from.first_group + g;
      put(scale, s_.per_group ? b_.let("a", inv * b_.load(e_.input(node_.inputs[1]), whole)) : inv);
      if (s_.per_group) put(bias, b_.load(e_.input(node_.inputs[2]), whole));
    });
    const Expr mask = valid(block);
    if (s_.per_group) return {only(mask, b_.get(mean)), only(mask, b_.get(scale)), only(mask, b_.get(bias))};
    return {only(mask, b_.get(mean)), only(mask, b_.get(scale) * parameter(1, block)), only(mask, parameter(2, block))};
  }

  /// Mean and 1 / deviation of a group, from the moments of its channels.
  std::pair<Expr, Expr> group(const Between& from, const Expr& g) {
    const int64_t count = s_.each * s_.pixels() * s_.frames;
    const int32_t sum = b_.reg("sum", imm(DType::f32, 0)), squares = b_.reg("squares", imm(DType::f32, 0));
    const auto over_parts = [&](int32_t into, const std::function<Expr(const Expr&, const Expr&, const Expr&)>& term) {
      b_.loop("p", 0, from.parts, [&](const Expr& part) {
        const Expr n = pixels_of(part);
        const Expr c = b_.let("c", from.at(part, 0, g * Expr(s_.each), lanes_));
        const Expr row = Expr(from.blocks * lanes_);
        add_to(b_, into, sum_along(b_, s_.each, lanes_, 1, [&](const Expr& i, const Expr& mask) {
                 return term(b_.let("m", b_.load(from.buf, c + i, lanes_, 1, mask)),
                             b_.let("s", b_.load(from.buf, c + row + i, lanes_, 1, mask)), broadcast(n, lanes_));
               }));
      });
    };
    over_parts(sum, [](const Expr& m, const Expr&, const Expr& n) { return m * n; });
    const Expr mean = b_.let("gm", b_.get(sum) * imm(DType::f32, 1.0 / static_cast<double>(count)));
    over_parts(squares, [&](const Expr& m, const Expr& s, const Expr& n) {
      const Expr d = b_.let("d", m - broadcast(mean, lanes_));
      return s + d * d * n;
    });
    return {mean, inverse(b_.get(squares), count)};
  }

  const Split& p_;
};

void lower_plain(Lowered& out, const Task& task, const Grouped& s, int32_t lanes) {
  Emitter e(task, "normalize_groups");
  const Expr volume = e.b.parallel("n", s.volumes()), g = e.b.parallel("g", s.groups);
  PlainKernel(e, s, lanes).group(volume, g);
  out.stages.push_back(e.finish(out));
}

void lower_joint(Lowered& out, const Task& task, const Grouped& s, const Split& p, int32_t lanes) {
  Emitter e(task, "normalize_groups");
  const Expr n = e.b.parallel("n", s.n), unit = e.b.parallel("unit", s.units());
  Between between{{}, s.unit, 1, unit * Expr(s.unit), unit * Expr(s.unit * lanes / s.each), 0};
  between.buf = e.b.scratch("between", DType::f32, between.elems(1, lanes));
  BlockedKernel kernel(e, s, p, lanes);
  const Expr count = e.b.let("count", min(Expr(s.unit), Expr(s.blocks) - unit * Expr(s.unit)));
  e.b.loop("cb", 0, count, [&](const Expr& local) { kernel.measure(between, n, local, 0); });
  e.b.loop("cb", 0, count, [&](const Expr& local) { kernel.apply(between, n, local, 0); });
  out.stages.push_back(e.finish(out));
}

void lower_apart(Lowered& out, const Task& task, const Grouped& s, const Split& p, int32_t lanes) {
  const int64_t parts = ceil_div(s.height, p.rows(s));
  Between between{{}, s.blocks, parts};
  const int64_t stored = between.elems(s.n, lanes);
  out.temp_bytes.push_back(stored * 4);
  const TensorType& x = task.operand(task.node().inputs[0]).type;
  const int64_t in_bytes = elems(x.shape) * stored_bytes(x);
  const auto stage = [&](const std::string& name, bool first) {
    Emitter e(task, name);
    const Expr n = e.b.parallel("n", s.n), block = e.b.parallel("cb", s.blocks), part = e.b.parallel("part", parts);
    e.input(task.node().inputs[0]);
    between.buf = e.temp(0, DType::f32, stored, first, "between");
    between.image = n;
    BlockedKernel kernel(e, s, p, lanes);
    if (first) {
      kernel.measure(between, n, block, part);
    } else {
      Between of_volume = between;
      if (s.frames > 1) of_volume.parts *= s.frames, of_volume.image = binary(Op::div, n, Expr(s.frames));
      kernel.apply(of_volume, n, block, part);
    }
    out.stages.push_back(e.finish(out));
  };
  stage("normalize_groups_sums", true);
  stage("normalize_groups", false);
  const int64_t flops = task.flops();
  out.stages[0].work = StageWork{flops / 2, flops / 2, in_bytes + stored * 4};
  out.stages[1].work = StageWork{flops - flops / 2, flops - flops / 2, task.bytes() + stored * 4};
}

class NormalizeGroups final : public Analysed {
 public:
  NormalizeGroups(const Task& task, const CpuLimits& limits, const Grouped& grouped)
      : Analysed(task, limits), s_(grouped) {}

  std::vector<Knob> space() const override {
    Knob parts{"parts", {1}};
    if (!s_.blocked) return {{"joint", {1}}, parts};
    for (int64_t p = 2; p <= std::min<int64_t>(s_.height, 64); p *= 2) parts.values.push_back(p);
    if (s_.frames > 1) return {{"joint", {0}}, parts};
    return {{"joint", {0, 1}}, parts};
  }
  Result<Schedule> pick() const override { return rank(*this, 1).front().schedule; }
  std::vector<Schedule> candidates() const override {
    if (!s_.blocked) return {schedule_of({1, 1})};
    Split apart;
    while (s_.n * s_.blocks * apart.parts < kFewItems && apart.parts * 2 <= std::min<int64_t>(s_.height, 64))
      apart.parts *= 2;
    std::vector<Schedule> all;
    const int64_t items = s_.n * s_.units();
    const bool enough = items >= kFewItems || items >= s_.n * s_.blocks * apart.parts;
    if (enough && s_.frames == 1) all.push_back(schedule_of({1, 1}));
    all.push_back(schedule_of(apart));
    return all;
  }

 private:
  static Schedule schedule_of(const Split& p) { return {"normalize_groups", {{"joint", p.joint}, {"parts", p.parts}}}; }
  static Split split_of(const Schedule& schedule) { return {schedule.knob("joint"), schedule.knob("parts")}; }

  std::optional<Rejected> conflict(const Schedule& schedule) const override {
    const Split p = split_of(schedule);
    if (p.joint == 0 || p.parts == 1) return std::nullopt;
    return Rejected{"parts of the rows with joint=1", "1", std::to_string(p.parts)};
  }
  Estimate model(const Schedule& schedule) const override {
    const double filled =
        s_.blocked ? static_cast<double>(s_.channels) / static_cast<double>(s_.blocks * lanes_of(limits())) : 1;
    return {cycles(s_, split_of(schedule), limits()), 1 - filled};
  }

  Lowered emit(const Schedule& schedule) const override {
    const Split p = split_of(schedule);
    const int32_t lanes = lanes_of(limits());
    Lowered lowered;
    if (!s_.blocked) {
      lower_plain(lowered, task(), s_, lanes);
    } else if (p.joint != 0) {
      lower_joint(lowered, task(), s_, p, lanes);
    } else {
      lower_apart(lowered, task(), s_, p, lanes);
    }
    return lowered;
  }

  const Grouped s_;
};

}  // namespace

const Template normalize_groups{"normalize_groups", "normalisations over groups of channels",
                                analyse_as<NormalizeGroups, analyse>};

}  // namespace kilter
