#include "profile/peer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>

#include "base/error.h"
#include "base/handle.h"
#include "base/json_text.h"
#include "base/npy.h"
#include "measure/conditions.h"

namespace kilter::embedded {
extern const std::string_view peer_server;
}

namespace kilter::profile {
namespace {

using nlohmann::json;

struct Interpreter {
  std::string path;
  const char* chosen;  ///< why this one was chosen, in words
};

/// The interpreter that set_interpreter() names; empty: none.
std::string& own_interpreter() {
  static std::string path;
  return path;
}

Interpreter interpreter() {
  if (const char* set = std::getenv("KILTER_PYTHON"); set != nullptr && *set != '\0')
    return {set, "KILTER_PYTHON names it"};
  if (!own_interpreter().empty()) return {own_interpreter(), "it runs this program, and KILTER_PYTHON is not set"};
  const std::filesystem::path local = ".venv/bin/python";
  std::error_code error;
  if (std::filesystem::exists(local, error))
    return {local.string(), "it is in the current folder, and KILTER_PYTHON is not set"};
  return {"python3", "KILTER_PYTHON is not set, and the current folder has no .venv/bin/python"};
}

/// Returns how to install a runtime's modules in an interpreter that lacks them.
std::string install_text(const Interpreter& python, const std::string& module) {
  return fmt::format(
      "install it with `{} -m pip install {}`, or set KILTER_PYTHON to an interpreter that has it (this one was chosen "
      "because {})",
      python.path, module, python.chosen);
}

struct Pipe {
  Handle read_end, write_end;
  Pipe() {
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) {
      fail(ErrorKind::io, "cannot create a pipe to another process: {}", std::generic_category().message(errno));
    }
    read_end = Handle(ends[0]), write_end = Handle(ends[1]);
  }
};

std::string words_of(const json& value) { return value.is_string() ? value.get<std::string>() : json_text(value); }

}  // namespace

/// The child process and the two pipes to it. Writing to a dead child returns an error instead of raising a signal.
struct Peer::Process {
  pid_t pid = -1;
  Pipe in, out;
  Handle errors;  ///< an in-memory file that receives its standard error
  std::string pending;

  explicit Process(const std::string& python) : errors(memfd_create("kilter-peer-errors", MFD_CLOEXEC)) {
    std::signal(SIGPIPE, SIG_IGN);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in.read_end.get(), STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, out.write_end.get(), STDOUT_FILENO);
    if (errors) posix_spawn_file_actions_adddup2(&actions, errors.get(), STDERR_FILENO);
    std::string program = python, flag = "-c", text(embedded::peer_server);
    std::array<char*, 4> args{program.data(), flag.data(), text.data(), nullptr};
    const int error = posix_spawnp(&pid, program.c_str(), &actions, nullptr, args.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    in.read_end.reset();
    out.write_end.reset();
    if (error != 0) pid = -1;
  }

