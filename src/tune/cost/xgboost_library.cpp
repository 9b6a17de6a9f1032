#include "tune/cost/xgboost_library.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>

#include "base/error.h"
#include "base/text.h"

namespace kilter::tune {
namespace {

constexpr const char* kFile = "libxgboost.so";
constexpr const char* kHowToInstall =
    "Install it with: python3 -m venv .venv && .venv/bin/python -m pip install xgboost-cpu==3.2.0; or work without it: "
    "the trainer 'trees' and all searchers except xgb and xgb-rank do not need it";

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

template <class F>
void find(void* library, const std::string& path, const char* name, F& function) {
  function = reinterpret_cast<F>(dlsym(library, name));
  if (function == nullptr) {
    fail(ErrorKind::unsupported, "XGBoost: {} has no function {}; Kilter needs release 2.0 or newer. {}", path, name,
         kHowToInstall);
  }
}

/// Opens the library at `path`. If that fails, returns null and adds the reason to `tried`.
void* open(const std::string& path, std::vector<std::string>& tried) {
  // RTLD_LOCAL keeps its symbols private, so that they do not affect other users of OpenMP in this program.
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) tried.emplace_back(dlerror());
  return library;
}

struct Found {
  void* library = nullptr;
  std::string path;
};

Found open_from(const std::string& place, std::vector<std::string>& tried) {
  bool any = false;
  for (const std::filesystem::path& file : xgboost_candidates(place)) {
    std::error_code ignored;
    if (!std::filesystem::is_regular_file(file, ignored)) continue;
    any = true;
    const std::string path = std::filesystem::absolute(file, ignored).string();
    if (void* const library = open(path, tried)) return {library, path};
  }
  if (!any) tried.push_back(place + ": no " + kFile);
  return {};
}

/// Opens the library at the place that the user named; tries no other place.
Found open_asked(const std::string& place, const std::string& by) {
  std::vector<std::string> tried;
  const Found found = open_from(place, tried);
  if (found.library != nullptr) return found;
  fail(ErrorKind::usage,
       "XGBoost: {} '{}' does not lead to a library (tried: {}). Expected {}, a folder that contains it, or a Python "
       "environment with the package xgboost-cpu. {}",
       by, place, join(tried, "; "), kFile, kHowToInstall);
}

Found open_anywhere() {
  std::vector<std::string> tried = {"KILTER_XGBOOST: not set"};
  std::vector<std::string> places;
  if (const std::string active = variable("VIRTUAL_ENV"); !active.empty()) places.push_back(active);
  places.emplace_back(".venv");
  for (const std::string& place : places) {
    if (const Found found = open_from(place, tried); found.library != nullptr) return found;
  }
  if (void* const library = open(kFile, tried)) return {library, kFile};
  fail(ErrorKind::unsupported, "XGBoost was not found (tried: {}). {}", join(tried, "; "), kHowToInstall);
}

}  // namespace

std::vector<std::filesystem::path> xgboost_candidates(const std::filesystem::path& place) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  if (!fs::is_directory(place, ignored)) return {place};
  std::vector<fs::path> found = {place / kFile, place / "lib" / kFile, place / "xgboost" / "lib" / kFile};
  std::vector<fs::path> pythons;
  for (const auto& entry : fs::directory_iterator(place / "lib", ignored)) {
    if (entry.path().filename().string().starts_with("python")) pythons.push_back(entry.path());
  }
  std::sort(pythons.begin(), pythons.end());
  for (const fs::path& python : pythons) found.push_back(python / "site-packages" / "xgboost" / "lib" / kFile);
  return found;
}

XgboostLibrary::XgboostLibrary(void* library, std::string path) : path_(std::move(path)) {
  find(library, path_, "XGBoostVersion", functions_.version);
  int major = 0;
  int minor = 0;
  int patch = 0;
  functions_.version(&major, &minor, &patch);
  version_ = fmt::format("{}.{}.{}", major, minor, patch);
  if (major < 2) {
    fail(ErrorKind::unsupported, "XGBoost: {} is release {}; Kilter needs 2.0 or newer. {}", path_, version_,
         kHowToInstall);
  }
  find(library, path_, "XGBGetLastError", functions_.last_error);
  find(library, path_, "XGDMatrixCreateFromDense", functions_.matrix_from_dense);
  find(library, path_, "XGDMatrixSetInfoFromInterface", functions_.matrix_set_info);
  find(library, path_, "XGDMatrixFree", functions_.matrix_free);
  find(library, path_, "XGBoosterCreate", functions_.booster_create);
  find(library, path_, "XGBoosterSetParam", functions_.booster_set);
  find(library, path_, "XGBoosterUpdateOneIter", functions_.booster_update);
  find(library, path_, "XGBoosterPredictFromDMatrix", functions_.booster_predict);
  find(library, path_, "XGBoosterSaveModelToBuffer", functions_.booster_save);
  find(library, path_, "XGBoosterFree", functions_.booster_free);
}

void XgboostLibrary::check(int code, const char* what) const {
  require(code == 0, "XGBoost {}: {} failed: {}", version_, what, functions_.last_error());
}

std::shared_ptr<const XgboostLibrary> XgboostLibrary::load(const std::string& where) {
  static std::mutex mutex;
  static std::map<std::string, std::shared_ptr<const XgboostLibrary>> loaded;
  const std::lock_guard lock(mutex);
  const std::string set = where.empty() ? variable("KILTER_XGBOOST") : where;
  const Found found = set.empty() ? open_anywhere() : open_asked(set, where.empty() ? "KILTER_XGBOOST" : "the path");
  std::shared_ptr<const XgboostLibrary>& library = loaded[found.path];
  // Never closed, since OpenMP's threads outlive their work.
  if (library == nullptr) library = std::make_shared<XgboostLibrary>(found.library, found.path);
  return library;
}

}  // namespace kilter::tune
