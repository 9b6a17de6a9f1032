#include "base/shape_ranges.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/random.h"
#include "base/text.h"

namespace kilter {
namespace {

constexpr std::string_view kLegal =
    "expected numbers joined by x, or {LOW..HIGH}, {LOW..HIGH:STEP}, a list {1,2,4}, or {NAME=...} in place of a "
    "number";
/// Most shells replace unquoted braces by several words.
constexpr std::string_view kQuote = "put the value in quotes, since shells expand braces";

struct Parser {
  std::string_view input, shape;

  [[noreturn]] void refuse(std::string_view what) const {
    fail(ErrorKind::usage, "--shapes {}={}: {}; {}; {}", printable(input), printable(shape), what, kLegal, kQuote);
  }

  int64_t number(std::string_view text) const {
    const auto value = try_parse_int(text);
    if (value && *value >= 0 && *value <= ShapeRanges::kMostSize) return *value;
    refuse(fmt::format("'{}' is not a size from 0 to {}", printable(text), ShapeRanges::kMostSize));
  }

  /// Splits the shape at each 'x' outside braces.
  std::vector<std::string_view> parts() const {
    std::vector<std::string_view> out;
    size_t begin = 0;
    bool inside = false;
    for (size_t i = 0; i <= shape.size(); ++i) {
      if (i == shape.size() || (shape[i] == 'x' && !inside)) {
        out.push_back(shape.substr(begin, i - begin));
        begin = i + 1;
        continue;
      }
      if ((shape[i] == '{' && inside) || (shape[i] == '}' && !inside)) refuse("the braces do not match");
      if (shape[i] == '{' || shape[i] == '}') inside = shape[i] == '{';
    }
    if (inside) refuse("the braces do not match");
    return out;
  }

  void sizes(std::string_view text, DimRange& dim) const {
    const size_t dots = text.find("..");
    if (dots == std::string_view::npos) {
      std::set<int64_t> all;
      for (const std::string_view one : split(text, ',')) all.insert(number(one));
      dim.list.assign(all.begin(), all.end());
      return;
    }
    const size_t colon = text.find(':', dots);
    dim.low = number(text.substr(0, dots));
    dim.high = number(text.substr(dots + 2, colon == std::string_view::npos ? colon : colon - dots - 2));
    if (colon != std::string_view::npos) dim.step = number(text.substr(colon + 1));
    if (dim.step == 0) refuse("the step of a range is 0");
    if (dim.low > dim.high) refuse(fmt::format("the range {}..{} is empty", dim.low, dim.high));
    dim.high -= (dim.high - dim.low) % dim.step;
  }

