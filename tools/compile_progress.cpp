#include "compile_progress.h"

#include <chrono>

#include "terminal.h"

namespace kilter::tool {
namespace {

constexpr std::chrono::milliseconds kPatience{2000};
constexpr std::chrono::milliseconds kEach{250};

}  // namespace

CompileProgress::CompileProgress(std::string what) : what_(std::move(what)) {}
CompileProgress::~CompileProgress() { end(); }

void CompileProgress::at(const CompileStage& stage) {
  if (stage.name.empty()) return end();
  const std::string text =
      stage.of > 0 ? fmt::format("{}: {} of {}", stage.name, stage.done, stage.of) : std::string(stage.name);
  if (console().progress) return console().progress(text);
  const std::lock_guard lock(mutex_);
  text_ = text;
  if (!watcher_.joinable()) watcher_ = std::thread([this] { watch(); });
}

void CompileProgress::watch() {
  Progress line(what_);
  std::unique_lock lock(mutex_);
  auto wait = kPatience;
  while (!changed_.wait_for(lock, wait, [this] { return text_.empty(); })) {
    line.show(text_);
    wait = kEach;
  }
}

void CompileProgress::end() {
  {
    const std::lock_guard lock(mutex_);
    text_.clear();
  }
  changed_.notify_all();
  if (watcher_.joinable()) watcher_.join();
}

}  // namespace kilter::tool
