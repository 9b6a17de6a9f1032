// Reads the JSON text of an inference request. The numbers of a tensor do not become nodes of a tree, which would take
// many times the memory of the text.

#include "json_request.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace serve {
namespace {

using Json = nlohmann::json;

constexpr size_t kDeepest = 40;       // levels of arrays and objects
constexpr size_t kMostNodes = 20000;  // outside "data"

[[noreturn]] void bad(const std::string& text) { throw Failure(400, text); }

class Reader : public nlohmann::json_sax<Json> {
 public:
  explicit Reader(Document& document) : document_(document) {}

  bool null() override {
    if (in_data_) bad("the request: null in \"data\"; expected numbers, booleans or strings");
    return add(nullptr);
  }
  bool boolean(bool value) override { return in_data_ ? value_of(Values::Kind::boolean, value ? 1 : 0) : add(value); }
  bool number_integer(number_integer_t value) override {
    return in_data_ ? value_of(Values::Kind::negative, static_cast<uint64_t>(value)) : add(value);
  }
  bool number_unsigned(number_unsigned_t value) override {
    return in_data_ ? value_of(Values::Kind::natural, value) : add(value);
  }
  bool number_float(number_float_t value, const string_t& /*text*/) override {
    return in_data_ ? value_of(Values::Kind::real, std::bit_cast<uint64_t>(value)) : add(value);
  }
  bool string(string_t& value) override {
    if (!in_data_) return add(std::move(value));
    require_array();
    document_.data.back().strings.push_back(std::move(value));
    return true;
  }
  bool binary(binary_t& /*value*/) override { return false; }  // does not occur in text

  bool start_array(size_t /*unknown*/) override {
    require_depth(open_.size() + nested_ + 1);
    if (in_data_) {
      ++nested_;
    } else {
      open(Json::array());
    }
    return true;
  }
  bool end_array() override {
    if (!in_data_) {
      open_.pop_back();
    } else if (--nested_ == 0) {
      in_data_ = false;
    }
    return true;
  }
  bool start_object(size_t /*unknown*/) override {
    if (in_data_) bad("the request: an object in \"data\"; expected numbers, booleans or strings");
    require_depth(open_.size() + 1);
    open(Json::object());
    return true;
  }
  bool end_object() override {
    open_.pop_back();
    return true;
  }
  bool key(string_t& name) override {
    const bool in_input = open_.size() == 3 && inputs_ && open_[1]->is_array();
    if (open_.size() == 1) inputs_ = name == "inputs";
    key_ = std::move(name);
    if (in_input && key_ == "data") {
      add(document_.data.size());
      document_.data.emplace_back();
      in_data_ = true;
    }
    return true;
  }
  bool parse_error(size_t position, const std::string& /*token*/, const Json::exception& error) override {
    const std::string_view said = error.what();  // "[json.exception...] parse error at ...: what"
    const size_t from = said.find("] ");
    bad("the request is not JSON: " + in_quotes(from == said.npos ? said : said.substr(from + 2)) + ", at byte " +
        std::to_string(position));
  }

 private:
  void require_array() const {
    if (nested_ == 0) bad("the request: \"data\" is a single value; expected an array");
  }
  static void require_depth(size_t depth) {
    if (depth > kDeepest) bad("the request: more than " + std::to_string(kDeepest) + " levels of arrays and objects");
  }
  bool value_of(Values::Kind kind, uint64_t bits) {
    require_array();
    document_.data.back().kinds.push_back(kind);
    document_.data.back().bits.push_back(bits);
    return true;
  }
  Json& place(Json value) {
    if (++nodes_ > kMostNodes) bad("the request: more than " + std::to_string(kMostNodes) + " values outside \"data\"");
    if (open_.empty()) return document_.tree = std::move(value);
    Json& parent = *open_.back();
    if (parent.is_object()) return parent[key_] = std::move(value);
    parent.push_back(std::move(value));
    return parent.back();
  }
  bool add(Json value) {
    place(std::move(value));
    return true;
  }
  // An array does not grow while one of its elements is open, so the pointers stay valid.
  void open(Json value) { open_.push_back(&place(std::move(value))); }

