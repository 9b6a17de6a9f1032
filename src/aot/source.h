// The C source of a network: its header, and the file with its tables and the runtime part.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "exec/plan.h"

namespace kilter::aot {

/// An argument of the generated function that runs the network.
struct Argument {
  std::string name;  ///< an identifier
  std::string type;  ///< "float", "int64_t", ...
};

/// A network and the names that its source uses.
struct Network {
  const Plan& plan;
  std::string name;           ///< prefix of every function and type
  bool file_weights = false;  ///< the weights are in a file that is opened at run time
  uint64_t weight_hash = 0;   ///< hash_bytes() of the weights
  std::vector<Argument> inputs, outputs;

  bool has_weights_inside() const { return !file_weights && plan.constants_bytes > 0; }
};
/// Throws unsupported for a plan that the runtime part cannot run, because steps run on the host or on another device.
/// The text names the operators.
Network describe(const Plan& plan, const std::string& name, bool file_weights);

/// Returns the header that programs include, for C and C++.
std::string header_text(const Network& network);
/// Returns the C source, which includes `header`, and the files with the machine code and the weights by these names.
std::string source_text(const Network& network, const std::string& header, const std::string& code,
                        const std::string& weights);
/// Returns a CMake file that builds a library from these sources.
std::string cmake_text(const Network& network, const std::string& source);

}  // namespace kilter::aot
