#include <cmath>
#include <map>
#include <optional>

#include "ops/support/ml.h"
#include "ops/support/operands.h"

namespace kilter {
namespace {

/// Returns the list that attribute `prefix` + "strings", "int64s", "floats" or "tensor" contains; nullopt if there is
/// none. Throws if there is more than one.
std::optional<Tensor> list_of(const Node& node, const std::string& prefix) {
  std::vector<std::pair<std::string, Tensor>> lists;
  const auto add = [&](const char* kind, Tensor list) {
    if (list.elems() > 0) lists.emplace_back(prefix + kind, std::move(list));
  };
  add("strings", LabelList{{}, strings_attr(node, prefix + "strings")}.tensor());
  add("int64s", LabelList{node.ints_attr(prefix + "int64s"), {}}.tensor());
  const std::vector<float> floats = node.floats_attr(prefix + "floats");
  add("floats", Tensor::of<float>({static_cast<int64_t>(floats.size())}, floats));
  if (const Tensor* tensor = node.tensor_attr(prefix + "tensor")) add("tensor", *tensor);
  if (lists.empty()) return std::nullopt;
  if (lists.size() > 1) {
    node_error(node,
               fmt::format("attributes {} and {} are both set; expected one of them", lists[0].first, lists[1].first));
  }
  return lists[0].second;
}

/// Returns the value for elements that are not a key: one element of `type`.
Tensor fallback_of(const Node& node, DType type) {
  if (const Tensor* given = node.tensor_attr("default_tensor")) {
    if (given->dtype() != type || given->elems() != 1) {
      node_error(node, fmt::format("attribute default_tensor is {}, expected one element of type {} as the values",
                                   text(TensorType{given->dtype(), given->shape(), {}}), name(type)));
    }
    return *given;
  }
  Tensor result(type, {1});
  if (type == DType::string) {
    result.strings()[0] = node.string_attr("default_string", "_Unused");
  } else if (is_float(type)) {
    fill(result, static_cast<double>(node.float_attr("default_float", -0.0F)));
  } else {
    const Tensor number = Tensor::scalar<int64_t>(node.int_attr("default_int64", -1));
    visit_types(SignedInts{}, node, type,
                [&]<class T>() { *result.data<T>() = static_cast<T>(number.data<int64_t>()[0]); });
  }
  return result;
}

/// The table of a node: keys and, at the same positions, values.
struct EncoderTable {
  Tensor keys, values, fallback;
};

EncoderTable read_table(const Node& node) {
  const std::optional<Tensor> keys = list_of(node, "keys_"), values = list_of(node, "values_");
  if (!keys) node_error(node, "has no keys, expected one of keys_strings, keys_int64s, keys_floats and keys_tensor");
  if (!values) {
    node_error(node, "has no values, expected one of values_strings, values_int64s, values_floats and values_tensor");
  }
  check_count(node, "values, one for each key", static_cast<size_t>(keys->elems()),
              static_cast<size_t>(values->elems()));
  return {*keys, *values, fallback_of(node, values->dtype())};
}

/// Finds the first position of an element in a list of keys.
class Positions {
 public:
  /// `nan_is_key`: NaN equals NaN.
  Positions(const Tensor& keys, bool nan_is_key) {
    for (int64_t i = 0; i < keys.elems(); ++i) {
      if (keys.dtype() == DType::string) {
        strings_.emplace(keys.strings()[static_cast<size_t>(i)], i);
      } else if (!is_float(keys.dtype())) {
        ints_.emplace(keys.as_int(i), i);
      } else if (!std::isnan(keys.as_double(i))) {
        reals_.emplace(keys.as_double(i), i);
      } else if (nan_is_key && !nan_) {
        nan_ = i;
      }
    }
  }

  std::optional<int64_t> find(const Tensor& x, int64_t i) const {
    if (x.dtype() == DType::string) return find(strings_, x.strings()[static_cast<size_t>(i)]);
    if (!is_float(x.dtype())) return find(ints_, x.as_int(i));
    const double value = x.as_double(i);
    return std::isnan(value) ? nan_ : find(reals_, value);
  }

 private:
  template <class Map, class Key>
  static std::optional<int64_t> find(const Map& map, const Key& key) {
    const auto at = map.find(key);
    return at == map.end() ? std::nullopt : std::optional(at->second);
  }

