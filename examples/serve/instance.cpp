// One loaded network, and runs of it on the joined inputs of several requests.

#include "instance.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <new>

namespace serve {
namespace {

constexpr std::align_val_t kAlignment{64};  // inputs of this alignment are not copied by Kilter

/// Rows `from` to `to` of an output, as a tensor that owns its memory.
Tensor rows_of(const kilter::TensorValue& value, int64_t from, int64_t to) {
  Tensor tensor;
  tensor.type = value.type;
  tensor.shape = value.shape;
  tensor.shape[0] = to - from;
  const int64_t row = elements(std::span(value.shape).subspan(1)).value_or(0);
  if (value.type == kilter::Type::string) {
    tensor.strings.assign(value.as<std::string>() + from * row, value.as<std::string>() + to * row);
    return tensor;
  }
  const int64_t bytes = row * kilter::type_bytes(value.type);
  tensor.own.assign(value.bytes.get() + from * bytes, value.bytes.get() + to * bytes);
  tensor.bytes = tensor.own;
  return tensor;
}

Tensor whole(const kilter::TensorValue& value) {
  Tensor tensor;
  tensor.type = value.type;
  tensor.shape = value.shape;
  const int64_t count = elements(value.shape).value_or(0);
  if (value.type == kilter::Type::string) {
    tensor.strings.assign(value.as<std::string>(), value.as<std::string>() + count);
    return tensor;
  }
  tensor.own.assign(value.bytes.get(), value.bytes.get() + count * kilter::type_bytes(value.type));
  tensor.bytes = tensor.own;
  return tensor;
}

}  // namespace

void Instance::Aligned::operator()(std::byte* bytes) const { ::operator delete[](bytes, kAlignment); }

void Instance::Joined::reserve(size_t bytes_needed) {
  if (bytes_needed <= capacity) return;
  bytes.reset();
  capacity = 0;
  bytes.reset(static_cast<std::byte*>(::operator new[](bytes_needed, kAlignment)));
  capacity = bytes_needed;
}

Instance::Instance(kilter::Network network)
    : network_(std::move(network)), inputs_(network_.inputs()), outputs_(network_.outputs()), joined_(inputs_.size()) {}

kilter::View Instance::joined(size_t input, const std::vector<const std::vector<Tensor>*>& requests, int64_t rows) {
  Joined& to = joined_[input];
  const Tensor& first = requests[0]->at(input);
  kilter::View view{first.type, first.shape, nullptr};
  if (rows > 0) view.shape[0] = rows;  // 0: one request, of any rank
  if (first.type == kilter::Type::string) {
    to.strings.clear();
    for (const auto* request : requests)
      to.strings.insert(to.strings.end(), request->at(input).strings.begin(), request->at(input).strings.end());
    const auto total = static_cast<size_t>(elements(view.shape).value_or(0));
    const auto row = rows > 0 ? total / static_cast<size_t>(rows) : 0;
    while (to.strings.size() < total) to.strings.push_back(to.strings[to.strings.size() - row]);
    view.data = to.strings.data();
    return view;
  }
  const auto total =
      static_cast<size_t>(elements(view.shape).value_or(0)) * static_cast<size_t>(kilter::type_bytes(first.type));
  to.reserve(std::max<size_t>(total, 1));
  size_t at = 0;
  for (const auto* request : requests) {
    const std::span<const std::byte> bytes = request->at(input).bytes;
    std::copy(bytes.begin(), bytes.end(), to.bytes.get() + at);
    at += bytes.size();
  }
  const auto row = rows > 0 ? total / static_cast<size_t>(rows) : 0;
  for (; at < total; at += row) std::memcpy(to.bytes.get() + at, to.bytes.get() + at - row, row);
  view.data = to.bytes.get();
  return view;
}

std::vector<Tensor> Instance::run(const std::vector<Tensor>& inputs) {
  std::map<std::string, kilter::View> views;
  for (size_t i = 0; i < inputs.size(); ++i) views.emplace(inputs_[i].name, joined(i, {&inputs}, 0));
  std::vector<Tensor> outputs;
  for (const kilter::TensorValue& value : network_.run(views)) outputs.push_back(whole(value));
  return outputs;
}

std::vector<std::vector<Tensor>> Instance::run_joined(const std::vector<const std::vector<Tensor>*>& requests,
                                                      int64_t rows) {
  std::map<std::string, kilter::View> views;
  for (size_t i = 0; i < inputs_.size(); ++i) views.emplace(inputs_[i].name, joined(i, requests, rows));
  std::vector<std::vector<Tensor>> outputs(requests.size());
  for (const kilter::TensorValue& value : network_.run(views)) {
    if (value.shape.empty() || value.shape[0] != rows) {
      throw kilter::ApiError("output '" + value.name + "' has shape " + text(value.shape) + "; expected " +
                             std::to_string(rows) + " rows, as the inputs");
    }
    int64_t row = 0;
    for (size_t i = 0; i < requests.size(); ++i) {
      const int64_t end = row + requests[i]->at(0).shape[0];
      outputs[i].push_back(rows_of(value, row, end));
      row = end;
    }
  }
  return outputs;
}

}  // namespace serve
