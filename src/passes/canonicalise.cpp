// Rewrites operators into the one form that later passes and templates know.

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>

#include "ops/support/iterate.h"
#include "ops/support/reduction.h"
#include "ops/support/window.h"
#include "passes/match.h"
#include "passes/rewrite.h"

namespace kilter {
namespace {

// Reasons of more than one rewrite.
constexpr std::string_view kNotF32 = "its input is not f32", kRunTimeFilters = "its filters are not constant",
                           kNoSignal = "its input is not an f32 signal [n,c,w]", kEmpty = "it has no elements",
                           kTooLarge = "its constant would have more than 16 Mi elements",
                           kKeepsDims = "it keeps the reduced axes";

constexpr int kAfterProducts = 1;  ///< the sweep that needs products in their canonical form

using Ints = std::vector<int64_t>;

class Canonical : public RewritePass<Canonical> {
 public:
  using RewritePass::RewritePass;

  static std::string_view pass() { return "canonicalise"; }
  static std::span<const RewriteRow<Canonical>> rows();
  bool looks_at(const Node& /*node*/) const { return true; }

  void run() {
    sweep(true);
    graph_.sort();
    sweep(true, kAfterProducts);
    finish();
  }

 private:
  bool at_run_time(const Node& node, size_t input) const {
    return node.input(input) != kNone && constant(node.input(input)) == nullptr;
  }

  /// Moves a bias out of a convolution. In the canonical form, biases are constant, and a convolution with run-time
  /// filters has none.
  Patch without_bias(const Node& node) {
    const bool moves = at_run_time(node, 2) || (at_run_time(node, 1) && node.input(2) != kNone);
    if (!moves) return no("it has no bias, or bias and filters are constant");
    if (!f32(node.inputs[0])) return no(kNotF32);
    Node plain = node;
    plain.inputs.resize(2);
    const ValueId y = rewritten(plain);
    Shape bias(type(y).shape.size(), 1);
    bias[1] = type(y).shape[1];
    return b_.add("Add", {y, reshape(node.inputs[2], bias, node.name + ".bias")}, {}, node.name + ".sum");
  }

  /// The canonical form of a node that is not in the graph. Adds nodes for it.
  ValueId rewritten(const Node& node) {
    const auto made = rewrite(node);
    return made ? *made : added(node);
  }

  /// Adds a node that is not in the graph without changing it.
  ValueId added(const Node& node) {
    GraphBuilder::Options options;
    options.name = node.name;
    options.opset = node.opset;
    return b_.add(node.op->name, node.inputs, node.attrs, options)[0];
  }

  ValueId reshape(ValueId x, const Shape& shape, const std::string& name) {
    return b_.add("Reshape", {x, b_.list(shape)}, {}, name);
  }

  Patch gemm(const Node& node) {
    if (!f32(node.inputs[0])) return no(kNotF32);
    ValueId a = node.inputs[0], b = node.inputs[1];
    const Attrs swap{{"perm", std::vector<int64_t>{1, 0}}};
    if (node.int_attr("transA", 0) != 0) a = b_.add("Transpose", {a}, swap, node.name + ".a");
    if (node.int_attr("transB", 0) != 0) {
      const Tensor* w = constant(b);
      b = w != nullptr ? b_.constant(transposed(*w), graph_.value(b).name + ".t")
                       : b_.add("Transpose", {b}, swap, node.name + ".b");
    }
    ValueId y = b_.add("MatMul", {a, b}, {}, node.name);
    const float alpha = node.float_attr("alpha", 1), beta = node.float_attr("beta", 1);
    if (alpha != 1) y = b_.add("Mul", {y, b_.constant(Tensor::scalar(alpha))}, {}, node.name + ".alpha");
    if (ValueId c = node.input(2); c != kNone) {
      if (beta != 1) c = b_.add("Mul", {c, b_.constant(Tensor::scalar(beta))}, {}, node.name + ".beta");
      y = b_.add("Add", {y, c}, {}, node.name + ".c");
    }
    return y;
  }

