// A temporary folder for one file that another program reads.
#pragma once

#include <array>
#include <filesystem>
#include <string>

namespace kilter::tool {

/// Made in the folder that TMPDIR names, else in /tmp, with a name of its own; removed at the end with all that is in
/// it, and by an interrupt.
class ScratchFolder {
 public:
  /// Throws io with the system's reason when it cannot be made.
  ScratchFolder();
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  /// "model.onnx" in it.
  std::filesystem::path model() const;
  const std::filesystem::path& path() const { return path_; }

  /// Removes model() and its weights of each folder that is there, then the folder. For signal handlers.
  static void remove_now() noexcept;

 private:
  std::filesystem::path path_;
  std::string name_, model_, weights_;
  std::array<const char*, 3> names_{};  ///< model, weights, folder, as remove_now() needs them
};

}  // namespace kilter::tool