  DimRange dim(std::string_view text) const {
    DimRange made;
    if (!text.starts_with('{')) {
      made.low = made.high = number(text);
      return made;
    }
    if (!text.ends_with('}')) refuse(fmt::format("'{}' follows a brace", text.substr(text.find('}') + 1)));
    text = text.substr(1, text.size() - 2);
    const size_t equals = text.find('=');
    const bool refers = equals == std::string_view::npos && !text.empty() &&
                        std::string_view("-0123456789").find(text[0]) == std::string_view::npos;
    if (refers || equals != std::string_view::npos) {
      made.symbol = text.substr(0, equals);
      if (made.symbol.empty()) refuse("a name is empty");
    }
    made.refers = refers;
    if (!refers) sizes(equals == std::string_view::npos ? text : text.substr(equals + 1), made);
    return made;
  }
};

/// Splits NAME=SHAPE at the last '=' outside braces.
std::pair<std::string, std::string_view> split_name(std::string_view text) {
  bool inside = false;
  for (size_t i = text.size(); i-- > 1;) {
    if (text[i] == '}') inside = true;
    if (text[i] == '{') inside = false;
    if (text[i] == '=' && !inside) return {std::string(text.substr(0, i)), text.substr(i + 1)};
  }
  fail(ErrorKind::usage, "--shapes {}: expected NAME=SHAPE, such as 'x=1x3x{{320..960:32}}x{{320..960:32}}'; {}",
       printable(text), kQuote);
}

}  // namespace

int64_t DimRange::count() const { return list.empty() ? (high - low) / step + 1 : std::ssize(list); }

int64_t DimRange::at(int64_t index) const {
  return list.empty() ? low + index * step : list[static_cast<size_t>(index)];
}

bool DimRange::contains(int64_t size) const {
  if (!list.empty()) return std::ranges::binary_search(list, size);
  return size >= low && size <= high && (size - low) % step == 0;
}

bool DimRange::is_legal() const {
  const auto in_limits = [](int64_t a, int64_t b) { return a >= 0 && a <= b && b <= ShapeRanges::kMostSize; };
  if (list.empty()) return in_limits(low, high) && step >= 1;
  return in_limits(list.front(), list.back()) && std::ranges::is_sorted(list);
}

std::string DimRange::text(bool named) const {
  const bool name = named && !symbol.empty();
  if (refers) return "{" + symbol + "}";
  std::string sizes = std::to_string(at(0));
  if (list.size() > 1) sizes = fmt::format("{}", fmt::join(list, ","));
  if (list.empty() && high > low) sizes = fmt::format("{}..{}{}", low, high, step == 1 ? "" : fmt::format(":{}", step));
  if (count() == 1) return sizes;
  return name ? fmt::format("{{{}={}}}", symbol, sizes) : "{" + sizes + "}";
}

std::string dimension_text(size_t axis, std::string_view symbol) {
  return symbol.empty() ? fmt::format("dimension {}", axis)
                        : fmt::format("dimension {} ('{}')", axis, printable(symbol));
}

ShapeRanges ShapeRanges::parse(const std::vector<std::string>& texts) {
  ShapeRanges made;
  for (const std::string& text : texts) {
    const auto [name, shape] = split_name(text);
    made.add(name, shape);
  }
  return made;
}

void ShapeRanges::add(const std::string& name, std::string_view shape) {
  const Parser parser{name, shape};
  if (const Input* before = find(name)) {
    fail(ErrorKind::usage,
         "--shapes {}={}: input '{}' already has the shape {}; give all its sizes in one value, and {}",
         printable(name), printable(shape), printable(name), text(*before), kQuote);
  }
  Input input{name, {}};
  if (shape != "scalar") {
    for (const std::string_view part : parser.parts()) input.dims.push_back(parser.dim(part));
  }
  inputs_.push_back(std::move(input));
}

const ShapeRanges::Input* ShapeRanges::find(std::string_view name) const {
  const auto found = std::ranges::find(inputs_, name, &Input::name);
  return found == inputs_.end() ? nullptr : &*found;
}

void ShapeRanges::resolve() {
  struct Known {
    std::string input;
    size_t axis;
    DimRange range;
  };
  std::map<std::string, Known> known;
  for (const Input& input : inputs_) {
    for (size_t axis = 0; axis < input.dims.size(); ++axis) {
      const DimRange& dim = input.dims[axis];
      if (dim.symbol.empty() || dim.refers) continue;
      const auto [at, fresh] = known.emplace(dim.symbol, Known{input.name, axis, dim});
      if (fresh || at->second.range.same_sizes(dim)) continue;
      fail(
          ErrorKind::usage,
          "--shapes: dimension {} of input '{}' and dimension {} of input '{}' are both named '{}', but have the sizes "
          "{} and {}; dimensions of one name always have the same size: give both the same sizes, or different names, "
          "as in {{other=1..8}}",
          at->second.axis, printable(at->second.input), axis, printable(input.name), printable(dim.symbol),
          at->second.range.text(false), dim.text(false));
    }
  }
  for (Input& input : inputs_) {
    for (size_t axis = 0; axis < input.dims.size(); ++axis) {
      DimRange& dim = input.dims[axis];
      if (!dim.refers) continue;
      const auto sizes = known.find(dim.symbol);
      if (sizes == known.end()) {
        fail(ErrorKind::usage,
             "--shapes: dimension {} of input '{}' is {{{}}}, but no dimension of this name has sizes; give them once, "
             "as in {{{}=1..512}}",
             axis, printable(input.name), printable(dim.symbol), printable(dim.symbol));
      }
      dim = sizes->second.range;
    }
  }
}

namespace {

/// Returns the sizes of a range next to one that it does not contain: ", of which 320 and 352 are the nearest".
std::string nearest(const DimRange& range, int64_t size) {
  if (range.count() == 1) return {};
  int64_t low = 0, high = range.count();  // the index of the first size above
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    (range.at(middle) < size ? low : high) = middle + (range.at(middle) < size ? 1 : 0);
  }
  if (low == 0) return fmt::format(", of which {} is the nearest", range.at(0));
  if (low == range.count()) return fmt::format(", of which {} is the nearest", range.at(low - 1));
  return fmt::format(", of which {} and {} are the nearest", range.at(low - 1), range.at(low));
}

}  // namespace

void ShapeRanges::check(const Shapes& shapes, std::string_view network) const {
  struct Known {
    const std::string* input;
    size_t axis;
    int64_t size;
  };
  std::map<std::string_view, Known> known;
  for (const Input& input : inputs_) {
    const auto given = shapes.find(input.name);
    if (given == shapes.end()) continue;
    const Shape& shape = given->second;
    const auto where = [&] { return fmt::format("{}: input '{}'", network, printable(input.name)); };
    if (shape.size() != input.dims.size()) {
      fail(ErrorKind::bad_input,
           "{} has shape {} with {} dimension{}; expected {} dimensions, as in its declared sizes {}", where(),
           kilter::text(shape), shape.size(), shape.size() == 1 ? "" : "s", input.dims.size(), text(input));
    }
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      const DimRange& dim = input.dims[axis];
      if (!dim.contains(shape[axis])) {
        fail(ErrorKind::bad_input,
             "{}: {} is {}; expected {}{}; give the input such a size, or declare {} as well (--shapes) when the "
             "network is compiled",
             where(), dimension_text(axis, dim.symbol), shape[axis], dim.text(false), nearest(dim, shape[axis]),
             shape[axis]);
      }
      if (dim.symbol.empty()) continue;
      const auto [at, fresh] = known.emplace(dim.symbol, Known{&input.name, axis, shape[axis]});
      if (fresh || at->second.size == shape[axis]) continue;
      fail(ErrorKind::bad_input,
           "{}: {} is {}, but dimension {} of input '{}' is {}; expected the same size, since both have the name '{}'; "
           "if they may differ, give them different names, as in {{other=1..8}} (--shapes)",
           where(), dimension_text(axis, dim.symbol), shape[axis], at->second.axis, printable(*at->second.input),
           at->second.size, printable(dim.symbol));
    }
  }
}

