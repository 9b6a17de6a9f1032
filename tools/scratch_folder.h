// A temporary folder for a file that another program reads.
#pragma once

#include <array>
#include <filesystem>
#include <string>

namespace kilter::tool {

/// A uniquely named folder in TMPDIR, or in /tmp if TMPDIR is not set. The destructor removes it with its contents; so
/// does an interrupt.
class ScratchFolder {
 public:
  /// Throws io with the system's reason if the folder cannot be created.
  ScratchFolder();
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  /// Returns the path of "model.onnx" in the folder.
  std::filesystem::path model() const;
  const std::filesystem::path& path() const { return path_; }

  /// Removes model() and its weights from every existing scratch folder, then the folders. Safe to call from signal
  /// handlers.
  static void remove_now() noexcept;

 private:
  std::filesystem::path path_;
  std::string name_, model_, weights_;
  std::array<const char*, 3> names_{};  ///< paths of model, weights and folder, as remove_now() needs them
};

}  // namespace kilter::tool
