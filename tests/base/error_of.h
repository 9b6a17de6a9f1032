// Helpers with which tests obtain the message of an error.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "base/error.h"

namespace kilter {

/// Returns the message of the Error that `f` throws, or "no error" if it throws none. Other exceptions propagate.
template <class F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.message();
  }
  return "no error";
}

/// Returns the message of the Error that `f` throws, and expects the error to have the given kind.
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