  /// Applies to a product of rows that were reshaped to a matrix and are reshaped again after it. Gives the product the
  /// final shape, so that the nodes after it can be fused with it.
  Patch product_between_reshapes(const Node& node) {
    ValueId v = node.inputs[0], bias = kNone;
    const auto single = [&](std::string_view op) { return read_once(graph_, v) ? made_by(graph_, v, op) : nullptr; };
    if (const Node* sum = single("Add")) {
      const size_t i = made_by(graph_, sum->inputs[0], "MatMul") != nullptr ? 0 : 1;
      v = sum->inputs[i], bias = sum->inputs[1 - i];
    }
    const Node* product = single("MatMul");
    const Node* rows = product == nullptr ? nullptr : made_by(graph_, product->inputs[0], "Reshape");
    if (rows == nullptr || !f32(v)) return {};
    const ValueId w = product->inputs[1], x = rows->inputs[0];
    const Shape to = type(node.outputs[0]).shape;
    if (type(w).shape.size() != 2 || type(product->inputs[0]).shape.size() != 2 || to.size() < 2 ||
        to.back() != type(w).shape[1])
      return no("the reshapes around the product do not keep its columns");
    if (!reads_weights_rarely(to)) return no("it would have many small matrices");
    if (bias != kNone && elems(type(bias).shape) != 1 && type(bias).shape != Shape{to.back()})
      return no("the bias of the product is not one number for each column");
    const std::string name = product->name;
    Shape from = to;
    from.back() = type(w).shape[0];
    const ValueId sums = b_.add("MatMul", {type(x).shape == from ? x : reshape(x, from, name + ".rows"), w}, {}, name);
    return bias == kNone ? sums : b_.add("Add", {sums, bias}, {}, node.name + ".bias");
  }

  /// Whether a product with a result of this shape reads its right operand only once, or for many rows each time.
  static bool reads_weights_rarely(const Shape& to) {
    constexpr int64_t kManyRows = 16;
    const int64_t rows = to[to.size() - 2], matrices = product(to, 0, to.size() - 2);
    return matrices <= 1 || rows >= kManyRows || (rows == 1 && to.size() == 3);
  }

  static Tensor transposed(const Tensor& w) {
    const int64_t rows = w.shape()[0], columns = w.shape()[1];
    Tensor t(DType::f32, {columns, rows});
    constexpr int64_t kTile = 32;
    for (int64_t r0 = 0; r0 < rows; r0 += kTile)
      for (int64_t c0 = 0; c0 < columns; c0 += kTile)
        for (int64_t r = r0; r < std::min(r0 + kTile, rows); ++r)
          for (int64_t c = c0; c < std::min(c0 + kTile, columns); ++c)
            t.data<float>()[c * rows + r] = w.data<float>()[r * columns + c];
    return t;
  }

  Patch batch_norm(const Node& node) {
    for (size_t i = 1; i < 5; ++i) {
      if (constant(node.inputs[i]) == nullptr || !f32(node.inputs[i]))
        return no("its parameters are not f32 constants");
    }
    if (!f32(node.inputs[0])) return no(kNotF32);
    if (node.outputs.size() > 1 || node.int_attr("training_mode", 0) != 0) return no("it is in training mode");
    const Tensor &scale = *constant(node.inputs[1]), &bias = *constant(node.inputs[2]),
                 &mean = *constant(node.inputs[3]), &variance = *constant(node.inputs[4]);
    const double epsilon = node.float_attr("epsilon", 1e-5F);
    Shape shape(type(node.inputs[0]).shape.size() - 1, 1);
    shape[0] = scale.elems();
    Tensor mul(DType::f32, shape), add(DType::f32, shape);
    for (int64_t c = 0; c < scale.elems(); ++c) {
      const double s = scale.as_double(c) / std::sqrt(variance.as_double(c) + epsilon);
      mul.data<float>()[c] = static_cast<float>(s);
      add.data<float>()[c] = static_cast<float>(bias.as_double(c) - mean.as_double(c) * s);
    }
    const ValueId scaled =
        b_.add("Mul", {node.inputs[0], b_.constant(mul, node.name + ".scale")}, {}, node.name + ".mul");
    return b_.add("Add", {scaled, b_.constant(add, node.name + ".shift")}, {}, node.name);
  }

  /// Extends a window over [n,c,w] to one over [n,c,1,w].
  static Window with_row(Window w) {
    for (auto* ones : {&w.kernel, &w.strides, &w.dilations, &w.in, &w.out}) ones->insert(ones->begin(), 1);
    for (auto* zeros : {&w.pads_begin, &w.pads_end}) zeros->insert(zeros->begin(), 0);
    return w;
  }

  bool signal(const Node& node) const { return f32(node.inputs[0]) && type(node.inputs[0]).shape.size() == 3; }

