// A folder for one test, removed when the test ends.
#pragma once

#include <filesystem>
#include <string>

#include "base/files.h"

namespace kilter {

class ScratchFolder {
 public:
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchFolder() = default;
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_ = make_temporary_folder("kilter-test-");
};

}  // namespace kilter
