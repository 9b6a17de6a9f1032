#include "ops/recurrent.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "ops/elementwise.h"

namespace kilter {
namespace {

bool is_lstm(const Node& node) { return node.op->name == "LSTM"; }

void expect_shape(const InferContext& ctx, size_t i, const char* what, const Shape& expected) {
  if (ctx.has(i) && ctx.shape(i) != expected) {
    ctx.error(fmt::format("{} (input {}) has shape {}, expected {}", what, i, text(ctx.shape(i)), text(expected)));
  }
}

/// Name, whether it takes alpha and beta, and their defaults (those of the ONNX operator of that name).
struct Row {
  std::string_view name;
  Activation::Kind kind;
  bool has_alpha, has_beta;
  double alpha, beta;
};
constexpr std::array<Row, 11> kActivations = {{
    {"relu", Activation::Kind::relu, false, false, 0, 0},
    {"tanh", Activation::Kind::tanh, false, false, 0, 0},
    {"sigmoid", Activation::Kind::sigmoid, false, false, 0, 0},
    {"affine", Activation::Kind::affine, true, true, 1, 0},
    {"leakyrelu", Activation::Kind::leaky_relu, true, false, 0.01, 0},
    {"thresholdedrelu", Activation::Kind::thresholded_relu, true, false, 1, 0},
    {"scaledtanh", Activation::Kind::scaled_tanh, true, true, 1, 1},
    {"hardsigmoid", Activation::Kind::hard_sigmoid, true, true, 0.2, 0.5},
    {"elu", Activation::Kind::elu, true, false, 1, 0},
    {"softsign", Activation::Kind::softsign, false, false, 0, 0},
    {"softplus", Activation::Kind::softplus, false, false, 0, 0},
}};

const Row& activation_row(const Node& node, std::string name) {
  std::transform(name.begin(), name.end(), name.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  for (const Row& row : kActivations) {
    if (row.name == name) return row;
  }
  node_error(node, fmt::format("attribute activations names '{}', legal are Relu, Tanh, Sigmoid, Affine, LeakyRelu, "
                               "ThresholdedRelu, ScaledTanh, HardSigmoid, Elu, Softsign and Softplus",
                               name));
}

/// The activation functions of all directions. Alphas and betas go, in order, to the functions that take one.
std::vector<Activation> activations_of(const Node& node, const std::vector<std::string>& defaults, int64_t directions) {
  std::vector<std::string> names;
  if (const auto found = node.attrs.find("activations"); found != node.attrs.end()) {
    names = std::get<std::vector<std::string>>(found->second);
  }
  const size_t count = defaults.size() * static_cast<size_t>(directions);
  if (names.empty()) {
    for (int64_t d = 0; d < directions; ++d) names.insert(names.end(), defaults.begin(), defaults.end());
  }
  if (names.size() != count && !(directions == 1 && names.size() == 2 * count)) {
    node_error(node, fmt::format("attribute activations has {} names, expected {}", names.size(), count));
  }
  const std::vector<float> alphas = node.floats_attr("activation_alpha");
  const std::vector<float> betas = node.floats_attr("activation_beta");
  size_t alpha = 0;
  size_t beta = 0;
  std::vector<Activation> list;
  for (size_t i = 0; i < count; ++i) {
    const Row& row = activation_row(node, names[i]);
    Activation f{row.kind, row.alpha, row.beta};
    if (row.has_alpha && alpha < alphas.size()) f.alpha = alphas[alpha++];
    if (row.has_beta && beta < betas.size()) f.beta = betas[beta++];
    list.push_back(f);
  }
  return list;
}

bool runs_backward(const Node& node, int64_t direction) {
  return direction == 1 || node.string_attr("direction", "forward") == "reverse";
}

/// Operand i as doubles; zeros when it is left out.
std::vector<double> operand_or_zeros(const ReferenceContext& ctx, size_t i, int64_t count) {
  if (ctx.has(i)) return load_doubles(ctx.in(i));
  return std::vector<double>(static_cast<size_t>(count), 0.0);
}

std::vector<double> part(const std::vector<double>& all, int64_t begin, int64_t count) {
  return {all.begin() + begin, all.begin() + begin + count};
}

}  // namespace

Shape RecurrentShape::all_states() const {
  return batch_first ? Shape{batch, steps, directions, hidden} : Shape{steps, directions, batch, hidden};
}
Shape RecurrentShape::last_states() const {
  return batch_first ? Shape{batch, directions, hidden} : Shape{directions, batch, hidden};
}
int64_t RecurrentShape::x_at(int64_t step, int64_t b) const {
  return (batch_first ? b * steps + step : step * batch + b) * input;
}
int64_t RecurrentShape::y_at(int64_t step, int64_t direction, int64_t b) const {
  return (batch_first ? (b * steps + step) * directions + direction : (step * directions + direction) * batch + b) *
         hidden;
}
int64_t RecurrentShape::state_at(int64_t direction, int64_t b) const {
  return (batch_first ? b * directions + direction : direction * batch + b) * hidden;
}

RecurrentShape recurrent_shape(const Node& node, const Shape& x, const Shape& w, const Shape& r, int64_t gates) {
  const std::string direction = node.string_attr("direction", "forward");
  if (direction != "forward" && direction != "reverse" && direction != "bidirectional") {
    node_error(node,
               fmt::format("attribute direction is '{}', legal are forward, reverse and bidirectional", direction));
  }
  RecurrentShape shape;
  shape.gates = gates;
  shape.directions = direction == "bidirectional" ? 2 : 1;
  shape.batch_first = node.int_attr("layout", 0) != 0;
  if (x.size() != 3 || r.size() != 3) {
    node_error(node, fmt::format("x and r have shapes {} and {}, expected rank 3", text(x), text(r)));
  }
  shape.steps = x[shape.batch_first ? 1 : 0];
  shape.batch = x[shape.batch_first ? 0 : 1];
  shape.input = x[2];
  shape.hidden = r[2];
  const Shape expected_w = {shape.directions, gates * shape.hidden, shape.input};
  const Shape expected_r = {shape.directions, gates * shape.hidden, shape.hidden};
  if (w != expected_w || r != expected_r) {
    node_error(node, fmt::format("w and r have shapes {} and {}, expected {} and {}", text(w), text(r),
                                 text(expected_w), text(expected_r)));
  }
  if (node.int_attr("hidden_size", shape.hidden) != shape.hidden) {
    node_error(
        node, fmt::format("attribute hidden_size is {}, but r has shape {}", node.int_attr("hidden_size", 0), text(r)));
  }
  return shape;
}

void infer_recurrent(InferContext& ctx, int64_t gates) {
  check_types(Floats{}, ctx, 0);
  const RecurrentShape shape = recurrent_shape(ctx.node, ctx.shape(0), ctx.shape(1), ctx.shape(2), gates);
  for (size_t i = 1; i < ctx.input_count(); ++i) {
    if (ctx.has(i) && i != 4 && ctx.dtype(i) != ctx.dtype(0)) {
      ctx.error(fmt::format("input {} has element type {}, expected {}", i, name(ctx.dtype(i)), name(ctx.dtype(0))));
    }
  }
  expect_shape(ctx, 3, "bias", {shape.directions, 2 * gates * shape.hidden});
  expect_shape(ctx, 4, "sequence_lens", {shape.batch});
  expect_shape(ctx, 5, "initial_h", shape.last_states());
  if (ctx.has(4)) check_types(Types<int32_t>{}, ctx, 4);
  if (is_lstm(ctx.node)) {
    expect_shape(ctx, 6, "initial_c", shape.last_states());
    expect_shape(ctx, 7, "peepholes", {shape.directions, 3 * shape.hidden});
  }
  for (size_t i = 0; i < ctx.outputs.size(); ++i) {
    ctx.set(i, ctx.dtype(0), i == 0 ? shape.all_states() : shape.last_states());
  }
}

double Activation::operator()(double x) const {
  switch (kind) {
    case Kind::relu:
      return std::max(x, 0.0);
    case Kind::tanh:
      return std::tanh(x);
    case Kind::sigmoid:
      return 1 / (1 + std::exp(-x));
    case Kind::affine:
      return alpha * x + beta;
    case Kind::leaky_relu:
      return x >= 0 ? x : alpha * x;
    case Kind::thresholded_relu:
      return x >= alpha ? x : 0;
    case Kind::scaled_tanh:
      return alpha * std::tanh(beta * x);
    case Kind::hard_sigmoid:
      return std::clamp(alpha * x + beta, 0.0, 1.0);
    case Kind::elu:
      return x >= 0 ? x : alpha * std::expm1(x);
    case Kind::softsign:
      return x / (1 + std::abs(x));
    case Kind::softplus:
      return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x));
  }
  return x;
}

