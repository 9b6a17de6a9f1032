// A value, or the reason why there is none.
#pragma once

#include <utility>
#include <variant>

#include "base/error.h"

namespace kilter {

/// The result of a function that may refuse: a T or a Rejected. Reading the alternative that is absent is an internal
/// error.
template <class T>
class [[nodiscard]] Result {
 public:
  // Both constructors are implicit, so that a function can return either type.
  Result(T value) : held_(std::in_place_index<0>, std::move(value)) {}
  Result(Rejected why) : held_(std::in_place_index<1>, std::move(why)) {}

  bool has_value() const { return held_.index() == 0; }
  explicit operator bool() const { return has_value(); }

  const T& operator*() const& { return checked(), *std::get_if<0>(&held_); }
  T& operator*() & { return checked(), *std::get_if<0>(&held_); }
  T&& operator*() && { return checked(), std::move(*std::get_if<0>(&held_)); }
  const T* operator->() const { return &**this; }
  T* operator->() { return &**this; }

  const Rejected& rejected() const {
    require(!has_value(), "the reason for a rejection was requested, but the result has a value");
    return *std::get_if<1>(&held_);
  }

 private:
  void checked() const {
    if (!has_value()) fail(ErrorKind::internal, "the value of a rejected result was requested: {}", rejected().text());
  }

  std::variant<T, Rejected> held_;
};

}  // namespace kilter