  ~Process() {
    if (pid <= 0) return;
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  bool write_line(std::string line) const {
    line += '\n';
    for (size_t at = 0; at < line.size();) {
      const ssize_t n = write(in.write_end.get(), line.data() + at, line.size() - at);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return false;
      at += static_cast<size_t>(n);
    }
    return true;
  }

  /// Returns the next line that is a JSON object, skipping what libraries print, or null if the child has ended.
  json read_answer() {
    for (;;) {
      if (const size_t end = pending.find('\n'); end != std::string::npos) {
        json answer = try_parse_json(pending.substr(0, end));
        pending.erase(0, end + 1);
        if (answer.is_object()) return answer;
        continue;
      }
      std::array<char, 4096> buffer{};
      const ssize_t n = read(out.read_end.get(), buffer.data(), buffer.size());
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return nullptr;
      pending.append(buffer.data(), static_cast<size_t>(n));
    }
  }

  /// Returns ": " and the last line of its standard error, or an empty string if there is none.
  std::string last_words() const {
    const std::string words = kilter::last_words(errors.get());
    return words.empty() ? "" : ": " + words.substr(words.rfind('\n') + 1);
  }
};

namespace {

/// Returns each tensor's type, shape and bytes in hexadecimal digits, for types that NumPy has.
json values_json(const std::map<std::string, Tensor>& values) {
  json out = json::object();
  for (const auto& [input, tensor] : values) {
    if (is_narrow(tensor.dtype()) || tensor.dtype() == DType::bf16 || tensor.dtype() == DType::string) continue;
    std::string hex;
    for (int64_t i = 0; i < tensor.bytes(); ++i)
      fmt::format_to(std::back_inserter(hex), "{:02x}", std::to_integer<unsigned>(tensor.raw()[i]));
    out[input] = {{"type", numpy_name(tensor.dtype())}, {"shape", tensor.shape()}, {"hex", std::move(hex)}};
  }
  return out;
}

}  // namespace

void set_interpreter(std::string path) { own_interpreter() = std::move(path); }

Peer::Peer(const Request& request) : what_(request.runtime + ":" + request.model) {
  if (request.runtime != "onnxruntime" && request.runtime != "openvino") {
    fail(ErrorKind::usage, "{}: no runtime of this name; legal values are onnxruntime, openvino", request.runtime);
  }
  const Interpreter python = interpreter();
  process_ = std::make_unique<Process>(python.path);
  const json line{{"runtime", request.runtime},
                  {"model", request.model},
                  {"threads", request.threads},
                  {"shapes", request.shapes},
                  {"values", values_json(request.values)},
                  {"cpus", affinity_cpus()}};
  json answer;
  if (process_->pid > 0 && process_->write_line(json_text(line))) answer = process_->read_answer();
  if (!answer.is_object()) {
    fail(ErrorKind::unsupported,
         "{}: the Python interpreter '{}' does not run{}; set KILTER_PYTHON to one that has {} installed (this one was "
         "chosen because {})",
         what_, python.path, process_->last_words(), request.runtime, python.chosen);
  }
  if (answer.contains("missing")) {
    fail(ErrorKind::unsupported, "{}: the Python interpreter '{}' has no {}: {}; {}", what_, python.path,
         words_of(answer["missing"]), answer.contains("error") ? words_of(answer["error"]) : "no message",
         install_text(python, words_of(answer["missing"])));
  }
  if (answer.contains("error")) {
    fail(ErrorKind::unsupported, "{}: {} reports: {} (interpreter {}; KILTER_PYTHON chooses another)", what_,
         request.runtime, words_of(answer["error"]), python.path);
  }
  version_ = answer.contains("version") ? words_of(answer["version"]) : request.runtime;
}

Peer::~Peer() = default;

/// Sends a command and returns the result of `read` for the reply. An unexpected reply is an error that quotes the
/// process.
template <class Read>
auto Peer::ask(const std::string& line, Read&& read) {
  json answer;
  if (process_->write_line(line)) answer = process_->read_answer();
  if (!answer.is_object()) {
    fail(ErrorKind::unsupported, "{}: its process ended before it answered '{}'{}", what_, line,
         process_->last_words());
  }
  if (answer.contains("error")) {
    fail(ErrorKind::unsupported, "{}: it failed on '{}': {}", what_, line, words_of(answer["error"]));
  }
  try {
    return read(answer);
  } catch (const json::exception&) {
    fail(ErrorKind::unsupported, "{}: unknown answer to '{}': {}", what_, line, json_text(answer));
  }
}

double Peer::run(int64_t runs) {
  return ask(fmt::format("run {}", runs), [](const json& answer) { return answer.at("ms").get<double>(); });
}

double Peer::cpu_ms() const {
  clockid_t clock{};
  timespec t{};
  if (clock_getcpuclockid(process_->pid, &clock) != 0 || clock_gettime(clock, &t) != 0) return 0;
  return static_cast<double>(t.tv_sec) * 1e3 + static_cast<double>(t.tv_nsec) * 1e-6;
}

PeerLayers Peer::layers(int64_t runs) {
  return ask(fmt::format("layers {}", runs), [](const json& answer) {
    PeerLayers out{{}, answer.at("ms")};
    for (const json& layer : answer.at("layers"))
      out.layers.push_back({layer.at("name"), layer.at("op"), layer.at("ms")});
    return out;
  });
}

}  // namespace kilter::profile
