// Runs compiled files on the machine that they were compiled for, using only libkilter_runtime.
// usage: run_folder FOLDER
// For every NAME.kilter in FOLDER: reads its inputs from NAME.in (their bytes one after another, in the program's
// order) and writes its outputs to NAME.out in the same form, or an error to NAME.error. Every program runs twice on
// two threads with its tensors between fences, first aligned to 64 bytes and then 8 bytes off: both results must be
// equal, and nothing except the outputs may be written. Exit codes: 0 all ran, 1 some have errors, 2 usage.
#include <kilter/runtime.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "guarded.h"

namespace kilter {
namespace {

namespace fs = std::filesystem;
using Bytes = std::vector<char>;

void must(kilter_status status) {
  if (status != KILTER_OK) throw std::runtime_error(kilter_last_error());
}

Bytes read_all(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  Bytes bytes((std::istreambuf_iterator<char>(file)), {});
  if (!file) throw std::runtime_error("cannot read " + path.string());
  return bytes;
}

void write_all(const fs::path& path, const char* bytes, size_t count) {
  std::ofstream file(path, std::ios::binary);
  file.write(bytes, static_cast<std::streamsize>(count));
  file.close();
  if (!file) throw std::runtime_error("cannot write " + path.string());
}

class CompiledFile {
 public:
  explicit CompiledFile(const fs::path& path) {
    kilter_program* program = nullptr;
    must(kilter_program_load(path.c_str(), &program));
    program_.reset(program);
    kilter_instance* instance = nullptr;
    must(kilter_instance_create(program, 2, &instance));
    instance_.reset(instance);
  }

  /// Returns the outputs of one run with every tensor `shift` bytes off the 64-byte boundary.
  Bytes run(const Bytes& inputs, size_t shift) {
    std::vector<GuardedMemory> in = memory(kilter_program_input_count(program_.get()), kilter_program_input, shift);
    std::vector<GuardedMemory> out = memory(kilter_program_output_count(program_.get()), kilter_program_output, shift);
    size_t at = 0;
    for (const GuardedMemory& tensor : in) {
      if (tensor.bytes() > inputs.size() - at) throw std::runtime_error("the file of inputs is too short");
      std::memcpy(tensor.data(), inputs.data() + at, tensor.bytes());
      at += tensor.bytes();
    }
    if (at != inputs.size()) throw std::runtime_error("the file of inputs is too long");
    std::vector<const void*> from;
    std::vector<void*> to;
    for (const GuardedMemory& tensor : in) from.push_back(tensor.data());
    for (const GuardedMemory& tensor : out) to.push_back(tensor.data());
    must(kilter_instance_run(instance_.get(), from.data(), from.size(), to.data(), to.size()));
    at = 0;
    for (const GuardedMemory& tensor : in) {
      check(tensor, "an input");
      if (std::memcmp(tensor.data(), inputs.data() + at, tensor.bytes()) != 0)
        throw std::runtime_error("an input was written");
      at += tensor.bytes();
    }
    Bytes answer;
    for (const GuardedMemory& tensor : out) {
      check(tensor, "an output");
      const auto* data = reinterpret_cast<const char*>(tensor.data());
      answer.insert(answer.end(), data, data + tensor.bytes());
    }
    return answer;
  }

 private:
  using Describe = kilter_status(const kilter_program*, size_t, kilter_tensor_info*);
  std::vector<GuardedMemory> memory(size_t count, Describe* describe, size_t shift) const {
    std::vector<GuardedMemory> tensors;
    for (size_t i = 0; i < count; ++i) {
      kilter_tensor_info info;
      must(describe(program_.get(), i, &info));
      tensors.emplace_back(static_cast<int64_t>(info.bytes), shift);
    }
    return tensors;
  }
  static void check(const GuardedMemory& tensor, const char* what) {
    if (const std::string damage = tensor.damage(); !damage.empty())
      throw std::runtime_error(std::string("around ") + what + ": " + damage);
  }

  std::unique_ptr<kilter_program, decltype(&kilter_program_free)> program_{nullptr, kilter_program_free};
  std::unique_ptr<kilter_instance, decltype(&kilter_instance_free)> instance_{nullptr, kilter_instance_free};
};

void run_one(fs::path path) {
  CompiledFile file(path);
  const Bytes inputs = read_all(path.replace_extension(".in"));
  const Bytes answer = file.run(inputs, 0);
  if (file.run(inputs, 8) != answer) throw std::runtime_error("the answers 8 bytes off alignment are others");
  write_all(path.replace_extension(".out"), answer.data(), answer.size());
}

int run_folder(const fs::path& folder) {
  size_t ran = 0, errors = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    fs::path path = entry.path();
    if (path.extension() != ".kilter") continue;
    ++ran;
    try {
      run_one(path);
    } catch (const std::exception& e) {
      ++errors;
      const std::string what = e.what();
      write_all(path.replace_extension(".error"), what.data(), what.size());
    }
  }
  std::printf("run_folder: %zu files, %zu errors\n", ran, errors);
  return errors == 0 ? 0 : 1;
}

}  // namespace
}  // namespace kilter

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "run_folder: expected one argument, a folder of compiled files; got %d\n", argc - 1);
    return 2;
  }
  try {
    return kilter::run_folder(argv[1]);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "run_folder: %s\n", e.what());
    return 2;
  }
}
