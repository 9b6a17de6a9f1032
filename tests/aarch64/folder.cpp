#include "folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "base/error.h"
#include "base/files.h"
#include "exec/plan_file.h"
#include "ops/support/cases.h"

namespace kilter {

std::string arm_command(const std::string& program) {
  const char* run = std::getenv("KILTER_AARCH64_RUN");
  const char* folder = std::getenv("KILTER_AARCH64_BIN");
  if (folder == nullptr) return "";
  return fmt::format("{} {}/{}", run == nullptr ? "" : run, folder, program);
}

std::filesystem::path Folder::file(size_t i, const char* extension) const {
  return scratch_.path() / fmt::format("{}.{}", i, extension);
}

void Folder::add(std::string where, const Plan& plan, const std::vector<Tensor>& inputs, std::vector<Tensor> want,
                 const Tolerance& tolerance) {
  const size_t i = entries_.size();
  save_plan(plan, file(i, "kilter"));
  std::string bytes;
  for (const Tensor& t : inputs) {
    bytes.append(reinterpret_cast<const char*>(t.raw()), static_cast<size_t>(t.bytes()));
  }
  write_file_atomically(file(i, "in"), bytes);
  entries_.push_back({std::move(where), plan.outputs, std::move(want), tolerance});
}

std::string Folder::check(size_t i) const {
  if (std::filesystem::exists(file(i, "error"))) return read_file(file(i, "error"));
  if (!std::filesystem::exists(file(i, "out"))) return "no answer";
  const std::string got = read_file(file(i, "out"));
  const Entry& entry = entries_[i];
  int64_t bytes = 0;
  for (const Tensor& t : entry.want) bytes += t.bytes();
  if (entry.outputs.size() != entry.want.size() || static_cast<int64_t>(got.size()) != bytes) {
    return fmt::format("{} outputs, {} bytes; expected {} of {} bytes", entry.outputs.size(), got.size(),
                       entry.want.size(), bytes);
  }
  const auto* at = reinterpret_cast<const std::byte*>(got.data());
  for (size_t k = 0; k < entry.want.size(); ++k) {
    const PlanTensor& declared = entry.outputs[k];
    const Tensor& want = entry.want[k];
    if (declared.type != want.dtype() || declared.shape != want.shape()) {
      return fmt::format("output {} is {}[{}], expected {}[{}]", k, name(declared.type), text(declared.shape),
                         name(want.dtype()), text(want.shape()));
    }
    Tensor answer(want.dtype(), want.shape());
    std::copy_n(at, answer.bytes(), answer.raw());
    if (const auto wrong = compare(answer, want, entry.tolerance)) return fmt::format("output {}: {}", k, *wrong);
    at += want.bytes();
  }
  return "";
}

std::vector<std::string> Folder::run() {
  const std::string command = arm_command("run_folder") + " " + scratch_.path().string();
  const int status = std::system(command.c_str());
  std::vector<std::string> wrong;
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (const std::string why = check(i); !why.empty()) wrong.push_back(entries_[i].where + ": " + why);
  }
  if (status != 0) wrong.push_back(fmt::format("'{}' ended with status {}", command, status));
  return wrong;
}

}  // namespace kilter