double Direction::from_input(int64_t row, const double* x) const {
  double sum = w_bias[static_cast<size_t>(row)];
  for (int64_t i = 0; i < input; ++i) sum += w[row * input + i] * x[i];
  return sum;
}
double Direction::from_state(int64_t row, const double* h) const {
  double sum = r_bias[static_cast<size_t>(row)];
  for (int64_t i = 0; i < hidden; ++i) sum += r[row * hidden + i] * h[i];
  return sum;
}
double Direction::clipped(double value) const { return std::clamp(value, -clip, clip); }

void run_recurrent(ReferenceContext& ctx, int64_t gates, const std::vector<std::string>& defaults,
                   const RecurrentStep& step) {
  const Node& node = ctx.node;
  const RecurrentShape shape = recurrent_shape(node, ctx.in(0).shape(), ctx.in(1).shape(), ctx.in(2).shape(), gates);
  const int64_t rows = gates * shape.hidden;
  const std::vector<double> x = load_doubles(ctx.in(0));
  const std::vector<double> w = load_doubles(ctx.in(1));
  const std::vector<double> r = load_doubles(ctx.in(2));
  const std::vector<double> bias = operand_or_zeros(ctx, 3, shape.directions * 2 * rows);
  const int64_t states = elems(shape.last_states());
  std::vector<double> last_h = operand_or_zeros(ctx, 5, states);
  std::vector<double> last_c = operand_or_zeros(ctx, is_lstm(node) ? 6 : SIZE_MAX, states);
  const std::vector<double> peephole =
      operand_or_zeros(ctx, is_lstm(node) ? 7 : SIZE_MAX, shape.directions * 3 * shape.hidden);
  const std::vector<Activation> functions = activations_of(node, defaults, shape.directions);
  std::vector<double> all(static_cast<size_t>(elems(shape.all_states())), 0.0);
  for (int64_t d = 0; d < shape.directions; ++d) {
    Direction direction;
    direction.w = w.data() + d * rows * shape.input;
    direction.r = r.data() + d * rows * shape.hidden;
    direction.w_bias = part(bias, 2 * d * rows, rows);
    direction.r_bias = part(bias, (2 * d + 1) * rows, rows);
    direction.peephole = part(peephole, d * 3 * shape.hidden, 3 * shape.hidden);
    const auto per = static_cast<int64_t>(defaults.size());
    direction.f.assign(functions.begin() + d * per, functions.begin() + (d + 1) * per);
    direction.input = shape.input;
    direction.hidden = shape.hidden;
    if (node.has_attr("clip")) direction.clip = std::abs(node.float_attr("clip", 0));
    for (int64_t b = 0; b < shape.batch; ++b) {
      const int64_t length = ctx.has(4) ? ctx.in(4).as_int(b) : shape.steps;
      if (length < 0 || length > shape.steps) {
        fail(ErrorKind::bad_input, "{} '{}': sequence_lens holds {}, legal are 0 to {}", node.op->name, node.name,
             length, shape.steps);
      }
      std::vector<double> h = part(last_h, shape.state_at(d, b), shape.hidden);
      std::vector<double> c = part(last_c, shape.state_at(d, b), shape.hidden);
      for (int64_t s = 0; s < length; ++s) {
        const int64_t t = runs_backward(node, d) ? length - 1 - s : s;
        step(direction, x.data() + shape.x_at(t, b), h, c);
        std::copy(h.begin(), h.end(), all.begin() + shape.y_at(t, d, b));
      }
      std::copy(h.begin(), h.end(), last_h.begin() + shape.state_at(d, b));
      std::copy(c.begin(), c.end(), last_c.begin() + shape.state_at(d, b));
    }
  }
  if (ctx.wants(0)) store_doubles(ctx.out(0), all);
  if (ctx.wants(1)) store_doubles(ctx.out(1), last_h);
  if (ctx.wants(2)) store_doubles(ctx.out(2), last_c);
}

int64_t recurrent_flops(const OpView& view, int64_t gates) {
  const RecurrentShape s =
      recurrent_shape(view.node, view.inputs[0].shape, view.inputs[1].shape, view.inputs[2].shape, gates);
  return 2 * s.directions * s.steps * s.batch * gates * s.hidden * (s.input + s.hidden);
}

std::vector<AttrSpec> recurrent_attrs(const std::vector<AttrSpec>& more) {
  std::vector<AttrSpec> attrs = {{"activation_alpha", "floats", ""},
                                 {"activation_beta", "floats", ""},
                                 {"activations", "strings", ""},
                                 {"clip", "float", ""},
                                 {"direction", "string", "forward"},
                                 {"hidden_size", "int", ""},
                                 {"layout", "int", "0"}};
  attrs.insert(attrs.end(), more.begin(), more.end());
  return attrs;
}

}  // namespace kilter
