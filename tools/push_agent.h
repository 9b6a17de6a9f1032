// Copies an agent of a fleet to a board and starts it there, with the user's own ssh or adb.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace kilter::tool {

struct AgentPush {
  std::string board;                   ///< ssh://[USER@]HOST[:PORT], adb: or adb:SERIAL
  std::string agent;                   ///< the program, for the board's processor
  std::string broker;                  ///< URL
  std::string token, ca;               ///< files; no `ca`: the board's own authorities
  std::vector<std::string> trusted;    ///< files of the public keys whose jobs it runs
  std::vector<std::string> upgraders;  ///< files of the public keys whose programs may replace it
  std::string name;                    ///< empty: the board's host name
  std::string device_class;            ///< empty: the target that fits the board's processor
  std::string folder;                  ///< on the board; empty: the board's usual place
};

/// Returns the folder and the process id on the board. An agent that runs there from the same folder is ended first,
/// after its job. Throws usage for options that are not legal, and io, with the board's own message, if anything fails
/// there or the agent does not reach the fleet.
struct PushedAgent {
  std::string folder, pid;
};
PushedAgent push_agent(const AgentPush& push);

}  // namespace kilter::tool