  /// The node applied to an image of one row, between reshapes.
  ValueId over_row(const Node& node, const Attrs& attrs) {
    const Shape &x = type(node.inputs[0]).shape, &y = type(node.outputs[0]).shape;
    std::vector<ValueId> inputs = node.inputs;
    inputs[0] = reshape(inputs[0], {x[0], x[1], 1, x[2]}, node.name + ".in");
    if (inputs.size() > 1) {
      const Tensor& w = *constant(inputs[1]);
      const Shape& s = w.shape();
      inputs[1] = b_.constant(w.reshaped({s[0], s[1], 1, s[2]}), graph_.value(inputs[1]).name);
    }
    const ValueId image = node.op->domain.empty() ? b_.add(node.op->name, inputs, attrs, node.name)
                                                  : b_.add_kilter(node.op->name, inputs, attrs, node.name);
    return reshape(image, y, node.name + ".out");
  }

  Patch conv1d(const Node& node) {
    const Tensor* w = constant(node.inputs[1]);
    if (!signal(node)) return no(kNoSignal);
    if (w == nullptr) return no(kRunTimeFilters);
    Attrs attrs = window_attrs(with_row(conv_window(node, type(node.inputs[0]).shape, w->shape())));
    attrs["group"] = node.int_attr("group", 1);
    return over_row(node, attrs);
  }

  /// Rewrites a convolution with filters computed at run time, as in trackers and networks with modulated weights:
  /// filters times columns, group by group. A column contains the elements under the filter at one position. Depthwise
  /// convolutions are left unchanged: products of one row are slower than the reference kernel (measured).
  Patch conv_of_run_time_filters(const Node& node) {
    const Shape x = type(node.inputs[0]).shape, w = type(node.inputs[1]).shape, y = type(node.outputs[0]).shape;
    const int64_t groups = node.int_attr("group", 1);
    const bool depthwise = groups > 1 && groups == x[1] && groups == y[1];
    if (!at_run_time(node, 1)) return no("its filters are constant");
    if (!f32(node.inputs[0])) return no(kNotF32);
    if (elems(y) == 0 || elems(x) == 0) return no(kEmpty);
    if (depthwise) return no("it is depthwise");
    const Window win = conv_window(node, x, w);
    const int64_t taps = w[1] * win.kernel_elems();
    const ValueId padded = pad(node, win);
    const Shape inner = dense_strides(type(padded).shape);
    std::vector<int64_t> shape{x[0], x[1]}, strides{inner[0], inner[1]};
    for (size_t d = 0; d < win.rank(); ++d)
      shape.push_back(win.kernel[d]), strides.push_back(win.dilations[d] * inner[d + 2]);
    for (size_t d = 0; d < win.rank(); ++d)
      shape.push_back(win.out[d]), strides.push_back(win.strides[d] * inner[d + 2]);
    const ValueId columns = strided_view(padded, shape, strides, node.name + ".columns");
    const Shape per_group{x[0], groups, taps, win.out_elems()};
    const ValueId filters = reshape(node.inputs[1], {1, groups, y[1] / groups, taps}, node.name + ".filters");
    const ValueId product =
        b_.add("MatMul", {filters, reshape(columns, per_group, node.name + ".groups")}, {}, node.name);
    return reshape(product, y, node.name + ".out");
  }

  /// The input of a convolution, padded explicitly.
  ValueId pad(const Node& node, const Window& win) {
    std::vector<int64_t> pads{0, 0};
    pads.insert(pads.end(), win.pads_begin.begin(), win.pads_begin.end());
    pads.insert(pads.end(), {0, 0});
    pads.insert(pads.end(), win.pads_end.begin(), win.pads_end.end());
    if (std::all_of(pads.begin(), pads.end(), [](int64_t p) { return p == 0; })) return node.inputs[0];
    return b_.add("Pad", {node.inputs[0], b_.list(pads)}, {}, node.name + ".padded");
  }

  ValueId strided_view(ValueId x, const std::vector<int64_t>& shape, const std::vector<int64_t>& strides,
                       const std::string& name) {
    return b_.add_kilter("StridedView", {x}, {{"offset", int64_t{0}}, {"shape", shape}, {"strides", strides}}, name);
  }

  static bool dilated(const Node& node) {
    const auto dilations = node.ints_attr("dilations");
    return std::any_of(dilations.begin(), dilations.end(), [](int64_t d) { return d > 1; });
  }

