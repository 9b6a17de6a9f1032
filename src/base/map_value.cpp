#include "base/map_value.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "base/error.h"
#include "base/text.h"

namespace kilter {
namespace {

enum Part : size_t { kMark, kKeys, kValues, kParts };

bool less(const Tensor& keys, size_t a, size_t b) {
  if (keys.dtype() == DType::string) return keys.strings()[a] < keys.strings()[b];
  return keys.data<int64_t>()[a] < keys.data<int64_t>()[b];
}

/// Returns the elements of a tensor [n] in another order.
Tensor ordered(const Tensor& from, const std::vector<size_t>& order) {
  const Tensor to(from.dtype(), from.shape());
  const auto size = static_cast<size_t>(size_bytes(from.dtype()));
  for (size_t i = 0; i < order.size(); ++i) {
    if (from.dtype() == DType::string) {
      to.strings()[i] = from.strings()[order[i]];
    } else {
      std::memcpy(to.raw() + i * size, from.raw() + order[i] * size, size);
    }
  }
  return to;
}

std::string key_text(const Tensor& keys, size_t i) {
  if (keys.dtype() == DType::string) return "'" + printable(keys.strings()[i]) + "'";
  return std::to_string(keys.data<int64_t>()[i]);
}

}  // namespace

AnyValue map_value(Tensor keys, Tensor values, std::string_view what) {
  if ((keys.dtype() != DType::i64 && keys.dtype() != DType::string) || keys.rank() != 1 ||
      values.shape() != keys.shape()) {
    fail(ErrorKind::bad_input,
         "{} has keys {} and values {}; expected one dimension of the same size, and keys of i64 or str", what,
         text(AnyValue(keys)), text(AnyValue(values)));
  }
  std::vector<size_t> order(static_cast<size_t>(keys.elems()));
  std::iota(order.begin(), order.end(), size_t{0});
  const auto in_order = [&](size_t a, size_t b) { return less(keys, a, b); };
  if (!std::ranges::is_sorted(order, in_order)) {
    std::ranges::stable_sort(order, in_order);
    keys = ordered(keys, order), values = ordered(values, order);
  }
  for (size_t i = 1; i < order.size(); ++i) {
    if (!less(keys, i - 1, i)) fail(ErrorKind::bad_input, "{} has the key {} twice", what, key_text(keys, i));
  }
  return AnyValue::sequence({AnyValue(), std::move(keys), std::move(values)});
}

bool is_map(const AnyValue& value) {
  return value.is_sequence() && value.elements().size() == kParts && value.elements()[kMark].absent();
}

const Tensor& map_keys(const AnyValue& map) { return map.elements()[kKeys].tensor(); }
const Tensor& map_values(const AnyValue& map) { return map.elements()[kValues].tensor(); }

}  // namespace kilter
