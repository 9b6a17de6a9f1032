#include "sparse_weights.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <vector>

#include "base/error.h"
#include "base/random.h"
#include "base/text.h"
#include "onnx/model.h"
#include "onnx/schema.h"

namespace kilter::replay {
namespace {

namespace pb = onnx::pb;

constexpr int64_t kMarked = 16;  ///< number of nonzero values at the start of each tensor

pb::ModelProto read(const std::filesystem::path& file) {
  pb::ModelProto model;
  std::ifstream in(file, std::ios::binary);
  require(model.ParseFromIstream(&in), "{}: not an ONNX file", file.string());
  return model;
}

void write_weights(const pb::TensorProto& tensor, const std::filesystem::path& folder) {
  std::map<std::string, std::string> entries;
  for (const auto& pair : tensor.external_data()) entries[pair.key()] = pair.value();
  if (entries.empty()) return;
  require(tensor.data_type() == 1, "{}: expected f32 weights, got element type {}", tensor.name(), tensor.data_type());
  int64_t elems = 1;
  for (const int64_t d : tensor.dims()) elems *= d;
  const std::filesystem::path file = folder / entries.at("location");
  const int64_t offset = parse_int(entries.at("offset"), "offset of " + tensor.name());
  const auto end = static_cast<uintmax_t>(offset + elems * 4);
  if (!exists(file)) std::ofstream(file).close();
  if (file_size(file) < end) resize_file(file, end);
  const Random random(1, tensor.name());
  std::vector<float> values;
  for (int64_t i = 0; i < std::min(elems, kMarked); ++i)
    values.push_back(random.uniform(static_cast<uint64_t>(i), 0.5F, 1.5F));
  std::fstream out(file, std::ios::binary | std::ios::in | std::ios::out);
  out.seekp(offset);
  out.write(reinterpret_cast<const char*>(values.data()), static_cast<std::streamsize>(values.size() * sizeof(float)));
  require(static_cast<bool>(out.flush()), "cannot write {}", file.string());
}

}  // namespace

Graph load_without_weights(const std::filesystem::path& model, const std::filesystem::path& folder) {
  const pb::ModelProto proto = read(model);
  for (const pb::TensorProto& tensor : proto.graph().initializer()) write_weights(tensor, folder);
  const std::filesystem::path copy = folder / model.filename();
  std::filesystem::copy_file(model, copy);
  return onnx::Model::load(copy)->bind({});
}

}  // namespace kilter::replay