  /// Rewrites a dilated transposed convolution into one whose filters have zeros between their taps.
  Patch spread_filters(const Node& node) {
    const Tensor* w = constant(node.inputs[1]);
    if (!dilated(node)) return no("it is not dilated");
    if (w == nullptr) return no(kRunTimeFilters);
    if (!f32(node.inputs[0])) return no(kNotF32);
    constexpr int64_t kMostWide = 16 << 20;  // elements: 64 MiB
    const Window win = conv_transpose_window(node, type(node.inputs[0]).shape, w->shape());
    Shape shape = w->shape();
    int64_t wide_elems = shape[0] * shape[1];
    for (size_t d = 0; d < win.rank(); ++d) {
      shape[d + 2] = win.span(d);
      if (shape[d + 2] > kMostWide / std::max<int64_t>(wide_elems, 1)) return no(kTooLarge);
      wide_elems *= shape[d + 2];
    }
    Tensor wide(DType::f32, shape);
    std::fill_n(wide.data<float>(), wide.elems(), 0.0F);
    Shape steps = dense_strides(shape);
    for (size_t d = 0; d < win.rank(); ++d) steps[d + 2] *= win.dilations[d];
    copy_strided(*w, 0, dense_strides(w->shape()), wide, 0, steps, w->shape());
    Node plain = node;
    plain.inputs[1] = b_.constant(wide, graph_.value(node.inputs[1]).name + ".spread");
    plain.attrs.erase("dilations");
    plain.attrs["kernel_shape"] = std::vector<int64_t>(shape.begin() + 2, shape.end());
    return rewritten(plain);
  }

  Patch conv_transpose1d(const Node& node) {
    const Tensor* w = constant(node.inputs[1]);
    if (!signal(node)) return no(kNoSignal);
    if (w == nullptr) return no(kRunTimeFilters);
    const Window win = with_row(conv_transpose_window(node, type(node.inputs[0]).shape, w->shape()));
    Attrs attrs = window_attrs(win);
    attrs["output_padding"] = output_padding(win);
    attrs["group"] = node.int_attr("group", 1);
    return over_row(node, attrs);
  }

  Patch pool1d(const Node& node) {
    if (!signal(node)) return no(kNoSignal);
    if (node.outputs.size() > 1 && node.outputs[1] != kNone) return no("it returns indices");
    return over_row(node, pool_attrs(node, with_row(pool_window(node, type(node.inputs[0]).shape))));
  }

  /// Turns phases that do not overlap into channels of one convolution. With few output channels, computing the phases
  /// separately would leave most lanes of a block empty.
  Patch upsampling(const Node& node) {
    constexpr int64_t kFewChannels = 16;
    const Tensor* w = constant(node.inputs[1]);
    const Shape& x = type(node.inputs[0]).shape;
    if (w == nullptr) return no(kRunTimeFilters);
    if (!f32(node.inputs[0]) || x.size() != 4) return no("its input is not f32 images");
    if (node.int_attr("group", 1) != 1) return no("it has groups");
    const Window win = conv_transpose_window(node, x, w->shape());
    const int64_t channels = w->shape()[1], s = win.strides[0];
    const std::vector<int64_t> none{0, 0}, ones{1, 1};
    if (s < 2 || win.strides[1] != s || win.kernel != win.strides || win.pads_begin != none || win.pads_end != none ||
        win.dilations != ones || win.out != std::vector<int64_t>{x[2] * s, x[3] * s}) {
      return no("its windows overlap, leave gaps or are padded");
    }
    const Tensor* bias = constant(node.input(2));
    if (node.input(2) != kNone && bias == nullptr) return no("its bias is not constant");
    if (channels * s * s > kFewChannels) return no("it has too many output channels for this to pay off");
    const int64_t all = channels * s * s;
    Tensor filters(DType::f32, {all, x[1], 1, 1}), shift(DType::f32, {all});
    for (int64_t k = 0; k < all; ++k) {
      for (int64_t c = 0; c < x[1]; ++c) filters.data<float>()[k * x[1] + c] = w->data<float>()[c * all + k];
      shift.data<float>()[k] = bias != nullptr ? bias->data<float>()[k / (s * s)] : 0;
    }
    std::vector<ValueId> inputs{node.inputs[0], b_.constant(filters, graph_.value(node.inputs[1]).name + ".phases")};
    if (bias != nullptr) inputs.push_back(b_.constant(shift, graph_.value(node.inputs[2]).name + ".phases"));
    const ValueId deep = b_.add("Conv", inputs, {{"kernel_shape", ones}}, node.name);
    return b_.add("DepthToSpace", {deep}, {{"blocksize", s}, {"mode", std::string("CRD")}}, node.name + ".wide");
  }

