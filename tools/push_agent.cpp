#include "push_agent.h"

#include <fmt/format.h>

#include <optional>

#include "aot/c_compiler.h"
#include "base/error.h"
#include "base/files.h"
#include "base/text.h"
#include "scratch_folder.h"

namespace kilter::tool {
namespace {

using Command = aot::Command;

/// How to reach a board: a command that runs a script there, and one that copies the contents of a folder there.
struct Board {
  std::string folder;
  Command run;            ///< the script follows
  Command copy, copy_to;  ///< before and after the folder
};

Board ssh_board(const AgentPush& push) {
  std::string host = push.board.substr(6), port = "22";
  if (const size_t colon = host.rfind(':'); colon != std::string::npos) {
    port = host.substr(colon + 1);
    host.erase(colon);
  }
  const auto number = try_parse_int(port);
  if (host.empty() || host.front() == '-' || host.find_first_of("/ ") != std::string::npos || !number || *number < 1 ||
      *number > 65535) {
    fail(ErrorKind::usage,
         "'{}' is not the address of a board; expected ssh://HOST, ssh://USER@HOST or ssh://USER@HOST:PORT",
         push.board);
  }
  Board board{.folder = push.folder.empty() ? "kilter-agent" : push.folder, .run = {}, .copy = {}, .copy_to = {}};
  board.run = {"ssh", "-p", port, host};
  board.copy = {"scp", "-q", "-r", "-P", port};
  board.copy_to = {fmt::format("{}:{}/", host, board.folder)};
  return board;
}

Board adb_board(const AgentPush& push) {
  const std::string serial = push.board.substr(4);
  Board board{.folder = push.folder.empty() ? "/data/local/tmp/kilter-agent" : push.folder,
              .run = {},
              .copy = {},
              .copy_to = {}};
  Command adb = {"adb"};
  if (!serial.empty()) adb.insert(adb.end(), {"-s", serial});
  board.run = board.copy = adb;
  board.run.emplace_back("shell");
  board.copy.emplace_back("push");
  board.copy_to = {board.folder + "/"};
  return board;
}

Board board_of(const AgentPush& push) {
  for (const char c : push.folder) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '/' ||
                       c == '-' || c == '_' || c == '.';
    if (!plain)
      fail(ErrorKind::usage, "--folder {}: letters, digits, '/', '-', '_' and '.' are legal", printable(push.folder));
  }
  if (push.board.starts_with("ssh://")) return ssh_board(push);
  if (push.board.starts_with("adb:")) return adb_board(push);
  fail(ErrorKind::usage, "'{}' is not the address of a board; expected ssh://USER@HOST, adb: or adb:SERIAL",
       printable(push.board));
}

std::string on_board(const Board& board, const std::string& script) {
  Command command = board.run;
  command.push_back(script);
  return aot::run_command(command, ".");
}

/// Puts what the agent needs into a folder, under the names that its command uses.
void stage(const AgentPush& push, const std::filesystem::path& folder) {
  const auto copy = [&](const std::filesystem::path& from, const std::string& name) {
    std::error_code error;
    std::filesystem::copy_file(from, folder / name, error);
    if (error) fail(ErrorKind::io, "'{}' cannot be copied: {}", from.string(), error.message());
  };
  copy(push.agent, "kilter-agent.new");
  copy(push.token, "token");
  if (!push.ca.empty()) copy(push.ca, "ca.crt");
  const auto copy_keys = [&](const std::vector<std::string>& keys, const std::string& to) {
    if (!keys.empty()) std::filesystem::create_directory(folder / to);
    for (size_t i = 0; i < keys.size(); ++i) copy(keys[i], fmt::format("{}/{}.public", to, i + 1));
  };
  copy_keys(push.trusted, "trusted"), copy_keys(push.upgraders, "upgraders");
}

std::string agent_command(const AgentPush& push) {
  Command words = {"./kilter-agent", "--fleet", push.broker, "--token", "token", "--trust", "trusted"};
  if (!push.ca.empty()) words.insert(words.end(), {"--ca", "ca.crt"});
  if (!push.upgraders.empty()) words.insert(words.end(), {"--upgrade", "upgraders"});
  if (!push.name.empty()) words.insert(words.end(), {"--name", push.name});
  if (!push.device_class.empty()) words.insert(words.end(), {"--device-class", push.device_class});
  std::string line;
  for (const std::string& word : words) line += (line.empty() ? "" : " ") + shell_word(word);
  return line;
}

/// Ends the agent that runs in the folder, starts the new one, and waits until it has reached the fleet. Prints its
/// process id, or the end of its log. For any POSIX shell.
constexpr std::string_view kStart = R"sh(cd {0} || exit 1
if [ -f pid ] && kill "$(cat pid)" 2>/dev/null; then
  n=0
  while kill -0 "$(cat pid)" 2>/dev/null && [ $n -lt 60 ]; do sleep 1; n=$((n + 1)); done
fi
mv -f kilter-agent.new kilter-agent && chmod 700 kilter-agent && chmod 600 token || exit 1
nohup {1} > agent.log 2>&1 < /dev/null &
echo $! > pid
n=0
while kill -0 "$(cat pid)" 2>/dev/null && [ $n -lt 30 ]; do
  grep -q 'waits for jobs' agent.log && exec cat pid
  sleep 1
  n=$((n + 1))
done
tail -n 5 agent.log
exit 1)sh";

}  // namespace

PushedAgent push_agent(const AgentPush& push) {
  if (!push.broker.starts_with("https://") && !push.broker.starts_with("http://"))
    fail(ErrorKind::usage, "--broker {}: expected https://HOST:PORT, where `kilter-broker` runs",
         printable(push.broker));
  if (push.trusted.empty())
    fail(ErrorKind::usage,
         "--trust FILE is missing: the agent runs machine code that the owner of this public key signs");
  const Board board = board_of(push);
  const ScratchFolder staged;
  stage(push, staged.path());
  (void)on_board(board, fmt::format("mkdir -p {0} && chmod 700 {0} && rm -rf {0}/trusted {0}/upgraders", board.folder));
  Command copy = board.copy;
  for (const auto& file : std::filesystem::directory_iterator(staged.path())) copy.push_back(file.path().string());
  copy.insert(copy.end(), board.copy_to.begin(), board.copy_to.end());
  (void)aot::run_command(copy, ".");
  for (const auto& file : std::filesystem::directory_iterator(staged.path())) std::filesystem::remove_all(file.path());
  return {board.folder, std::string(trim(on_board(board, fmt::format(kStart, board.folder, agent_command(push)))))};
}

}  // namespace kilter::tool
