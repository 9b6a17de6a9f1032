#include "scratch_folder.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <system_error>

#include "base/files.h"

namespace kilter::tool {
namespace {

/// The folders that remove_now() removes. At most two networks are compared, so 8 places suffice.
std::array<std::atomic<const std::array<const char*, 3>*>, 8> known;

}  // namespace

ScratchFolder::ScratchFolder() {
  path_ = make_temporary_folder("kilter-");
  name_ = path_.string();
  model_ = model().string(), weights_ = model_ + ".weights";
  names_ = {model_.c_str(), weights_.c_str(), name_.c_str()};
  for (auto& slot : known) {
    const std::array<const char*, 3>* none = nullptr;
    if (slot.compare_exchange_strong(none, &names_)) return;
  }
}

ScratchFolder::~ScratchFolder() {
  for (auto& slot : known) {
    const std::array<const char*, 3>* own = &names_;
    if (slot.compare_exchange_strong(own, nullptr)) break;
  }
  std::error_code error;
  std::filesystem::remove_all(path_, error);
}

std::filesystem::path ScratchFolder::model() const { return path_ / "model.onnx"; }

void ScratchFolder::remove_now() noexcept {
  for (auto& slot : known) {
    const std::array<const char*, 3>* names = slot.exchange(nullptr);
    if (names == nullptr) continue;
    unlink((*names)[0]);
    unlink((*names)[1]);
    rmdir((*names)[2]);
  }
}

}  // namespace kilter::tool
