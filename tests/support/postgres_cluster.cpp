#include "support/postgres_cluster.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>

#include "base/error.h"

namespace kilter {

PostgresCluster::PostgresCluster(const std::vector<std::string>& arguments) {
  std::array<int, 2> in{}, out{};
  require(::pipe2(in.data(), O_CLOEXEC) == 0 && ::pipe2(out.data(), O_CLOEXEC) == 0, "no pipes for postgres.py");
  std::vector<std::string> words{"python3", KILTER_POSTGRES_SCRIPT};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, in[0], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&files, out[1], STDOUT_FILENO);
  const int code = posix_spawnp(&script_, "python3", &files, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  ::close(in[0]), ::close(out[1]);
  to_script_ = in[1], from_script_ = out[0];
  require(code == 0, "python3 cannot be started");
  folder_ = answer();
  if (folder_.empty()) fail(ErrorKind::io, "no PostgreSQL server could be started; postgres.py says why above");
}

PostgresCluster::~PostgresCluster() {
  ::close(to_script_), ::close(from_script_);
  ::waitpid(script_, nullptr, 0);
}

std::string PostgresCluster::url(const std::string& database, const std::string& user) const {
  return "postgresql:///" + database + "?host=" + folder_ + "&user=" + user;
}

void PostgresCluster::stop() { tell("stop"); }
void PostgresCluster::crash() { tell("crash"); }
void PostgresCluster::start() { tell("start"); }
void PostgresCluster::restart() { tell("restart"); }
void PostgresCluster::move_clock(int64_t seconds) { tell("clock " + std::to_string(seconds)); }
void PostgresCluster::free_disk() { tell("free"); }

std::string PostgresCluster::fill_disk() {
  std::string said = ask("fill");
  return said == "done" ? "" : said;
}

void PostgresCluster::tell(const std::string& line) {
  const std::string said = ask(line);
  require(said == "done", "postgres.py did not obey '{}': {}", line, said);
}

/// Sends a line to the script and returns its reply.
std::string PostgresCluster::ask(std::string line) {
  line += '\n';
  require(::write(to_script_, line.data(), line.size()) == static_cast<ssize_t>(line.size()),
          "postgres.py has ended; it was to do {}", line);
  return answer();
}

/// Returns the next line that the script prints; empty if it has ended.
std::string PostgresCluster::answer() {
  std::string line;
  for (char c = 0; ::read(from_script_, &c, 1) == 1 && c != '\n';) line += c;
  return line;
}

}  // namespace kilter
