// kilter-serve: loads networks and serves them over HTTP until it gets SIGINT or SIGTERM.

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <thread>

#include "kilter/version.h"
#include "options.h"

namespace serve {
namespace {

/// "1-4, 8"
std::string batches(const std::vector<int64_t>& sizes) {
  std::string out;
  for (size_t i = 0; i < sizes.size(); ++i) {
    size_t last = i;
    while (last + 1 < sizes.size() && sizes[last + 1] == sizes[last] + 1) ++last;
    out += (i == 0 ? "" : ", ") + std::to_string(sizes[i]);
    if (last > i) out += "-" + std::to_string(sizes[last]);
    i = last;
  }
  return out;
}

std::unique_ptr<Batcher> loaded(const std::string& name, const std::string& file, const Options& options) {
  const auto begin = std::chrono::steady_clock::now();
  Model model = load_model(name, file, options.model);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  std::string said = "model '" + name + "': " + file + ", " + std::to_string(model.instances.size()) +
                     (model.instances.size() == 1 ? " instance" : " instances");
  if (!model.batch_sizes.empty()) said += ", batches of " + batches(model.batch_sizes);
  std::fprintf(stderr, "kilter-serve: %s; loaded in %.1f s\n", said.c_str(), seconds);
  for (const std::string& note : model.notes)
    std::fprintf(stderr, "kilter-serve: model '%s': %s\n", name.c_str(), note.c_str());
  return std::make_unique<Batcher>(std::move(model), options.batch);
}

/// Handles SIGINT and SIGTERM on a thread of its own. Until stop() is called, they end the process.
class Signals {
 public:
  /// Called before other threads exist, which inherit the blocked signals.
  Signals() {
    sigemptyset(&set_);
    sigaddset(&set_, SIGINT);
    sigaddset(&set_, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &set_, nullptr);
    ::signal(SIGPIPE, SIG_IGN);
    thread_ = std::thread([this] { wait(); });
  }
  ~Signals() { end(); }
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  /// From now on, the first signal stops the server, and a second one ends the process.
  void stop(HttpServer& server) { server_ = &server; }
  /// Waits until the server is no longer used here.
  void end() {
    if (!thread_.joinable()) return;
    ended_ = true;
    pthread_kill(thread_.native_handle(), SIGTERM);
    thread_.join();
  }

 private:
  void wait() {
    for (;;) {
      int signal = 0;
      sigwait(&set_, &signal);
      if (ended_) return;
      HttpServer* server = server_.exchange(nullptr);
      if (server == nullptr) _exit(128 + signal);
      std::fprintf(stderr, "kilter-serve: stopping, once the requests in progress are answered\n");
      server->stop();
    }
  }

  sigset_t set_{};
  std::atomic<bool> ended_ = false;
  std::atomic<HttpServer*> server_ = nullptr;
  std::thread thread_;
};

int run(const Options& options) {
  Signals signals;
  Models models;
  for (const auto& [name, file] : options.models) models.emplace(name, loaded(name, file, options));
  HttpServer server(options.http, models);
  const int port = server.bind();
  signals.stop(server);
  const bool v6 = options.http.host.find(':') != std::string::npos;
  std::printf("kilter-serve: http://%s:%d/v2\n", (v6 ? "[" + options.http.host + "]" : options.http.host).c_str(),
              port);
  std::fflush(stdout);
  server.serve();
  signals.end();
  return 0;
}

}  // namespace
}  // namespace serve

int main(int argc, char** argv) {
  try {
    const serve::Options options = serve::parse_options({argv + 1, argv + argc});
    if (options.help) return std::fputs(serve::help_text(), stdout) < 0;
    if (options.version) return std::puts("kilter-serve " KILTER_VERSION_STRING) < 0;
    return serve::run(options);
  } catch (const serve::UsageError& error) {
    std::fprintf(stderr, "kilter-serve: %s\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "kilter-serve: %s\n", error.what());
    return 1;
  }
}
