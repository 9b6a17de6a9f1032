// What a test says of an error: its message.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "base/error.h"

namespace kilter {

/// The message of the Error that `f` throws; "no error" when it throws none. Other exceptions pass.
template <class F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.message();
  }
  return "no error";
}

/// The same, and expects an error to be of this kind.
template <class F>
std::string error_of(F&& f, ErrorKind kind) {
  return error_of([&] {
    try {
      f();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), kind) << error.message();
      throw;
    }
  });
}

}  // namespace kilter
