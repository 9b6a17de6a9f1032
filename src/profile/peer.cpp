#include "profile/peer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/error.h"
#include "measure/conditions.h"

namespace kilter::embedded {
extern const std::string_view peer_server;
}

namespace kilter::profile {
namespace {

using nlohmann::json;

std::string interpreter() {
  if (const char* set = std::getenv("KILTER_PYTHON"); set != nullptr && *set != '\0') return set;
  const std::filesystem::path local = ".venv/bin/python";
  std::error_code error;
  return std::filesystem::exists(local, error) ? local.string() : "python3";
}

}  // namespace

/// The child and the two pipes to it. Writes to a child that is gone answer an error instead of a signal.
struct Peer::Process {
  pid_t pid = -1;
  int to = -1;
  int from = -1;
  std::string pending;

  explicit Process(const std::string& python) {
    std::signal(SIGPIPE, SIG_IGN);
    std::array<int, 2> in{}, out{};
    if (pipe2(in.data(), O_CLOEXEC) != 0 || pipe2(out.data(), O_CLOEXEC) != 0) {
      fail(ErrorKind::io, "no pipe to another process can be made");
    }
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    std::string program = python, flag = "-c", text(embedded::peer_server);
    std::array<char*, 4> args{program.data(), flag.data(), text.data(), nullptr};
    const int error = posix_spawnp(&pid, program.c_str(), &actions, nullptr, args.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    close(in[0]);
    close(out[1]);
    to = in[1];
    from = out[0];
    if (error != 0) pid = -1;
  }

  ~Process() {
    close(to);
    close(from);
    if (pid <= 0) return;
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  bool write_line(std::string line) const {
    line += '\n';
    for (size_t at = 0; at < line.size();) {
      const ssize_t n = write(to, line.data() + at, line.size() - at);
      if (n <= 0) return false;
      at += static_cast<size_t>(n);
    }
    return true;
  }

  /// The next line; empty when the child is gone.
  std::string read_line() {
    for (;;) {
      if (const size_t end = pending.find('\n'); end != std::string::npos) {
        std::string line = pending.substr(0, end);
        pending.erase(0, end + 1);
        return line;
      }
      std::array<char, 4096> buffer{};
      const ssize_t n = read(from, buffer.data(), buffer.size());
      if (n <= 0) return {};
      pending.append(buffer.data(), static_cast<size_t>(n));
    }
  }
};

Peer::Peer(const Request& request) : what_(request.runtime + ":" + request.model) {
  if (request.runtime != "onnxruntime" && request.runtime != "openvino") {
    fail(ErrorKind::usage, "{}: no runtime of this name; legal are onnxruntime, openvino", request.runtime);
  }
  const std::string python = interpreter();
  process_ = std::make_unique<Process>(python);
  const json line{{"runtime", request.runtime},
                  {"model", request.model},
                  {"threads", request.threads},
                  {"shapes", request.shapes},
                  {"cpus", affinity_cpus()}};
  json answer;
  if (process_->pid > 0 && process_->write_line(line.dump())) {
    answer = json::parse(process_->read_line(), nullptr, false);
  }
  if (!answer.is_object()) {
    fail(ErrorKind::unsupported,
         "{}: the Python interpreter '{}' does not run; set KILTER_PYTHON to one that has {} installed", what_, python,
         request.runtime);
  }
  if (answer.contains("error")) {
    fail(ErrorKind::unsupported, "{}: {} says: {} (interpreter {}; KILTER_PYTHON chooses another)", what_,
         request.runtime, answer["error"].get<std::string>(), python);
  }
  version_ = answer.value("version", request.runtime);
}

Peer::~Peer() = default;

std::string Peer::ask(const std::string& line) {
  std::string answer;
  if (process_->write_line(line)) answer = process_->read_line();
  if (answer.empty()) fail(ErrorKind::unsupported, "{}: its process ended before it answered '{}'", what_, line);
  return answer;
}

double Peer::run(int64_t runs) { return json::parse(ask(fmt::format("run {}", runs))).at("ms").get<double>(); }

std::vector<PeerLayer> Peer::layers(int64_t runs) {
  std::vector<PeerLayer> layers;
  const json answer = json::parse(ask(fmt::format("layers {}", runs)));
  for (const json& layer : answer.at("layers")) {
    layers.push_back({layer.at("name"), layer.at("op"), layer.at("ms")});
  }
  return layers;
}

}  // namespace kilter::profile