std::vector<ShapeRanges::Variable> ShapeRanges::variables() const {
  std::vector<Variable> all;
  std::map<std::string_view, size_t> named;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    for (size_t axis = 0; axis < inputs_[i].dims.size(); ++axis) {
      const DimRange& dim = inputs_[i].dims[axis];
      const bool fresh = dim.symbol.empty() || named.emplace(dim.symbol, all.size()).second;
      if (fresh) all.push_back({&dim, {}});
      (fresh ? all.back() : all[named.at(dim.symbol)]).dims.emplace_back(i, axis);
    }
  }
  return all;
}

ShapeRanges::Shapes ShapeRanges::shapes_of(const std::vector<Variable>& variables,
                                           const std::vector<int64_t>& indices) const {
  Shapes shapes;
  for (const Input& input : inputs_) shapes[input.name].resize(input.dims.size());
  for (size_t v = 0; v < variables.size(); ++v) {
    for (const auto& [input, axis] : variables[v].dims)
      shapes[inputs_[input].name][axis] = variables[v].range->at(indices[v]);
  }
  return shapes;
}

int64_t ShapeRanges::count() const {
  int64_t all = 1;
  for (const Variable& v : variables()) {
    const int64_t own = v.range->count();
    if (all > std::numeric_limits<int64_t>::max() / own) return std::numeric_limits<int64_t>::max();
    all *= own;
  }
  return all;
}

ShapeRanges::Shapes ShapeRanges::at(int64_t index) const {
  const std::vector<Variable> all = variables();
  std::vector<int64_t> indices(all.size());
  for (size_t v = all.size(); v-- > 0;) {
    const int64_t own = all[v].range->count();
    indices[v] = index % own;
    index /= own;
  }
  return shapes_of(all, indices);
}

std::vector<ShapeRanges::Shapes> ShapeRanges::all() const {
  std::vector<Shapes> shapes;
  const int64_t most = count();
  shapes.reserve(static_cast<size_t>(most));
  for (int64_t i = 0; i < most; ++i) shapes.push_back(at(i));
  return shapes;
}

std::vector<ShapeRanges::Shapes> ShapeRanges::spread(int64_t most) const {
  if (count() <= most) return all();
  const std::vector<Variable> all = variables();
  std::vector<size_t> free;  // variables with several sizes
  for (size_t v = 0; v < all.size(); ++v) {
    if (all[v].range->count() > 1) free.push_back(v);
  }
  std::vector<Shapes> made;
  std::set<Shapes> seen;
  std::vector<int64_t> indices(all.size());
  const auto add = [&] {
    Shapes shapes = shapes_of(all, indices);
    if (std::ssize(made) < most && seen.insert(shapes).second) made.push_back(std::move(shapes));
  };
  // The smallest, the largest, then the corners in which one dimension differs from these.
  for (const bool high : {false, true}) {
    for (const size_t v : free) indices[v] = high ? all[v].range->count() - 1 : 0;
    add();
  }
  for (const bool high : {true, false}) {
    for (const size_t odd : free) {
      if (2 * std::ssize(made) >= most) break;  // half of the sample is inside
      for (const size_t v : free) indices[v] = (v == odd) == high ? all[v].range->count() - 1 : 0;
      add();
    }
  }
  const Random random(1, "shapes");
  for (uint64_t draw = 0; std::ssize(made) < most; ++draw) {
    for (size_t i = 0; i < free.size(); ++i)
      indices[free[i]] = random.integer(draw * free.size() + i, 0, all[free[i]].range->count() - 1);
    add();
  }
  return made;
}

std::string ShapeRanges::text(const Input& input) {
  if (input.dims.empty()) return "scalar";
  std::string all;
  for (const DimRange& dim : input.dims) all += (all.empty() ? "" : "x") + printable(dim.text());
  return all;
}

std::string ShapeRanges::text() const {
  std::string all;
  for (const Input& input : inputs_) all += (all.empty() ? "" : " ") + printable(input.name) + "=" + text(input);
  return all;
}

}  // namespace kilter
