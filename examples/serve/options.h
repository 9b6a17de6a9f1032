// The command line of kilter-serve.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "batcher.h"
#include "http.h"
#include "model.h"

namespace serve {

class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct Options {
  bool help = false, version = false;
  std::vector<std::pair<std::string, std::string>> models;  ///< names and files
  ModelOptions model;
  BatchOptions batch;
  HttpOptions http;
};

/// Throws UsageError.
Options parse_options(const std::vector<std::string>& words);
const char* help_text();

}  // namespace serve
