// One loaded network, and runs of it on the joined inputs of several requests. Used by one thread at a time.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kilter/kilter.h"
#include "tensor.h"

namespace serve {

class Instance {
 public:
  explicit Instance(kilter::Network network);

  const std::vector<kilter::Port>& inputs() const { return inputs_; }
  const std::vector<kilter::Port>& outputs() const { return outputs_; }
  std::string note() const { return network_.note(); }
  void save(const std::string& file) { network_.save(file); }

  /// Runs the network on the inputs of one request, and returns the outputs.
  std::vector<Tensor> run(const std::vector<Tensor>& inputs);
  /// Joins the inputs along dimension 0, repeats the last row until there are `rows`, runs the network once, and
  /// returns the outputs of each request. `requests` are not empty and have at most `rows` rows in all. Throws
  /// kilter::ApiError if an output does not have a row for each row of the inputs.
  std::vector<std::vector<Tensor>> run_joined(const std::vector<const std::vector<Tensor>*>& requests, int64_t rows);

 private:
  struct Aligned {
    void operator()(std::byte* bytes) const;
  };
  /// The joined elements of one input. The memory is kept for later runs.
  struct Joined {
    std::unique_ptr<std::byte[], Aligned> bytes;
    size_t capacity = 0;
    std::vector<std::string> strings;

    void reserve(size_t bytes_needed);
  };
  kilter::View joined(size_t input, const std::vector<const std::vector<Tensor>*>& requests, int64_t rows);

  kilter::Network network_;
  std::vector<kilter::Port> inputs_, outputs_;
  std::vector<Joined> joined_;
};

}  // namespace serve