  /// Rewrites a convolution over patches of an image with few channels whose results are stored channels last, as
  /// vision transformers embed them: rows of patches times the filters. A plain image is read a pixel at a time, and
  /// the product reads its rows in vectors.
  Patch patches(const Node& node) {
    constexpr int64_t kFewChannels = 15, kLongRow = 32;
    const Node* merged = made_by(graph_, node.inputs[0], "Reshape");
    const Node* conv = made_by(graph_, merged != nullptr ? merged->inputs[0] : node.inputs[0], "Conv");
    if (conv == nullptr) return {};
    const Shape &x = type(conv->inputs[0]).shape, &y = type(conv->outputs[0]).shape;
    const Tensor *w = constant(conv->inputs[1]), *bias = constant(conv->input(2));
    if (x.size() != 4 || !f32(conv->inputs[0])) return no("the convolution's input is not f32 images");
    const std::vector<int64_t> perm = merged != nullptr ? Ints{0, 2, 1} : Ints{0, 2, 3, 1};
    const bool merges = merged == nullptr || type(merged->outputs[0]).shape == Shape{y[0], y[1], y[2] * y[3]};
    if (!merges || node.ints_attr("perm") != perm) return no("it does not store the convolution's channels last");
    if (!read_once(graph_, conv->outputs[0]) || !read_once(graph_, node.inputs[0]))
      return no("the convolution's results are read elsewhere, too");
    if (w == nullptr || (conv->input(2) != kNone && bias == nullptr)) return no(kRunTimeFilters);
    const Window win = conv_window(*conv, x, w->shape());
    const std::vector<int64_t> none{0, 0};
    if (win.kernel != win.strides || win.pads_begin != none || win.pads_end != none || win.dilations != Ints{1, 1} ||
        conv->int_attr("group", 1) != 1 || x[2] != y[2] * win.kernel[0] || x[3] != y[3] * win.kernel[1])
      return no("its windows are not patches: they overlap, leave gaps, have groups or are padded");
    const int64_t row = elems(w->shape()) / y[1];
    if (x[1] > kFewChannels || row < kLongRow || elems(y) == 0) return no("its patches are too small or too deep");
    const Shape split{x[0], x[1], y[2], win.kernel[0], y[3], win.kernel[1]};
    const ValueId turned = b_.add("Transpose", {reshape(conv->inputs[0], split, conv->name + ".split")},
                                  {{"perm", Ints{0, 2, 4, 1, 3, 5}}}, conv->name + ".patches");
    const ValueId rows = reshape(turned, {x[0], y[2] * y[3], row}, conv->name + ".rows");
    const Tensor filters = transposed(w->reshaped({y[1], row}));
    ValueId out =
        b_.add("MatMul", {rows, b_.constant(filters, graph_.value(conv->inputs[1]).name + ".t")}, {}, conv->name);
    if (bias != nullptr) out = b_.add("Add", {out, conv->inputs[2]}, {}, conv->name + ".bias");
    return merged != nullptr ? out : reshape(out, type(node.outputs[0]).shape, conv->name + ".image");
  }

  Patch global_mean(const Node& node) { return global_reduction(node, "ReduceMean"); }
  Patch global_max(const Node& node) { return global_reduction(node, "ReduceMax"); }
  Patch global_reduction(const Node& node, std::string_view op) {
    const size_t rank = type(node.inputs[0]).shape.size();
    if (!f32(node.inputs[0])) return no(kNotF32);
    if (rank < 3) return no("its input has no spatial axes");
    std::vector<int64_t> axes;
    for (size_t d = 2; d < rank; ++d) axes.push_back(static_cast<int64_t>(d));
    return reduce(node, op, axes);
  }