  Document& document_;
  std::vector<Json*> open_;
  std::string key_;
  bool inputs_ = false;  ///< the latest key of the outermost object is "inputs"
  bool in_data_ = false;
  size_t nested_ = 0;  ///< arrays that are open in "data"
  size_t nodes_ = 0;
};

const char* text(Values::Kind kind) {
  switch (kind) {
    case Values::Kind::boolean:
      return "a boolean";
    case Values::Kind::negative:
    case Values::Kind::natural:
      return "an integer out of range";
    case Values::Kind::real:
      return "a number with a fraction or exponent";
  }
  return "";
}

template <class T>
bool convert(Values::Kind kind, uint64_t bits, T& out) {
  using Kind = Values::Kind;
  if constexpr (std::is_same_v<T, bool>) {
    if ((kind != Kind::boolean && kind != Kind::natural) || bits > 1) return false;
    out = bits != 0;
    return true;
  } else if constexpr (std::is_integral_v<T>) {
    if (kind == Kind::negative && std::in_range<T>(static_cast<int64_t>(bits))) {
      out = static_cast<T>(bits);
      return true;
    }
    if (kind != Kind::natural || !std::in_range<T>(bits)) return false;
    out = static_cast<T>(bits);
    return true;
  } else {
    if (kind == Kind::boolean) return false;
    const double value = kind == Kind::real       ? std::bit_cast<double>(bits)
                         : kind == Kind::negative ? static_cast<double>(static_cast<int64_t>(bits))
                                                  : static_cast<double>(bits);
    out = static_cast<T>(value);
    return std::isfinite(out);
  }
}

template <class T>
void fill(Tensor& tensor, const Values& values, const std::string& where) {
  tensor.own.resize(values.kinds.size() * sizeof(T));
  for (size_t i = 0; i < values.kinds.size(); ++i) {
    T element{};
    if (!convert(values.kinds[i], values.bits[i], element)) {
      bad(where + ": value " + std::to_string(i) + " is " +
          (std::is_floating_point_v<T> && values.kinds[i] == Values::Kind::real ? "out of range"
                                                                                : text(values.kinds[i])) +
          "; expected one of datatype " + datatype(tensor.type));
    }
    std::memcpy(tensor.own.data() + i * sizeof(T), &element, sizeof(T));
  }
  tensor.bytes = tensor.own;
}

void fill(Tensor& tensor, const Values& values, const std::string& where) {
  switch (tensor.type) {
    case kilter::Type::boolean:
      return fill<bool>(tensor, values, where);
    case kilter::Type::u8:
      return fill<uint8_t>(tensor, values, where);
    case kilter::Type::u16:
      return fill<uint16_t>(tensor, values, where);
    case kilter::Type::u32:
      return fill<uint32_t>(tensor, values, where);
    case kilter::Type::u64:
      return fill<uint64_t>(tensor, values, where);
    case kilter::Type::i8:
      return fill<int8_t>(tensor, values, where);
    case kilter::Type::i16:
      return fill<int16_t>(tensor, values, where);
    case kilter::Type::i32:
      return fill<int32_t>(tensor, values, where);
    case kilter::Type::i64:
      return fill<int64_t>(tensor, values, where);
    case kilter::Type::f32:
      return fill<float>(tensor, values, where);
    case kilter::Type::f64:
      return fill<double>(tensor, values, where);
    default:
      bad(where + ": datatype " + datatype(tensor.type) + " cannot be written as JSON; send it as binary data");
  }
}

}  // namespace

Document read_json(std::string_view text) {
  Document document;
  Reader reader(document);
  Json::sax_parse(text, &reader);
  return document;
}

Tensor tensor_of(Values values, kilter::Type type, std::vector<int64_t> shape, const std::string& where) {
  const std::optional<int64_t> expected = elements(shape);
  if (!expected || static_cast<uint64_t>(*expected) != values.size()) {
    bad(where + ": \"data\" has " + std::to_string(values.size()) + " values; expected " +
        (expected ? std::to_string(*expected) : "more than memory holds") + " for shape " + text(shape));
  }
  const bool strings = type == kilter::Type::string;
  if (strings ? !values.kinds.empty() : !values.strings.empty()) {
    bad(where + ": \"data\" has " + (strings ? "values other than strings" : "strings") + "; expected datatype " +
        datatype(type));
  }
  Tensor tensor;
  tensor.type = type;
  tensor.shape = std::move(shape);
  if (strings) {
    tensor.strings = std::move(values.strings);
  } else {
    fill(tensor, values, where);
  }
  return tensor;
}

}  // namespace serve
