// Rewrites operators into the one form that later passes and templates know.
//
//   Gemm(a, b, c; alpha, beta)        =>  Add(Mul(MatMul(a', b'), alpha), beta * c)
//   BatchNormalization(x, constants)  =>  Add(Mul(x, scale), shift)
//   Conv of [n,c,w]                   =>  Conv of [n,c,1,w] between reshapes; ConvTranspose, MaxPool, AveragePool
//                                         likewise
//   GlobalAveragePool(x)              =>  ReduceMean(x, axes = 2, 3); GlobalMaxPool likewise
//   GridSample(x, grid)               =>  Reshape(GridSample(x, grid in one row))
//   ArgMax(x; keepdims = 0)           =>  Reshape(ArgMax(x; keepdims = 1)); ArgMin likewise
//   Softmax over an inner axis        =>  Transpose, Softmax over the last, Transpose
//   Reduce*(x; keepdims = 0)          =>  Reshape(Reduce*(x; keepdims = 1))
//   ConvTranspose(dilations)          =>  ConvTranspose of filters with zeros between their taps
//   ConvTranspose(kernel = stride)    =>  DepthToSpace(Conv of 1x1) if all phases together have few channels
//   Conv(x, w, non-constant b)        =>  Add(Conv(x, w), b); ConvTranspose likewise
//   Conv(x, non-constant w)           =>  Reshape(MatMul(w, columns)): columns as a view of x with its padding
//   STFT(x, constants)                =>  Reshape(MatMul(frames, waves)): frames as a view of x, window times waves

#include <cmath>
#include <numbers>
#include <optional>

#include "graph/values.h"
#include "ops/support/builder.h"
#include "ops/support/iterate.h"
#include "ops/support/reduction.h"
#include "ops/support/window.h"
#include "passes/pass.h"

namespace kilter {
namespace {

class Canonical {
 public:
  Canonical(Graph& graph, PassContext& context) : graph_(graph), context_(context), b_(graph) {}

  void run() {
    for (NodeId id : std::vector<NodeId>(graph_.order())) {
      const Node& node = graph_.node(id);
      if (node.dead || node.op->domain != "" || node.outputs[0] == kNone) continue;
      std::optional<ValueId> to = rewrite(node);
      if (!to) continue;
      const std::string name = graph_.value(node.outputs[0]).name;
      graph_.replace_uses(node.outputs[0], *to);
      graph_.erase(id);
      graph_.rename(*to, name);
    }
    graph_.sort();
    graph_.remove_dead();
  }

 private:
  const TensorType& type(ValueId v) const { return graph_.type(v); }
  const Tensor* constant(ValueId v) const { return constant_of(graph_, v); }
  bool f32(ValueId v) const { return type(v).dtype == DType::f32; }

  std::optional<ValueId> rewrite(const Node& node) {
    if (node.op->name == "Gemm") return gemm(node);
    if (node.op->name == "BatchNormalization") return batch_norm(node);
    if (node.op->family == Family::conv || node.op->family == Family::conv_transpose) {
      if (at_run_time(node, 2) || (at_run_time(node, 1) && node.input(2) != kNone)) return without_bias(node);
    }
    if (node.op->name == "ConvTranspose" && dilated(node)) return spread_filters(node);
    if (node.op->name == "Conv" && at_run_time(node, 1)) return conv_of_run_time_filters(node);
    if (!node.inputs.empty() && node.inputs[0] != kNone && type(node.inputs[0]).shape.size() == 3) {
      if (node.op->name == "Conv") return conv1d(node);
      if (node.op->name == "ConvTranspose") return conv_transpose1d(node);
      if (node.op->name == "MaxPool" || node.op->name == "AveragePool") return pool1d(node);
    }
    if (node.op->name == "ConvTranspose") return upsampling(node);
    if (node.op->name == "GlobalAveragePool") return global_reduction(node, "ReduceMean");
    if (node.op->name == "GlobalMaxPool") return global_reduction(node, "ReduceMax");
    if (node.op->name == "GridSample") return samples_in_a_row(node);
    if (node.op->family == Family::arg && node.int_attr("keepdims", 1) == 0) return keep_arg(node);
    if (node.op->name == "STFT") return stft(node);
    if (node.op->family == Family::softmax && node.op->since >= 13) return inner_softmax(node);
    if (node.op->family == Family::reduce && node.int_attr("keepdims", 1) == 0) return keep_dims(node);
    return std::nullopt;
  }

