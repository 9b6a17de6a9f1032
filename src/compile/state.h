// State of a network that is kept between runs: the value of an output becomes that of an input of the next run.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compile/session.h"
#include "compile/state_pairs.h"

namespace kilter {

/// Used by one thread at a time, as its session.
///
/// A state starts with the given initial value if there is one, otherwise with the model's default value of the input,
/// and otherwise with zeros. Sizes that the model leaves open follow from Session::Options::shapes; are 0 if an output
/// appends to the input there; are those of dimensions with the same name in other inputs; or are 0 if the output's
/// dimension has a different name or size. A sequence starts empty, and an optional value is absent.
class State {
 public:
  using Values = std::map<std::string, AnyValue>;

  /// `pairs`: empty to find them in the model (find_state_pairs()). `initial`: copied. `session` must outlive the
  /// state. Throws usage for unknown names and if no pair is found; bad_input for outputs and values that do not fit
  /// their inputs, and for sizes that cannot be determined.
  State(Session& session, StatePairs pairs, const Values& initial = {});

  const StatePairs& pairs() const { return pairs_; }
  /// The initial values that were given.
  const Values& initial() const { return initial_; }
  /// The current values by the names of the inputs. Before the first run, values whose sizes depend on it are missing.
  const Values& values() const { return values_; }
  /// Returns to the initial values, except for inputs in `values`, which get copies of these values. Throws usage for
  /// names of other inputs, and bad_input for values that do not fit.
  void reset(const Values& values = {});

  /// The ports that are not bound: the inputs and outputs of a run.
  const std::vector<onnx::Port>& inputs() const { return inputs_; }
  const std::vector<onnx::Port>& outputs() const { return outputs_; }

  /// The inputs of a run together with the bound ones. Throws bad_input if bound ones are given, or if their sizes
  /// cannot be determined.
  template <class Value>
  std::map<std::string, Value> with(std::map<std::string, Value> inputs) const;

  /// As Session::run() and Session::run_values(), for the ports that are not bound. If a run throws, the state stays as
  /// it was.
  std::vector<Tensor> run(std::map<std::string, Tensor> inputs, const std::map<std::string, Tensor>& outputs = {});
  std::vector<AnyValue> run_values(std::map<std::string, AnyValue> inputs,
                                   const std::map<std::string, Tensor>& outputs = {});

 private:
  struct Bound {
    onnx::Port input;
    size_t output = 0;               ///< index among the outputs of the network
    std::optional<int64_t> axis;     ///< along which the output appends to the input
    std::vector<bool> grows;         ///< for each dimension, whether the output declares a different name or size
    std::optional<Tensor> fallback;  ///< the model's default value
  };
  /// The sizes of named dimensions.
  using Sizes = std::map<std::string, int64_t>;

  void bind();
  Bound bound_of(const std::string& input, const std::string& output) const;
  Values checked_copies(const Values& values, std::string_view what) const;
  [[noreturn]] void refuse(const Bound& bound, const AnyValue& value, const std::string& what) const;
  void check_memory(const std::map<std::string, Tensor>& outputs) const;
  bool has_free_input_with(const std::string& symbol) const;
  std::optional<int64_t> first_size(const Bound& bound, size_t dim, const Sizes& sizes, bool running) const;
  std::optional<AnyValue> first_value(const Bound& bound, const Sizes& sizes, bool running) const;
  std::string why_unknown(const Bound& bound, const Sizes& sizes, bool running) const;
  [[noreturn]] void fail_without_value(const Bound& bound, const std::string& why) const;
  template <class Value>
  Sizes sizes_of(const std::map<std::string, Value>& inputs) const;
  template <class Value>
  std::vector<Value> keep(std::vector<Value> results);

  Session* session_;
  StatePairs pairs_;
  std::vector<Bound> bound_;
  std::vector<onnx::Port> inputs_, outputs_;
  std::vector<size_t> free_outputs_;  ///< indices of outputs_ among the outputs of the network
  Values initial_, values_;
};

/// Returns the state. Throws usage if there is none.
State& bound_state(std::optional<State>& state, const Session& session);

}  // namespace kilter
