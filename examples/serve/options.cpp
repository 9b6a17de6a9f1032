// The command line of kilter-serve.

#include "options.h"

#include <charconv>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>

namespace serve {
namespace {

struct Unit {
  const char* text;
  double factor;
};

/// A number of 0 or more with one of these units; the first unit is the default.
double quantity(const std::string& option, const std::string& value, const std::vector<Unit>& units,
                const char* expected) {
  double number = 0;
  const auto end = std::from_chars(value.data(), value.data() + value.size(), number);
  const std::string unit(end.ptr, value.data() + value.size());
  for (const Unit& known : units) {
    if (end.ec == std::errc() && number >= 0 && number < 1e12 &&
        (unit == known.text || (unit.empty() && known.text == units[0].text)))
      return number * known.factor;
  }
  throw UsageError(option + " '" + value + "': expected " + expected);
}

int64_t whole(const std::string& option, const std::string& value, int64_t least, int64_t most) {
  int64_t number = 0;
  const auto end = std::from_chars(value.data(), value.data() + value.size(), number);
  if (value.empty() || end.ec != std::errc() || end.ptr != value.data() + value.size() || number < least ||
      number > most)
    throw UsageError(option + " '" + value + "': expected a whole number from " + std::to_string(least) + " to " +
                     std::to_string(most));
  return number;
}

std::pair<std::string, std::string> named_model(const std::string& word) {
  const size_t equals = word.find('=');
  std::string file = equals == std::string::npos ? word : word.substr(equals + 1);
  std::string name = equals == std::string::npos ? "" : word.substr(0, equals);
  if (equals == std::string::npos)
    name = file.starts_with("zoo:") ? file.substr(4) : std::filesystem::path(file).stem().string();
  if (name.empty() || file.empty()) throw UsageError("model '" + word + "': expected FILE or NAME=FILE");
  if (name.find('/') != std::string::npos)
    throw UsageError("model '" + word + "': a name is a part of a path, so it must not contain '/'");
  return {name, file};
}

/// Applies an option that has a value. Returns false if there is no such option.
bool apply(Options& options, const std::string& option, const std::string& value) {
  constexpr int64_t kMost = std::numeric_limits<int>::max();
  if (option == "--host") {
    options.http.host = value;
  } else if (option == "--port") {
    options.http.port = static_cast<int>(whole(option, value, 0, 65535));
  } else if (option == "--connections") {
    options.http.connections = static_cast<int>(whole(option, value, 1, 4096));
  } else if (option == "--max-request") {
    options.http.max_request = static_cast<size_t>(
        quantity(option, value, {{"B", 1}, {"kB", 1e3}, {"MB", 1e6}, {"GB", 1e9}}, "a size such as 64MB"));
  } else if (option == "--threads") {
    options.model.threads = static_cast<int>(whole(option, value, 1, 1024));
  } else if (option == "--instances") {
    options.model.instances = static_cast<int>(whole(option, value, 1, 64));
  } else if (option == "--max-batch") {
    options.model.max_batch = whole(option, value, 1, 1024);
  } else if (option == "--max-delay") {
    options.batch.max_delay = std::chrono::microseconds(
        static_cast<int64_t>(quantity(option, value, {{"ms", 1e3}, {"us", 1}, {"s", 1e6}}, "a time such as 2ms")));
  } else if (option == "--max-queue") {
    options.batch.max_queue = static_cast<size_t>(whole(option, value, 1, kMost));
  } else {
    return false;
  }
  return true;
}

}  // namespace

const char* help_text() {
  return R"(Serves networks over HTTP with the Open Inference Protocol (KServe v2).

Usage:
  kilter-serve [OPTIONS] MODEL [NAME=MODEL...]

Arguments:
  MODEL               ONNX file, zoo:NAME, or a file made by `kilter compile`;
                      without NAME=, the name is that of the file or network

Network:
      --host ADDRESS  address to listen on (default: 127.0.0.1, this machine)
      --port N        port; 0: any free one, which is printed (default: 8000)
      --connections N connections that are served at the same time; others wait
                      (default: 256)
      --max-request SIZE
                      largest body of a request (default: 64MB)

Runs:
      --instances N   runs of each model at the same time (default: 1)
      --threads N     threads of each instance (default: the CPUs divided by the
                      instances)
      --max-batch N   most rows in a run (default: 8; 1: one row, no joining)
      --max-delay T   the longest that a request waits for others, if several
                      came at the last run (default: 2ms)
      --no-batching   do not join requests
      --max-queue N   most waiting requests of a model; more are refused with
                      status 503 (default: 256)

General:
  -h, --help          print the help
      --version       print the version

Example:
  kilter-serve resnet=resnet18.onnx --max-batch 8
)";
}

Options parse_options(const std::vector<std::string>& words) {
  Options options;
  options.http.max_request = 64'000'000;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word == "-h" || word == "--help") {
      options.help = true;
    } else if (word == "--version") {
      options.version = true;
    } else if (word == "--no-batching") {
      options.batch.join = false;
    } else if (!word.starts_with("-")) {
      options.models.push_back(named_model(word));
    } else {
      const size_t equals = word.find('=');
      const std::string option = word.substr(0, equals);
      const bool next = equals == std::string::npos && i + 1 < words.size();
      if (!apply(options, option, equals != std::string::npos ? word.substr(equals + 1) : next ? words[i + 1] : ""))
        throw UsageError("unknown option '" + option + "'; kilter-serve --help lists the options");
      if (next) ++i;
    }
  }
  if (options.help || options.version) return options;
  if (options.models.empty()) throw UsageError("no MODEL; kilter-serve --help shows how to give one");
  std::map<std::string, std::string> files;
  for (const auto& [name, file] : options.models) {
    const auto [other, added] = files.emplace(name, file);
    if (!added)
      throw UsageError("two models are named '" + name + "': " + other->second + " and " + file +
                       "; name one with NAME=MODEL");
  }
  return options;
}

}  // namespace serve