  bool at_run_time(const Node& node, size_t input) const {
    return node.input(input) != kNone && constant(node.input(input)) == nullptr;
  }

  /// Moves a bias out of a convolution. The canonical form has constant biases, and none with run-time filters.
  std::optional<ValueId> without_bias(const Node& node) {
    if (!f32(node.inputs[0]) || !context_.take()) return std::nullopt;
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

  std::optional<ValueId> gemm(const Node& node) {
    if (!f32(node.inputs[0]) || !context_.take()) return std::nullopt;
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

  std::optional<ValueId> batch_norm(const Node& node) {
    for (size_t i = 1; i < 5; ++i) {
      if (constant(node.inputs[i]) == nullptr || !f32(node.inputs[i])) return std::nullopt;
    }
    if (!f32(node.inputs[0]) || node.outputs.size() > 1 || node.int_attr("training_mode", 0) != 0) return std::nullopt;
    if (!context_.take()) return std::nullopt;
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
    return reshape(b_.add(node.op->name, inputs, attrs, node.name), y, node.name + ".out");
  }

  std::optional<ValueId> conv1d(const Node& node) {
    const Tensor* w = constant(node.inputs[1]);
    if (!f32(node.inputs[0]) || w == nullptr || !context_.take()) return std::nullopt;
    Attrs attrs = window_attrs(with_row(conv_window(node, type(node.inputs[0]).shape, w->shape())));
    attrs["group"] = node.int_attr("group", 1);
    return over_row(node, attrs);
  }

  /// Rewrites a convolution with filters computed at run time, as in trackers and networks with modulated weights:
  /// filters times columns, group by group. A column holds the elements under the filter at one position. Depthwise
  /// convolutions stay: products of one row are slower than the reference kernel (measured).
  std::optional<ValueId> conv_of_run_time_filters(const Node& node) {
    const Shape x = type(node.inputs[0]).shape, w = type(node.inputs[1]).shape, y = type(node.outputs[0]).shape;
    const int64_t groups = node.int_attr("group", 1);
    const bool depthwise = groups > 1 && groups == x[1] && groups == y[1];
    if (!f32(node.inputs[0]) || elems(y) == 0 || elems(x) == 0 || depthwise || !context_.take()) return std::nullopt;
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
  std::optional<ValueId> spread_filters(const Node& node) {
    const Tensor* w = constant(node.inputs[1]);
    if (w == nullptr || !f32(node.inputs[0])) return std::nullopt;
    constexpr int64_t kMostWide = 16 << 20;  // elements: 64 MiB
    const Window win = conv_transpose_window(node, type(node.inputs[0]).shape, w->shape());
    Shape shape = w->shape();
    int64_t wide_elems = shape[0] * shape[1];
    for (size_t d = 0; d < win.rank(); ++d) {
      shape[d + 2] = win.span(d);
      if (shape[d + 2] > kMostWide / std::max<int64_t>(wide_elems, 1)) return std::nullopt;
      wide_elems *= shape[d + 2];
    }
    if (!context_.take()) return std::nullopt;
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

  std::optional<ValueId> conv_transpose1d(const Node& node) {
    const Tensor* w = constant(node.inputs[1]);
    if (!f32(node.inputs[0]) || w == nullptr || !context_.take()) return std::nullopt;
    const Window win = with_row(conv_transpose_window(node, type(node.inputs[0]).shape, w->shape()));
    Attrs attrs = window_attrs(win);
    attrs["output_padding"] = output_padding(win);
    attrs["group"] = node.int_attr("group", 1);
    return over_row(node, attrs);
  }

  std::optional<ValueId> pool1d(const Node& node) {
    const bool indices = node.outputs.size() > 1 && node.outputs[1] != kNone;
    if (!f32(node.inputs[0]) || indices || !context_.take()) return std::nullopt;
    return over_row(node, pool_attrs(node, with_row(pool_window(node, type(node.inputs[0]).shape))));
  }

  /// Turns phases that do not overlap into channels of one convolution. With few output channels, computing the phases
  /// separately would leave most lanes of a block empty.
  std::optional<ValueId> upsampling(const Node& node) {
    constexpr int64_t kFewChannels = 16;
    const Tensor* w = constant(node.inputs[1]);
    const Shape& x = type(node.inputs[0]).shape;
    if (w == nullptr || !f32(node.inputs[0]) || x.size() != 4 || node.int_attr("group", 1) != 1) return std::nullopt;
    const Window win = conv_transpose_window(node, x, w->shape());
    const int64_t channels = w->shape()[1], s = win.strides[0];
    const std::vector<int64_t> none{0, 0}, ones{1, 1};
    if (s < 2 || win.strides[1] != s || win.kernel != win.strides || win.pads_begin != none || win.pads_end != none ||
        win.dilations != ones || win.out != std::vector<int64_t>{x[2] * s, x[3] * s}) {
      return std::nullopt;
    }
    const Tensor* bias = constant(node.input(2));
    const bool plain_bias = node.input(2) == kNone || bias != nullptr;
    if (channels * s * s > kFewChannels || !plain_bias || !context_.take()) return std::nullopt;
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

  std::optional<ValueId> global_reduction(const Node& node, std::string_view op) {
    const size_t rank = type(node.inputs[0]).shape.size();
    if (!f32(node.inputs[0]) || rank < 3 || !context_.take()) return std::nullopt;
    std::vector<int64_t> axes;
    for (size_t d = 2; d < rank; ++d) axes.push_back(static_cast<int64_t>(d));
    return reduce(node, op, axes);
  }

  /// Puts all positions into one row: kernels run along rows, which may be short.
  std::optional<ValueId> samples_in_a_row(const Node& node) {
    const Shape &grid = type(node.inputs[1]).shape, &y = type(node.outputs[0]).shape;
    if (!f32(node.inputs[0]) || !f32(node.inputs[1]) || y.size() != 4 || y[2] == 1 || elems(y) == 0 || !context_.take())
      return std::nullopt;
    Node row = node;
    row.inputs[1] = reshape(node.inputs[1], {grid[0], 1, grid[1] * grid[2], 2}, node.name + ".grid");
    return reshape(added(row), y, node.name + ".rows");
  }

  std::optional<ValueId> keep_arg(const Node& node) {
    if (!f32(node.inputs[0]) || !context_.take()) return std::nullopt;
    Node kept = node;
    kept.attrs["keepdims"] = int64_t{1};
    return reshape(added(kept), type(node.outputs[0]).shape, node.name + ".squeeze");
  }

  /// Rewrites the STFT of a real signal: overlapping frames are a view of it, and the real and imaginary parts of each
  /// frequency are columns of one product.
  std::optional<ValueId> stft(const Node& node) {
    constexpr int64_t kMostWaves = 16 << 20;  // elements: 64 MiB
    const Shape &x = type(node.inputs[0]).shape, &y = type(node.outputs[0]).shape;
    const auto known = [&](size_t i) { return constant(node.input(i)); };
    const Tensor *step = known(1), *window = known(2), *given = known(3);
    const bool unknown = step == nullptr || (node.input(2) != kNone && window == nullptr) ||
                         (node.input(3) != kNone && given == nullptr);
    const bool real = x.size() == 2 || x[2] == 1;
    if (unknown || !real || !f32(node.inputs[0]) || elems(y) == 0) return std::nullopt;
    const int64_t length = window != nullptr ? window->elems() : given != nullptr ? given->as_int(0) : x[1];
    const int64_t columns = 2 * y[2];
    if (length * columns > kMostWaves || !context_.take()) return std::nullopt;
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

  std::optional<ValueId> inner_softmax(const Node& node) {
    const Shape& shape = type(node.inputs[0]).shape;
    const auto rank = static_cast<int64_t>(shape.size());
    const int64_t axis = normal_axis(node, node.int_attr("axis", -1), rank);
    if (axis + 1 == rank || !f32(node.inputs[0]) || !context_.take()) return std::nullopt;
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

  std::optional<ValueId> keep_dims(const Node& node) {
    const std::vector<int64_t> axes = reduced_axes(view(graph_, node));
    if (axes.empty() || !context_.take()) return std::nullopt;
    return reshape(reduce(node, node.op->name, axes), type(node.outputs[0]).shape, node.name + ".squeeze");
  }

  Graph& graph_;
  PassContext& context_;
  GraphBuilder b_;
};

}  // namespace

void canonicalise(Graph& graph, PassContext& context) { Canonical(graph, context).run(); }

}  // namespace kilter
