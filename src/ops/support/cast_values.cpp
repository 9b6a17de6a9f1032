#include "ops/support/cast_values.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <type_traits>

#include "base/convert.h"
#include "base/narrow.h"
#include "base/text.h"
#include "ops/support/onnx_dtype.h"

namespace kilter {
namespace {

template <class T>
constexpr bool kIsSmallFloat = std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;

void cast_numbers(const Tensor& from, const Tensor& to) {
  visit_dtype(from.dtype(), [&]<class From>(From) {
    visit_dtype(to.dtype(), [&]<class To>(To) {
      std::transform(from.data<From>(), from.data<From>() + from.elems(), to.data<To>(), convert<To, From>);
    });
  });
}

NarrowRounding rounding_of(const Node& node) {
  const std::string mode = node.string_attr("round_mode", "up");
  const auto scales = mode == "up" ? ScaleRounding::up : mode == "down" ? ScaleRounding::down : ScaleRounding::nearest;
  return {node.int_attr("saturate", 1) != 0, scales};
}

/// Converts from a type of numbers that is not narrow.
void cast_to_narrow(const Node& node, const Tensor& from, const Tensor& to) {
  const DType type = to.dtype();
  const NarrowRounding rounding = rounding_of(node);
  const bool integers = is_narrow_integer(type) && !is_float(from.dtype());
  visit_dtype(from.dtype(), [&]<class From>(From) {
    std::transform(from.data<From>(), from.data<From>() + from.elems(), to.data<uint8_t>(), [&](From value) {
      return integers ? narrow_integer_code(type, convert<int64_t>(value))
                      : narrow_code(type, convert<double>(value), rounding);
    });
  });
}

template <class T>
std::string to_text(T value) {
  if constexpr (kIsSmallFloat<T>) {
    return to_text(static_cast<float>(value));
  } else if constexpr (std::is_same_v<T, bool>) {
    return value ? "True" : "False";
  } else if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(value)) return "nan";
    std::string text = fmt::format("{}", value);
    if (text.find_first_not_of("-0123456789") == std::string::npos) text += ".0";
    return text;
  } else {
    return fmt::format("{}", value);
  }
}

void cast_to_text(const Tensor& from, const Tensor& to) {
  visit_dtype(from.dtype(), [&]<class From>(From) {
    for (int64_t i = 0; i < from.elems(); ++i) to.strings()[static_cast<size_t>(i)] = to_text(from.data<From>()[i]);
  });
}

/// Whether the whole `text` is a number of type T.
template <class T>
bool parse(std::string_view text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

template <class T>
T from_text(const Node& node, const std::string& original) {
  const std::string text = lower(original);
  std::string_view digits = text;
  while (!digits.empty() && std::isspace(static_cast<unsigned char>(digits.front())) != 0) digits.remove_prefix(1);
  while (!digits.empty() && std::isspace(static_cast<unsigned char>(digits.back())) != 0) digits.remove_suffix(1);
  if (digits.starts_with('+')) digits.remove_prefix(1);
  if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
    T exact = 0;
    if (parse(digits, exact)) return exact;
  }
  if constexpr (std::is_same_v<T, bool>) {
    if (digits == "true") return true;
    if (digits == "false") return false;
  }
  double value = 0;
  if (parse(digits, value)) return convert<T>(value);
  fail(ErrorKind::bad_input,
       "{} '{}': the text '{}' is not a number; legal values are forms like 3.14, 1e-5, 1000, INF, NaN", node.op->name,
       node.name, original);
}

void cast_from_text(const Node& node, const Tensor& from, const Tensor& to) {
  visit_dtype(to.dtype(), [&]<class To>(To) {
    for (int64_t i = 0; i < from.elems(); ++i) {
      to.data<To>()[i] = from_text<To>(node, from.strings()[static_cast<size_t>(i)]);
    }
  });
}

}  // namespace

void cast_values(const Node& node, const Tensor& from, const Tensor& to) {
  if (from.dtype() == DType::string && to.dtype() == DType::string) {
    to.strings() = from.strings();
  } else if (is_narrow(from.dtype())) {
    cast_values(node, from.widened(), to);
  } else if (from.dtype() == DType::string && is_narrow(to.dtype())) {
    const Tensor numbers(is_narrow_integer(to.dtype()) ? DType::i64 : DType::f64, to.shape());
    cast_from_text(node, from, numbers);
    cast_to_narrow(node, numbers, to);
  } else if (is_narrow(to.dtype())) {
    cast_to_narrow(node, from, to);
  } else if (from.dtype() == DType::string) {
    cast_from_text(node, from, to);
  } else if (to.dtype() == DType::string) {
    cast_to_text(from, to);
  } else {
    cast_numbers(from, to);
  }
}

ValueId converted(ExpandContext& ctx, ValueId v, DType type) {
  return ctx.builder.type(v).dtype == type ? v : ctx.add("Cast", {v}, {{"to", code_of_dtype(type)}});
}

}  // namespace kilter