  /// Puts all positions into one row: kernels run along rows, which may otherwise be short.
  Patch samples_in_a_row(const Node& node) {
    const Shape &grid = type(node.inputs[1]).shape, &y = type(node.outputs[0]).shape;
    if (!f32(node.inputs[0]) || !f32(node.inputs[1])) return no("image and grid are not both f32");
    if (y.size() != 4) return no("its input is not images");
    if (y[2] == 1) return no("its grid is already one row");
    if (elems(y) == 0) return no(kEmpty);
    Node row = node;
    row.inputs[1] = reshape(node.inputs[1], {grid[0], 1, grid[1] * grid[2], 2}, node.name + ".grid");
    return reshape(added(row), y, node.name + ".rows");
  }

  Patch keep_arg(const Node& node) {
    if (node.int_attr("keepdims", 1) != 0) return no(kKeepsDims);
    if (!f32(node.inputs[0])) return no(kNotF32);
    Node kept = node;
    kept.attrs["keepdims"] = int64_t{1};
    return reshape(added(kept), type(node.outputs[0]).shape, node.name + ".squeeze");
  }

  /// Rewrites the STFT of a real signal: overlapping frames are a view of it, and the real and imaginary parts of each
  /// frequency are columns of one product.
  Patch stft(const Node& node) {
    constexpr int64_t kMostWaves = 16 << 20;  // elements: 64 MiB
    const Shape &x = type(node.inputs[0]).shape, &y = type(node.outputs[0]).shape;
    const auto known = [&](size_t i) { return constant(node.input(i)); };
    const Tensor *step = known(1), *window = known(2), *given = known(3);
    const bool unknown = step == nullptr || (node.input(2) != kNone && window == nullptr) ||
                         (node.input(3) != kNone && given == nullptr);
    const bool real = x.size() == 2 || x[2] == 1;
    if (unknown) return no("frame step, window or frame length is not constant");
    if (!real || !f32(node.inputs[0])) return no("the signal is not real f32");
    if (elems(y) == 0) return no(kEmpty);
    const int64_t length = window != nullptr ? window->elems() : given != nullptr ? given->as_int(0) : x[1];
    const int64_t columns = 2 * y[2];
    if (length * columns > kMostWaves) return no(kTooLarge);
    const ValueId frames =
        strided_view(node.inputs[0], {x[0], y[1], length}, {x[1], step->as_int(0), 1}, node.name + ".frames");
    const ValueId waves = b_.constant(waves_of(length, y[2], window), node.name + ".waves");
    const ValueId product = b_.add("MatMul", {frames, waves}, {}, node.name + ".product");
    return reshape(product, y, node.name);
  }

  /// [length, 2 * bins]: cos and -sin of each bin, times the window.
  static Tensor waves_of(int64_t length, int64_t bins, const Tensor* window) {
    Tensor waves(DType::f32, {length, 2 * bins});
    float* to = waves.data<float>();
    for (int64_t n = 0; n < length; ++n) {
      const double scale = window != nullptr ? window->as_double(n) : 1;
      for (int64_t k = 0; k < bins; ++k) {
        const double angle = 2 * std::numbers::pi * static_cast<double>(n * k % length) / static_cast<double>(length);
        *to++ = static_cast<float>(scale * std::cos(angle));
        *to++ = static_cast<float>(-scale * std::sin(angle));
      }
    }
    return waves;
  }

  Patch inner_softmax(const Node& node) {
    if (node.op->since < 13) return no("before opset 13, all axes from its axis on form one row");
    const Shape& shape = type(node.inputs[0]).shape;
    const auto rank = static_cast<int64_t>(shape.size());
    const int64_t axis = normal_axis(node, node.int_attr("axis", -1), rank);
    if (axis + 1 == rank) return no("its axis is the last one");
    if (!f32(node.inputs[0])) return no(kNotF32);
    std::vector<int64_t> perm;
    for (int64_t d = 0; d < rank; ++d) perm.push_back(d);
    std::swap(perm[static_cast<size_t>(axis)], perm.back());
    const ValueId turned = b_.add("Transpose", {node.inputs[0]}, {{"perm", perm}}, node.name + ".in");
    const ValueId soft = b_.add(node.op->name, {turned}, {{"axis", int64_t{-1}}}, node.name);
    return b_.add("Transpose", {soft}, {{"perm", perm}}, node.name + ".out");
  }

  ValueId reduce(const Node& node, std::string_view op, const std::vector<int64_t>& axes) {
    return b_.add(op, {node.inputs[0], b_.list(axes, node.name + ".axes")}, {{"keepdims", int64_t{1}}}, node.name);
  }

