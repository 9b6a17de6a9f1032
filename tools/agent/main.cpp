// kilter-agent: measures for a fleet on this machine (src/fleet/agent.h). It is its own worker, so one file is enough.
#include <fmt/format.h>
#include <kilter/version.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "agent/open_queue.h"
#include "base/cpu_info.h"
#include "base/error.h"
#include "base/json_text.h"
#include "base/text.h"
#include "exec/cpu_limits.h"
#include "exec/sodium.h"
#include "fleet/agent/agent.h"
#include "fleet/broker_client/broker_client.h"
#include "measure/caches.h"
#include "measure/conditions.h"
#include "measure/device.h"
#include "target/target.h"
#include "tune/run/worker.h"
#include "vm/reference_steps.h"

namespace kilter {
namespace {

constexpr std::string_view kHelp =
    R"(kilter-agent: measures schedules for a fleet on this machine, until it is ended by SIGTERM or Ctrl-C

usage: kilter-agent --fleet URL (--trust FILE... | --trust-anyone) [OPTION...]

  --fleet URL            the fleet's database, postgresql://USER@HOST/DATABASE (a password belongs in a passfile,
                         ~/.pgpass), or its broker, https://HOST:PORT (default: $KILTER_FLEET)
  --token FILE           a file with the agent's token for the broker (default: $KILTER_FLEET_TOKEN)
  --ca FILE              the PEM certificate of the authority that issued the broker's certificate (default:
                         $KILTER_FLEET_CA, or those of the system)
  --trust FILE           run jobs that the owner of this public key has signed; a folder means all its *.public files;
                         may be given several times (default: $KILTER_FLEET_TRUST); `kilter sign --new-keys NAME`
                         makes keys, and `kilter tune --sign-key NAME.secret` signs jobs
  --trust-anyone         run the machine code of everybody who may submit to the fleet
  --upgrade FILE         let newer programs that `kilter fleet upgrade` offers replace this one, if the owner of this
                         public key has signed them; a folder means all its *.public files; may be given several times;
                         for agents of a broker
  --name NAME            the agent's name in the fleet, unique (default: the name of this machine)
  --device-class CLASS   the class whose jobs it runs (default: the target that fits this processor)
  --cpus LIST            run on these CPUs only, such as 4-7 for the large cores of a board (default: all that it may use)
  --worker PROGRAM       the program that runs candidates (default: this program); where the system cannot start this
                         program, a script that starts it in an emulator
  --lease SECONDS        without a heartbeat for this long, its jobs go to other agents, 5 to 3600 (default: 30)
  --version, --help

It opens connections, but accepts none. Exit codes: 0 ended, 2 wrong usage, 3 the fleet refuses it, 4 a bug.
)";

std::atomic<bool> stop = false;

std::string machine_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 && name[0] != '\0' ? name.data() : "agent";
}

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

struct Words {
  fleet::AgentOptions agent = {};
  fleet::BrokerAccess broker = {};  ///< or a database, if the URL is one's
  std::vector<std::filesystem::path> trusted = {};
  std::vector<std::filesystem::path> upgrade_keys = {};
  std::vector<int> cpus = {};  ///< empty: all
  bool trust_anyone = false;
  std::string_view prints = {};  ///< instead of working
};

/// Returns whose jobs the agent runs.
fleet::Trust trust_of(const Words& words) {
  std::vector<std::filesystem::path> trusted = words.trusted;
  if (words.trust_anyone && !trusted.empty())
    fail(ErrorKind::usage, "--trust-anyone and --trust exclude each other; leave out one of them");
  if (words.trust_anyone) return fleet::Trust::in_anyone();
  const char* const given = std::getenv("KILTER_FLEET_TRUST");
  if (trusted.empty() && given != nullptr && *given != '\0') trusted.emplace_back(given);
  if (trusted.empty()) {
    fail(ErrorKind::usage,
         "an agent runs machine code: say whose. --trust FILE: only jobs that the owner of this public key has signed "
         "(`kilter sign --new-keys NAME` makes NAME.public); --trust-anyone: jobs of everybody who may submit to the "
         "fleet");
  }
  return fleet::Trust::in_keys(trusted);
}

/// The names of the targets whose code this machine runs.
std::vector<std::string> targets_here() {
  std::vector<std::string> out;
  for (const TargetRow& row : all_targets()) {
    if (runs_here(parse_target(row.name))) out.emplace_back(row.name);
  }
  return out;
}