  std::map<std::string, int64_t, std::less<>> strings_;
  std::map<int64_t, int64_t> ints_;
  std::map<double, int64_t> reals_;
  std::optional<int64_t> nan_;
};

void encode(const EncoderTable& table, bool nan_is_key, const Tensor& x, const Tensor& y) {
  const Positions positions(table.keys, nan_is_key);
  for (int64_t i = 0; i < x.elems(); ++i) {
    const std::optional<int64_t> at = positions.find(x, i);
    copy_element(at ? table.values : table.fallback, at.value_or(0), y, i);
  }
}

void infer(InferContext& ctx) {
  const EncoderTable table = read_table(ctx.node);
  if (ctx.dtype(0) != table.keys.dtype()) {
    ctx.error(fmt::format("input has element type {}, expected {} to match the keys", name(ctx.dtype(0)),
                          name(table.keys.dtype())));
  }
  ctx.set(0, table.values.dtype(), ctx.shape(0));
}

void reference(ReferenceContext& ctx) { encode(read_table(ctx.node), ctx.node.opset >= 4, ctx.in(0), ctx.out()); }

/// The table of the form of opset 1: strings are the keys of their positions, or the other way round.
EncoderTable read_classes(const Node& node, DType from) {
  const std::vector<std::string> classes = strings_attr(node, "classes_strings");
  if (classes.empty()) node_error(node, "attribute classes_strings is empty, expected one string or more");
  Tensor strings = LabelList{{}, classes}.tensor();
  Tensor positions(DType::i64, strings.shape());
  for (int64_t i = 0; i < positions.elems(); ++i) positions.data<int64_t>()[i] = i;
  const DType to = from == DType::string ? DType::i64 : DType::string;
  if (from == DType::string) return {strings, positions, fallback_of(node, to)};
  return {positions, strings, fallback_of(node, to)};
}

void infer_classes(InferContext& ctx) {
  if (ctx.dtype(0) != DType::string) check_types(Types<int64_t>{}, ctx, 0);
  ctx.set(0, read_classes(ctx.node, ctx.dtype(0)).values.dtype(), ctx.shape(0));
}

void reference_classes(ReferenceContext& ctx) {
  encode(read_classes(ctx.node, ctx.in(0).dtype()), false, ctx.in(0), ctx.out());
}

}  // namespace

KILTER_OP(LabelEncoder1){
    .name = "LabelEncoder",
    .domain = kMlDomain,
    .until = 1,
    .attrs = {{"classes_strings", "strings", "required"},
              {"default_int64", "int", "-1"},
              {"default_string", "string", "_Unused"}},
    .summary =
        "y = the position of each string of x in classes_strings, or the string at each position; the default where "
        "there is none.",
    .infer = infer_classes,
    .reference = reference_classes,
    .tolerance = {.rtol = 0, .atol = 0},
    .cases = {"str[3]:\"b\",\"a\",\"z\" | classes_strings=[a,b]",
              "i64[2,2]:0,1,2,-1 | classes_strings=[a,b] default_string=none"},
};

KILTER_OP(LabelEncoder){
    .name = "LabelEncoder",
    .domain = kMlDomain,
    .since = 2,
    .attrs = {{"default_float", "float", "-0"},
              {"default_int64", "int", "-1"},
              {"default_string", "string", "_Unused"},
              {"default_tensor", "tensor", ""},
              {"keys_floats", "floats", ""},
              {"keys_int64s", "ints", ""},
              {"keys_strings", "strings", ""},
              {"keys_tensor", "tensor", ""},
              {"values_floats", "floats", ""},
              {"values_int64s", "ints", ""},
              {"values_strings", "strings", ""},
              {"values_tensor", "tensor", ""}},
    .summary =
        "y = the value at the position where x equals a key, the first if there are several; the default where there "
        "is none. Since opset 4, NaN equals NaN.",
    .infer = infer,
    .reference = reference,
    .tolerance = {.rtol = 0, .atol = 0},
    .cases = {"str[3]:\"b\",\"a\",\"z\" | keys_strings=[a,b] values_int64s=[5,6]",
              "i64[2,2]:1,2,3,1 | keys_int64s=[1,2,1] values_floats=[0.5,1.5,9] default_float=-3 | 2",
              "f32[3]:1,nan,-0 | keys_floats=[1,nan,0] values_strings=[one,nan,zero] | 4",
              "f32[2]:1,nan | keys_floats=[1,nan] values_floats=[7,8] | 2",
              "i16[2]:1,2 | keys_tensor=i16[1]=1 values_tensor=f64[1]=0.1 default_tensor=f64[1]=7 | 4",
              "f64[2]:1,2 | keys_tensor=f64[2]=1,2 values_tensor=i32[2]=3,4 | 4",
              "str[2]:\"b\",\"q\" | keys_strings=[a,b] values_tensor=i16[2]=3,4 | 4"},
};

}  // namespace kilter