  Patch keep_dims(const Node& node) {
    if (node.op->family != Family::reduce) return {};
    if (node.int_attr("keepdims", 1) != 0) return no(kKeepsDims);
    const std::vector<int64_t> axes = reduced_axes(view(graph_, node));
    if (axes.empty()) return no("it reduces no axis");
    return reshape(reduce(node, node.op->name, axes), type(node.outputs[0]).shape, node.name + ".squeeze");
  }
};

std::span<const RewriteRow<Canonical>> Canonical::rows() {
  static const std::vector<RewriteRow<Canonical>> kRows = {
      {{"gemm", "Gemm(a, b, c; alpha, beta) => Add(Mul(MatMul(a', b'), alpha), Mul(c, beta))", {"Gemm"}},
       &Canonical::gemm},
      {{"product_between_reshapes",
        "Reshape(Add(MatMul(Reshape(x), w), bias)) => Add(MatMul(Reshape(x), w), bias)",
        {"Reshape"}},
       &Canonical::product_between_reshapes,
       kAfterProducts},
      {{"batch_norm", "BatchNormalization(x, constants) => Add(Mul(x, scale), shift)", {"BatchNormalization"}},
       &Canonical::batch_norm},
      {{"conv_bias", "Conv(x, w, non-constant b) => Add(Conv(x, w), b)", {"Conv", "ConvTranspose"}},
       &Canonical::without_bias},
      {{"conv_transpose_dilations",
        "ConvTranspose(x, w; dilations) => ConvTranspose(x, w with zeros between its taps)",
        {"ConvTranspose"}},
       &Canonical::spread_filters},
      {{"conv_filters", "Conv(x, non-constant w) => Reshape(MatMul(w, columns of padded x))", {"Conv"}},
       &Canonical::conv_of_run_time_filters},
      {{"conv_1d", "Conv(x [n,c,w]) => Reshape(Conv(Reshape(x, [n,c,1,w])))", {"Conv", "IntegerConv"}},
       &Canonical::conv1d},
      {{"conv_transpose_1d",
        "ConvTranspose(x [n,c,w]) => Reshape(ConvTranspose(Reshape(x, [n,c,1,w])))",
        {"ConvTranspose"}},
       &Canonical::conv_transpose1d},
      {{"pool_1d", "MaxPool(x [n,c,w]) => Reshape(MaxPool(Reshape(x, [n,c,1,w])))", {"MaxPool", "AveragePool"}},
       &Canonical::pool1d},
      {{"upsampling",
        "ConvTranspose(x, w; kernel = strides, few channels) => DepthToSpace(Conv(x, w as 1x1))",
        {"ConvTranspose"}},
       &Canonical::upsampling},
      {{"patches",
        "Transpose(Conv(x, w; kernel = strides, few channels); channels last) => Add(MatMul(patches of x, w'), bias)",
        {"Transpose"}},
       &Canonical::patches},
      {{"global_average", "GlobalAveragePool(x) => ReduceMean(x; axes 2 and on)", {"GlobalAveragePool"}},
       &Canonical::global_mean},
      {{"global_max", "GlobalMaxPool(x) => ReduceMax(x; axes 2 and on)", {"GlobalMaxPool"}}, &Canonical::global_max},
      {{"grid_row", "GridSample(x, grid) => Reshape(GridSample(x, grid in one row))", {"GridSample"}},
       &Canonical::samples_in_a_row},
      {{"arg_keepdims", "ArgMax(x; keepdims = 0) => Reshape(ArgMax(x; keepdims = 1))", {"ArgMax", "ArgMin"}},
       &Canonical::keep_arg},
      {{"stft", "STFT(x, constants) => Reshape(MatMul(frames of x, window * waves))", {"STFT"}}, &Canonical::stft},
      {{"inner_softmax",
        "Softmax(x; inner axis) => Transpose(Softmax(Transpose(x); axis = -1))",
        {"Softmax", "LogSoftmax"}},
       &Canonical::inner_softmax},
      {{"reduce_keepdims", "ReduceMean(x; keepdims = 0) => Reshape(ReduceMean(x; keepdims = 1)); all reductions"},
       &Canonical::keep_dims},
  };
  return kRows;
}

}  // namespace

std::vector<Rewrite> canonicalise_rewrites() { return Canonical::rewrites(); }
void canonicalise(Graph& graph, PassContext& context) { Canonical(graph, context).run(); }

}  // namespace kilter