Words parse(const std::vector<std::string_view>& words) {
  Words out;
  out.broker.url = variable("KILTER_FLEET");
  out.broker.token_file = variable("KILTER_FLEET_TOKEN"), out.broker.ca_file = variable("KILTER_FLEET_CA");
  out.agent.name = machine_name();
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string_view word = words[i];
    if (word == "--help" || word == "-h") return {.prints = kHelp};
    if (word == "--version") return {.prints = KILTER_VERSION_STRING "\n"};
    const auto value = [&] {
      if (i + 1 == words.size()) fail(ErrorKind::usage, "{} needs a value; --help lists the options", word);
      return std::string(words[++i]);
    };
    if (word == "--fleet") {
      out.broker.url = value();
    } else if (word == "--token") {
      out.broker.token_file = value();
    } else if (word == "--ca") {
      out.broker.ca_file = value();
    } else if (word == "--name") {
      out.agent.name = value();
    } else if (word == "--device-class") {
      out.agent.device_class = value();
    } else if (word == "--cpus") {
      const std::string text = value();
      out.cpus = cpus_in(text);
      if (out.cpus.empty()) fail(ErrorKind::usage, "--cpus {}: expected a list of CPUs such as 4-7 or 0,2", text);
    } else if (word == "--worker") {
      out.agent.worker = value();
    } else if (word == "--trust") {
      out.trusted.emplace_back(value());
    } else if (word == "--upgrade") {
      out.upgrade_keys.emplace_back(value());
    } else if (word == "--trust-anyone") {
      out.trust_anyone = true;
    } else if (word == "--lease") {
      const std::string text = value();
      out.agent.lease_seconds = try_parse_float(text).value_or(0);
      if (!(out.agent.lease_seconds >= 5 && out.agent.lease_seconds <= 3600))
        fail(ErrorKind::usage, "--lease {}: expected 5 to 3600 seconds", text);
    } else {
      fail(ErrorKind::usage,
           "unknown option '{}'; legal options are --fleet, --token, --ca, --trust, --trust-anyone, --upgrade, "
           "--name, --device-class, --cpus, --worker, --lease, --version and --help",
           word);
    }
  }
  if (!out.upgrade_keys.empty() && !out.broker.url.starts_with("http")) {
    fail(ErrorKind::usage,
         "--upgrade {}: programs that replace others are linked statically and need a broker: give --fleet "
         "https://HOST:PORT, or install newer versions by other means",
         out.upgrade_keys.front().string());
  }
  if (!out.upgrade_keys.empty() && !out.agent.worker.empty()) {
    fail(ErrorKind::usage,
         "--upgrade and --worker exclude each other, since an agent in an emulator cannot start another program; leave "
         "out one of them");
  }
  if (out.broker.url.empty()) fail(ErrorKind::usage, "--fleet URL is missing; --help lists the options");
  out.agent.trust = trust_of(out);
  return out;
}

int run(int argc, char** argv) {
  const std::vector<const char*> arguments(argv + 1, argv + argc);
  install_reference_kernels();                      // for steps that no template accepts
  if (tune::worker_main(arguments) == 0) return 0;  // an agent has started this process
  Words words = parse({argv + 1, argv + argc});
  if (!words.prints.empty()) {
    fmt::print("{}", words.prints);
    return 0;
  }
  const std::string usable = affinity_text();
  if (!set_affinity(words.cpus) || (!words.cpus.empty() && affinity_cpus() != words.cpus))
    fail(ErrorKind::usage, "--cpus {}: not all of these can be used; legal values are {}", cpu_list_text(words.cpus),
         usable);
  fleet::AgentOptions& agent = words.agent;
  (void)sodium();  // for the hashes of the data that jobs refer to
  const std::string target = native_target().name;
  if (agent.device_class.empty()) agent.device_class = target;
  agent.device = describe_device().fingerprint();
  const Conditions now = current_conditions();
  const CacheSizes caches = cache_sizes();
  agent.facts = json_text(nlohmann::json{{"device", agent.device},
                                         {"processor", cpu_brand()},
                                         {"target", target},
                                         {"version", KILTER_VERSION_STRING},
                                         {"trusts", agent.trust.words()},
                                         {"targets", targets_here()},
                                         {"cpus", available_cpus()},
                                         {"pinning", now.pinning},
                                         {"huge_pages", now.huge_pages},
                                         {"clock", now.clock},
                                         {"cache_bytes", {caches.l1_bytes, caches.l2_bytes, caches.l3_bytes}},
                                         {"memory_bytes", available_memory()}});
  agent.connect = [&]() -> std::unique_ptr<fleet::JobSource> {
    words.broker.lease_seconds = agent.lease_seconds;
    if (words.broker.url.starts_with("http")) return std::make_unique<fleet::BrokerClient>(words.broker);
    return open_queue(words.broker.url, agent.lease_seconds);
  };
  if (agent.worker.empty()) agent.worker = "/proc/self/exe";
  agent.tell = [](const std::string& line) { fmt::print(stderr, "kilter-agent: {}\n", line); };
  std::signal(SIGPIPE, SIG_IGN);
  for (const int signal : {SIGTERM, SIGINT}) std::signal(signal, [](int) { stop = true; });
  std::optional<fleet::Upgrades> upgrades;
  if (!words.upgrade_keys.empty()) {
    fleet::Trust trust = fleet::Trust::in_keys(words.upgrade_keys, fleet::Trust::Use::programs);
    if (trust.shares_a_key_with(agent.trust)) {
      fail(ErrorKind::usage,
           "--upgrade {}: a key of --trust is among these; programs need a key of their own, because jobs run confined "
           "and programs do not",
           words.upgrade_keys.front().string());
    }
    upgrades.emplace(std::move(trust), "", agent.tell);
    agent.upgrades = &*upgrades;
  }
  const fleet::AgentEnd end = fleet::run_agent(agent, stop);
  fmt::print(stderr, "kilter-agent: ended after {} jobs\n", end.done);
  if (!end.replaced || stop) return 0;
  execv(upgrades->file().c_str(), argv);
  fmt::print(stderr, "kilter-agent: {} cannot be started: {}; the old program is started again\n",
             upgrades->file().string(), std::strerror(errno));
  upgrades->undo();
  execv(upgrades->file().c_str(), argv);
  fmt::print(stderr, "kilter-agent: {}; start it again\n", std::strerror(errno));
  return 3;
}

}  // namespace
}  // namespace kilter

int main(int argc, char** argv) {
  try {
    return kilter::run(argc, argv);
  } catch (const kilter::Error& e) {
    fmt::print(stderr, "kilter-agent: {}\n", e.message());
    return e.kind() == kilter::ErrorKind::usage ? 2 : e.kind() == kilter::ErrorKind::internal ? 4 : 3;
  } catch (const std::exception& e) {
    fmt::print(stderr, "kilter-agent: {}\n", e.what());
    return 4;
  }
}
