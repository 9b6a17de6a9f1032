// XGBoost's shared library, loaded at run time; Kilter is not linked to it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace kilter::tune {

/// The functions of XGBoost's C interface that Kilter calls, as documented in "XGBoost C API", release 3.2. Each
/// returns 0, or -1 with the reason in last_error(). Arrays are passed in NumPy's array interface as JSON.
struct XgboostFunctions {
  using Handle = void*;
  void (*version)(int* major, int* minor, int* patch) = nullptr;
  const char* (*last_error)() = nullptr;
  int (*matrix_from_dense)(const char* data, const char* config, Handle* out) = nullptr;
  int (*matrix_set_info)(Handle matrix, const char* field, const char* data) = nullptr;
  int (*matrix_free)(Handle matrix) = nullptr;
  int (*booster_create)(const Handle matrices[], uint64_t count, Handle* out) = nullptr;
  int (*booster_set)(Handle booster, const char* name, const char* value) = nullptr;
  int (*booster_update)(Handle booster, int iteration, Handle matrix) = nullptr;
  int (*booster_predict)(Handle booster, Handle matrix, const char* config, const uint64_t** shape, uint64_t* dims,
                         const float** result) = nullptr;
  int (*booster_save)(Handle booster, const char* config, uint64_t* size, const char** bytes) = nullptr;
  int (*booster_free)(Handle booster) = nullptr;
};

class XgboostLibrary {
 public:
  /// Loads the library from `where`: the library itself, a folder that contains it, or a Python environment with the
  /// package. If `where` is empty, KILTER_XGBOOST is used in the same way; after it, $VIRTUAL_ENV, .venv in the working
  /// folder and the system's library paths are tried. A loaded library is kept. Throws usage if the requested place has
  /// no library, and unsupported if none is found at all or it is too old (before 2.0); the message names every place
  /// and the command that installs it.
  static std::shared_ptr<const XgboostLibrary> load(const std::string& where = "");

  const XgboostFunctions& functions() const { return functions_; }
  const std::string& path() const { return path_; }
  /// "3.2.0".
  const std::string& version() const { return version_; }
  /// Throws internal with XGBoost's own message if `code` is not 0.
  void check(int code, const char* what) const;

  XgboostLibrary(void* library, std::string path);

 private:
  XgboostFunctions functions_;
  std::string path_, version_;
};

/// Returns the files that a place may refer to, in the order in which they are tried: the place itself, the library in
/// that folder, and the paths at which a Python environment keeps it.
std::vector<std::filesystem::path> xgboost_candidates(const std::filesystem::path& place);

}  // namespace kilter::tune
