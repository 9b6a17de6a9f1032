// A value that a network computes while it runs: a tensor, a sequence of values, a map, or the absence of an optional
// value.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/tensor.h"

namespace kilter {

/// Copies share the elements. An optional value that is present is the value itself.
class AnyValue {
 public:
  AnyValue() = default;  ///< an absent optional
  AnyValue(Tensor tensor) : tensor_(std::move(tensor)) {}
  static AnyValue sequence(std::vector<AnyValue> elements) {
    AnyValue made;
    made.elements_ = std::make_shared<std::vector<AnyValue>>(std::move(elements));
    return made;
  }

  bool is_tensor() const { return tensor_.defined(); }
  bool is_sequence() const { return elements_ != nullptr; }
  bool absent() const { return !is_tensor() && !is_sequence(); }

  /// The tensor; undefined if the value is not a tensor.
  const Tensor& tensor() const { return tensor_; }
  /// The elements of a sequence.
  const std::vector<AnyValue>& elements() const { return *elements_; }
  /// Returns the elements of a sequence for modification. Copies them first if other values share them.
  std::vector<AnyValue>& change_elements() {
    if (elements_.use_count() > 1) elements_ = std::make_shared<std::vector<AnyValue>>(*elements_);
    return *elements_;
  }

 private:
  Tensor tensor_;
  std::shared_ptr<std::vector<AnyValue>> elements_;
};

/// Returns "f32[2,3]", "sequence of 2 (f32[2,3], f32[4])" or "absent".
std::string text(const AnyValue& value);

}  // namespace kilter
