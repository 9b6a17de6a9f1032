// The message of the loop IR's verifier.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "loop/loop.h"

namespace kilter {

/// Returns the message with which verify() refuses the function, or "" if it accepts it.
inline std::string message(const LoopFunc& f) {
  try {
    verify(f);
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::internal);
    return e.message();
  }
  return "";
}

}  // namespace kilter
