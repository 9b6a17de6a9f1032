#include "quantize/samples.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/files.h"
#include "base/npy.h"
#include "base/text.h"
#include "compile/difference.h"

namespace kilter::quantize {
namespace {

namespace fs = std::filesystem;

/// Returns the name of the file with the values of an input, as `kilter run --output` names it.
std::string file_of(const onnx::Port& port) {
  std::set<std::string> taken;
  return file_name(port.name, ".npy", taken);
}

int64_t first_not_finite(const Tensor& tensor) {
  for (int64_t i = 0; i < tensor.elems(); ++i) {
    if (!std::isfinite(tensor.as_double(i))) return i;
  }
  return -1;
}

}  // namespace

Samples::Samples(const fs::path& folder, std::vector<onnx::Port> inputs) : folder_(folder), inputs_(std::move(inputs)) {
  std::error_code error;
  std::vector<fs::path> files, folders;
  for (auto at = fs::directory_iterator(folder, error); !error && at != fs::directory_iterator(); at.increment(error)) {
    if (at->is_directory(error)) {
      folders.push_back(at->path());
    } else if (at->path().extension() == ".npy") {
      files.push_back(at->path());
    }
  }
  if (error) fail(ErrorKind::io, "--samples {}: cannot be read: {}", folder.string(), error.message());
  samples_ = inputs_.size() == 1 && folders.empty() ? std::move(files) : std::move(folders);
  std::ranges::sort(samples_);
  if (samples_.empty()) {
    fail(ErrorKind::bad_input, "--samples {}: the folder contains no samples\n{}", folder.string(),
         samples_help(inputs_));
  }
}

Tensor Samples::load_input(const fs::path& file, const onnx::Port& port) const {
  Tensor tensor = load_npy(file);
  if (tensor.dtype() != port.type || !onnx::fits(port, tensor.shape())) {
    fail(ErrorKind::bad_input, "{}: {} of shape {}, expected {} for input '{}'", file.string(),
         kilter::name(tensor.dtype()), text(tensor.shape()), text(port), printable(port.name));
  }
  if (is_float(tensor.dtype()) && !all_finite(tensor)) {
    const int64_t at = first_not_finite(tensor);
    fail(ErrorKind::bad_input,
         "{}: element {} of {} is {}; expected finite values, since ranges and errors are measured on the samples; "
         "correct the file or remove it from the samples",
         file.string(), at, tensor.elems(), tensor.as_double(at));
  }
  return tensor;
}

std::map<std::string, Tensor> Samples::load(size_t i) const {
  std::map<std::string, Tensor> made;
  if (!fs::is_directory(samples_[i])) {
    made[inputs_.front().name] = load_input(samples_[i], inputs_.front());
    return made;
  }
  for (const onnx::Port& port : inputs_) {
    const fs::path file = samples_[i] / file_of(port);
    if (is_missing(file)) {
      fail(ErrorKind::bad_input,
           "{}: the file is missing; each folder in {} is a sample, with a file for each input\n{}", file.string(),
           folder_.string(), samples_help(inputs_));
    }
    made[port.name] = load_input(file, port);
  }
  return made;
}

std::string samples_help(const std::vector<onnx::Port>& inputs) {
  std::string made = "the model's inputs:\n";
  for (const onnx::Port& port : inputs) made += fmt::format("  {}: {}\n", printable(port.name), text(port));
  if (inputs.size() == 1) {
    made += fmt::format(
        "each file DIR/*.npy is one sample of '{}'. To make samples in Python from real inputs (about 100):\n"
        "  for i, x in enumerate(inputs): numpy.save(f\"DIR/{{i:04}}.npy\", x.astype(numpy.{}))",
        printable(inputs.front().name), numpy_name(inputs.front().type));
    return made;
  }
  made += "each folder in DIR is one sample, with the files";
  for (const onnx::Port& port : inputs) made += " " + file_of(port);
  made +=
      ". To make samples in Python from real inputs (about 100):\n  for i, sample in enumerate(samples):\n"
      "    os.makedirs(f\"DIR/{i:04}\")\n";
  for (const onnx::Port& port : inputs) {
    made += fmt::format("    numpy.save(f\"DIR/{{i:04}}/{}\", sample[\"{}\"].astype(numpy.{}))\n", file_of(port),
                        printable(port.name), numpy_name(port.type));
  }
  made.pop_back();
  return made;
}

}  // namespace kilter::quantize
