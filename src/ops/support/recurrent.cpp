#include "ops/support/recurrent.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "ops/support/elementwise.h"
#include "ops/support/formulas.h"
#include "ops/support/indexing.h"

namespace kilter {
namespace {

using Form = RecurrentForm;
constexpr size_t kNo = Form::kAbsent;

constexpr std::array<std::string_view, 1> kRnnFunctions = {"Tanh"};
constexpr std::array<std::string_view, 2> kGruFunctions = {"Sigmoid", "Tanh"};
constexpr std::array<std::string_view, 3> kLstmFunctions = {"Sigmoid", "Tanh", "Tanh"};
// Indices of the inputs: w, r, bias, lens, initial_h, initial_c, peepholes, hidden_bias, r_scale.
constexpr std::array<Form, 6> kForms = {{
    {"RNN", Form::rnn, 1, kRnnFunctions, 1, 2, 3, 4, 5, kNo, kNo, kNo},
    {"GRU", Form::gru, 3, kGruFunctions, 1, 2, 3, 4, 5, kNo, kNo, kNo},
    {"LSTM", Form::lstm, 4, kLstmFunctions, 1, 2, 3, 4, 5, 6, 7, kNo},
    {"RNNSteps", Form::rnn, 1, kRnnFunctions, kNo, 1, kNo, 3, 2, kNo, kNo, kNo},
    {"GRUSteps", Form::gru, 3, kGruFunctions, kNo, 1, kNo, 4, 2, kNo, kNo, 3},
    {"LSTMSteps", Form::lstm, 4, kLstmFunctions, kNo, 1, kNo, 5, 2, 3, 4, kNo, 6},
}};

void expect_shape(const InferContext& ctx, size_t i, const char* what, const Shape& expected) {
  if (ctx.has(i) && ctx.shape(i) != expected) {
    ctx.error(fmt::format("{} (input {}) has shape {}, expected {}", what, i, text(ctx.shape(i)), text(expected)));
  }
}

/// A function's name, whether it has parameters alpha and beta, and their defaults (those of the ONNX operator of that
/// name).
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

const Row& activation_row(const Node& node, const std::string& name) {
  std::string lower = name;
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  for (const Row& row : kActivations) {
    if (row.name == lower) return row;
  }
  node_error(node,
             fmt::format("attribute activations names '{}'; legal values are Relu, Tanh, Sigmoid, Affine, LeakyRelu, "
                         "ThresholdedRelu, ScaledTanh, HardSigmoid, Elu, Softsign and Softplus",
                         name));
}

bool runs_backward(const Node& node, int64_t direction) {
  return direction == 1 || node.string_attr("direction", "forward") == "reverse";
}

/// Returns operand i as doubles, or zeros if it is omitted.
std::vector<double> operand_or_zeros(const ReferenceContext& ctx, size_t i, int64_t count) {
  if (ctx.has(i)) return load_doubles(ctx.in(i));
  return std::vector<double>(static_cast<size_t>(count), 0.0);
}

std::vector<double> part(const std::vector<double>& all, int64_t begin, int64_t count) {
  return {all.begin() + begin, all.begin() + begin + count};
}

/// Returns r, times the factors of its rows if there are any.
std::vector<double> scaled_r(const ReferenceContext& ctx, const RecurrentShape& shape) {
  const Form& form = recurrent_form(ctx.node);
  std::vector<double> r = load_doubles(ctx.in(form.r));
  if (!ctx.has(form.r_scale)) return r;
  const std::vector<double> factors = load_doubles(ctx.in(form.r_scale));
  for (size_t i = 0; i < r.size(); ++i) r[i] *= factors[i / static_cast<size_t>(shape.hidden)];
  return r;
}

/// Returns the weights and functions of direction `d`.
Direction direction_of(const ReferenceContext& ctx, const RecurrentShape& shape, int64_t d, const double* w,
                       const double* r) {
  const Form& form = recurrent_form(ctx.node);
  const int64_t rows = shape.gates * shape.hidden, hidden = shape.hidden;
  Direction direction;
  if (w != nullptr) direction.w = w + d * rows * shape.input;
  direction.r = r + d * rows * hidden;
  const std::vector<double> bias = operand_or_zeros(ctx, form.bias, shape.directions * 2 * rows);
  direction.w_bias = part(bias, 2 * d * rows, rows);
  direction.r_bias = part(bias, (2 * d + 1) * rows, rows);
  if (ctx.has(form.hidden_bias)) {
    const std::vector<double> last = part(load_doubles(ctx.in(form.hidden_bias)), d * hidden, hidden);
    std::copy(last.begin(), last.end(), direction.r_bias.end() - hidden);
  }
  const std::vector<double> peepholes = operand_or_zeros(ctx, form.peepholes, shape.directions * 3 * hidden);
  direction.peephole = part(peepholes, d * 3 * hidden, 3 * hidden);
  const std::vector<Activation> functions = recurrent_activations(ctx.node, shape.directions);
  const auto per = static_cast<int64_t>(form.functions.size());
  direction.f.assign(functions.begin() + d * per, functions.begin() + (d + 1) * per);
  direction.input = shape.input;
  direction.hidden = hidden;
  direction.clip = recurrent_clip(ctx.node);
  return direction;
}

int64_t sequence_length(const ReferenceContext& ctx, const RecurrentShape& shape, int64_t b) {
  const size_t lens = recurrent_form(ctx.node).lens;
  return ctx.has(lens) ? checked_index(ctx.node, ctx.in(lens), b, length_range(shape)) : shape.steps;
}

}  // namespace

const RecurrentForm* find_recurrent_form(const Node& node) {
  const auto it = std::find_if(kForms.begin(), kForms.end(), [&](const Form& f) { return f.name == node.op->name; });
  return it == kForms.end() ? nullptr : &*it;
}
const RecurrentForm& recurrent_form(const Node& node) {
  const RecurrentForm* form = find_recurrent_form(node);
  require(form != nullptr, "{} is not a recurrent operator", label(node));
  return *form;
}

std::vector<Activation> recurrent_activations(const Node& node, int64_t directions) {
  const auto defaults = recurrent_form(node).functions;
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

double recurrent_clip(const Node& node) {
  return node.has_attr("clip") ? std::abs(node.float_attr("clip", 0)) : std::numeric_limits<double>::infinity();
}

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

RecurrentShape recurrent_shape(const Node& node, const Shape& x, const Shape* w, const Shape& r) {
  const std::string direction = node.string_attr("direction", "forward");
  if (direction != "forward" && direction != "reverse" && direction != "bidirectional") {
    node_error(node, fmt::format("attribute direction is '{}'; legal values are forward, reverse and bidirectional",
                                 direction));
  }
  RecurrentShape shape;
  shape.gates = recurrent_form(node).gates;
  shape.directions = direction == "bidirectional" ? 2 : 1;
  shape.batch_first = node.int_attr("layout", 0) != 0;
  if (x.size() != 3 || r.size() != 3) {
    node_error(node, fmt::format("x and r have shapes {} and {}, expected rank 3", text(x), text(r)));
  }
  shape.steps = x[shape.batch_first ? 1 : 0];
  shape.batch = x[shape.batch_first ? 0 : 1];
  shape.input = x[2];
  shape.hidden = r[2];
  const int64_t rows = shape.gates * shape.hidden;
  const Shape expected_r = {shape.directions, rows, shape.hidden};
  if (w == nullptr) {
    if (r != expected_r || shape.input != shape.directions * rows) {
      node_error(node, fmt::format("projected x and r have shapes {} and {}, expected a last extent of {} and {}",
                                   text(x), text(r), shape.directions * rows, text(expected_r)));
    }
    return shape;
  }
  const Shape expected_w = {shape.directions, rows, shape.input};
  if (*w != expected_w || r != expected_r) {
    node_error(node, fmt::format("w and r have shapes {} and {}, expected {} and {}", text(*w), text(r),
                                 text(expected_w), text(expected_r)));
  }
  if (node.int_attr("hidden_size", shape.hidden) != shape.hidden) {
    node_error(
        node, fmt::format("attribute hidden_size is {}, but r has shape {}", node.int_attr("hidden_size", 0), text(r)));
  }
  return shape;
}

RecurrentShape recurrent_shape(const OpView& view) {
  const Form& form = recurrent_form(view.node);
  return recurrent_shape(view.node, view.inputs[0].shape, form.projected() ? nullptr : &view.inputs[form.w].shape,
                         view.inputs[form.r].shape);
}

void infer_recurrent(InferContext& ctx) {
  check_types(Floats{}, ctx, 0);
  const Form& form = recurrent_form(ctx.node);
  const RecurrentShape shape =
      recurrent_shape(ctx.node, ctx.shape(0), form.projected() ? nullptr : &ctx.shape(form.w), ctx.shape(form.r));
  for (size_t i = 1; i < ctx.input_count(); ++i) {
    if (ctx.has(i) && i != form.lens && ctx.dtype(i) != ctx.dtype(0)) {
      ctx.error(fmt::format("input {} has element type {}, expected {}", i, name(ctx.dtype(i)), name(ctx.dtype(0))));
    }
  }
  expect_shape(ctx, form.bias, "bias", {shape.directions, 2 * shape.gates * shape.hidden});
  expect_shape(ctx, form.hidden_bias, "hidden_bias", {shape.directions, shape.hidden});
  expect_shape(ctx, form.r_scale, "r_scale", {shape.directions, shape.gates * shape.hidden});
  expect_shape(ctx, form.lens, "sequence_lens", {shape.batch});
  expect_shape(ctx, form.initial_h, "initial_h", shape.last_states());
  expect_shape(ctx, form.initial_c, "initial_c", shape.last_states());
  expect_shape(ctx, form.peepholes, "peepholes", {shape.directions, 3 * shape.hidden});
  if (ctx.has(form.lens)) check_types(Types<int32_t>{}, ctx, form.lens);
  recurrent_activations(ctx.node, shape.directions);  // throws if they are illegal
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

Expr Activation::operator()(const Expr& x) const {
  const Expr a = like(x, alpha), b = like(x, beta), zero = like(x, 0);
  switch (kind) {
    case Kind::relu:
      return max(zero, x);
    case Kind::tanh:
      return unary(Op::tanh, x);
    case Kind::sigmoid:
      return unary(Op::sigmoid, x);
    case Kind::affine:
      return a * x + b;
    case Kind::leaky_relu:
      return select(binary(Op::ge, x, zero), x, a * x);
    case Kind::thresholded_relu:
      return select(binary(Op::ge, x, a), x, zero);
    case Kind::scaled_tanh:
      return a * unary(Op::tanh, b * x);
    case Kind::hard_sigmoid:
      return clamp01(a * x + b);
    case Kind::elu:
      return select(binary(Op::ge, x, zero), x, a * unary(Op::expm1, x));
    case Kind::softsign:
      return x / (like(x, 1) + unary(Op::abs, x));
    case Kind::softplus:
      return softplus(x);
  }
  return x;
}

double Direction::from_input(int64_t row, const double* x) const {
  if (w == nullptr) return x[row];
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

void run_recurrent(ReferenceContext& ctx, const RecurrentStep& step) {
  const Node& node = ctx.node;
  const Form& form = recurrent_form(node);
  const RecurrentShape shape = recurrent_shape(
      node, ctx.in(0).shape(), form.projected() ? nullptr : &ctx.in(form.w).shape(), ctx.in(form.r).shape());
  const std::vector<double> x = load_doubles(ctx.in(0));
  const std::vector<double> w = form.projected() ? std::vector<double>() : load_doubles(ctx.in(form.w));
  const std::vector<double> r = scaled_r(ctx, shape);
  const int64_t states = elems(shape.last_states());
  std::vector<double> last_h = operand_or_zeros(ctx, form.initial_h, states);
  std::vector<double> last_c = operand_or_zeros(ctx, form.initial_c, states);
  std::vector<double> all(static_cast<size_t>(elems(shape.all_states())), 0.0);
  for (int64_t d = 0; d < shape.directions; ++d) {
    const Direction direction = direction_of(ctx, shape, d, form.projected() ? nullptr : w.data(), r.data());
    const double* own_x = x.data() + (form.projected() ? d * shape.gates * shape.hidden : 0);
    for (int64_t b = 0; b < shape.batch; ++b) {
      const int64_t length = sequence_length(ctx, shape, b);
      std::vector<double> h = part(last_h, shape.state_at(d, b), shape.hidden);
      std::vector<double> c = part(last_c, shape.state_at(d, b), shape.hidden);
      for (int64_t s = 0; s < length; ++s) {
        const int64_t t = runs_backward(node, d) ? length - 1 - s : s;
        step(direction, own_x + shape.x_at(t, b), h, c);
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

int64_t recurrent_flops(const OpView& view) {
  const RecurrentShape s = recurrent_shape(view);
  const int64_t columns = s.hidden + (recurrent_form(view.node).projected() ? 0 : s.input);
  return 2 * s.directions * s.steps * s.batch * s.gates * s.hidden * columns;
}

std::optional<Rejected> recurrent_refusal(const OpView& view) {
  const Form& form = recurrent_form(view.node);
  const RecurrentShape s = recurrent_shape(view);
  if (view.inputs[0].dtype != DType::f32)
    return Rejected{"element type", "f32", std::string(name(view.inputs[0].dtype))};
  if (s.steps == 0 || s.batch == 0 || s.hidden == 0 || s.input == 0) {
    return Rejected{"steps, batch, input and hidden", "1 or more",
                    fmt::format("{}, {}, {} and {}", s.steps, s.batch, s.input, s.hidden)};
  }
  const auto absent = [&](size_t i) { return i >= view.present.size() || !view.present[i]; };
  for (const auto& [i, what] : {std::pair(form.w, "w"), std::pair(form.r, "r"), std::pair(form.bias, "bias"),
                                std::pair(form.r_scale, "r_scale")}) {
    if (!absent(i) && view.values[i] == nullptr) return Rejected{what, "constant", "computed at run time"};
  }
  if (absent(form.lens) || view.values[form.lens] == nullptr) return std::nullopt;
  const Tensor& lens = *view.values[form.lens];
  for (int64_t b = 0; b < s.batch; ++b) {
    if (!length_range(s).holds(b, lens.as_int(b)))
      return Rejected{"sequence_lens", fmt::format("0 to {}", s.steps), std::to_string(lens.as_int(b))};
  }
  return std::nullopt;
}

bool runs_all_steps(const OpView& view) {
  const size_t lens = recurrent_form(view.node).lens;
  if (lens >= view.present.size() || !view.present[lens]) return true;
  const Tensor* given = view.values[lens];
  if (given == nullptr) return false;
  const RecurrentShape s = recurrent_shape(view);
  for (int64_t b = 0; b < s.batch; ++b) {
    if (given->as_int(b) != s.steps) return false;
  }
  return true;
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
