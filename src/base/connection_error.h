#pragma once

#include "base/error.h"

namespace kilter {

/// The loss of a connection, or a refusal by the other side, as opposed to an error in the request itself.
class ConnectionError : public Error {
 public:
  using Error::Error;
};

}  // namespace kilter
