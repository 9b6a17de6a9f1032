// kilter fleet: shows and manages the agents and jobs of a fleet.
#include "fleet.h"

#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "base/files.h"
#include "base/json_text.h"
#include "base/text.h"
#include "base/text_table.h"
#include "fleet/queue.h"
#include "fleet/status.h"
#include "fleet_bench.h"
#include "push_agent.h"
#include "terminal.h"
#include "tool.h"
#include "tune_view.h"

namespace kilter::tool {
namespace {

using kilter::fleet::AgentProgram;
using kilter::fleet::FleetStatus;
using kilter::fleet::Queue;
using kilter::fleet::QueueAgent;
using kilter::fleet::QueueJob;
using kilter::fleet::Stored;

struct FleetCommand {
  std::string url, json, name;
  std::string run;
  double days = 30, seconds = 2;
  int64_t times = 0;

  Queue queue() const { return Queue(required_fleet(url)); }
};

std::string age_text(double seconds) {
  if (seconds < 120) return fmt::format("{:.0f} s", seconds);
  if (seconds < 7200) return fmt::format("{:.0f} min", seconds / 60);
  if (seconds < 172800) return fmt::format("{:.0f} h", seconds / 3600);
  return fmt::format("{:.0f} days", seconds / 86400);
}

nlohmann::json to_json(const QueueJob& job) {
  return {{"id", job.id},
          {"run", job.run},
          {"kind", job.kind},
          {"device_class", job.device_class},
          {"submitter", job.submitter},
          {"priority", job.priority},
          {"candidates", job.candidates},
          {"attempt", job.attempt},
          {"state", job.state},
          {"agent", job.agent},
          {"reason", job.reason},
          {"age_seconds", job.age_seconds}};
}

/// Returns a number of the agent's state (Health::text()) as text; empty if it is not known.
std::string health_text(const QueueAgent& agent, const char* name, std::string (*text)(double)) {
  const nlohmann::json state = try_parse_json(agent.state);
  const auto value = state.is_object() ? state.find(name) : state.end();
  return value != state.end() && value->is_number() ? text(value->get<double>()) : "";
}

std::string status_text(const FleetStatus& status) {
  TextTable table({{.title = "agent", .width = 16, .left = true, .least = 8},
                   {.title = "class", .width = 14, .left = true},
                   {.title = "state", .width = 8, .left = true},
                   {.title = "seen", .width = 7},
                   {.title = "done", .width = 7},
                   {.title = "failed", .width = 6},
                   {.title = "speed", .width = 5},
                   {.title = "load", .width = 5, .rank = 2},
                   {.title = "drift", .width = 6, .rank = 3},
                   {.title = "device", .left = true, .rank = 1, .least = 20, .gap = 2}});
  for (const QueueAgent& agent : status.agents) {
    table.add({printable(agent.name), printable(agent.device_class), state_of(agent), age_text(agent.seen_seconds),
               std::to_string(agent.done), std::to_string(agent.failed),
               agent.relative_speed ? fmt::format("{:.0f} %", *agent.relative_speed * 100) : "",
               health_text(agent, "load", [](double load) { return fmt::format("{:.1f}", load); }),
               health_text(agent, "drift", [](double drift) { return fmt::format("{:+.1f} %", 100 * (drift - 1)); }),
               printable(device_of(agent))});
  }
  return fmt::format("{}jobs: {} wait, {} leased, {} set aside\n",
                     status.agents.empty() ? "no agents; `kilter-agent --fleet URL --trust NAME.public` starts one\n"
                                           : table.text(table_style(), "--json has them"),
                     status.jobs.at("waits"), status.jobs.at("leased"), status.jobs.at("set aside"));
}

void status(const FleetCommand& command) {
  Queue queue = command.queue();
  const FleetStatus status = status_of(queue);
  if (!command.json.empty()) {
    write_json(command.json, to_json(status));
    if (command.json == "-") return;
  }
  say("{}", status_text(status));
}

/// Shows the status repeatedly: in place on a terminal, one after another elsewhere.
void top(const FleetCommand& command) {
  Queue queue = command.queue();
  std::vector<std::string> shown;
  for (int64_t i = 0; command.times == 0 || i < command.times; ++i) {
    if (i > 0) std::this_thread::sleep_for(std::chrono::duration<double>(command.seconds));
    const FleetStatus status = status_of(queue);
    if (command.json == "-") {
      write_json("-", to_json(status));
    } else if (terminal_columns()) {
      std::vector<std::string> lines;
      for (const std::string_view line : split(status_text(status), '\n')) lines.emplace_back(line);
      say("{}", rewritten(shown, lines));
      shown = std::move(lines);
    } else {
      say("{}{}", i > 0 ? "\n" : "", status_text(status));
    }
    std::fflush(stdout);
  }
}

void jobs(const FleetCommand& command) {
  Queue queue = command.queue();
  const std::vector<QueueJob> jobs =
      queue.jobs(command.run.empty() ? std::nullopt : std::optional(command.run), 1'000'000);
  if (!command.json.empty()) {
    nlohmann::json out = nlohmann::json::array();
    for (const QueueJob& job : jobs) out.push_back(to_json(job));
    write_json(command.json, out);
    if (command.json == "-") return;
  }
  TextTable table({{.title = "job", .width = 8},
                   {.title = "run", .width = 16, .left = true, .least = 8},
                   {.title = "class", .width = 14, .left = true},
                   {.title = "submitter", .width = 10, .left = true},
                   {.title = "state", .width = 9, .left = true},
                   {.title = "tries", .width = 5},
                   {.title = "age", .width = 7},
                   {.title = "agent, reason", .left = true, .least = 20, .gap = 2}});
  for (const QueueJob& job : jobs) {
    table.add({std::to_string(job.id), printable(job.run), printable(job.device_class), printable(job.submitter),
               job.state, std::to_string(job.attempt), age_text(job.age_seconds),
               printable(job.agent + (job.reason.empty() ? "" : ": " + job.reason))});
  }
  say("{}", jobs.empty() ? "no jobs\n" : table.text(table_style(), "--json has them"));
}

void devices(const FleetCommand& command) {
  struct Class {
    int64_t agents = 0, ready = 0, done = 0, failed = 0, waiting = 0, leased = 0;
    std::set<std::string> devices;
  };
  Queue queue = command.queue();
  std::map<std::string, Class> classes;
  for (const QueueAgent& agent : queue.agents()) {
    Class& one = classes[agent.device_class];
    const std::string state = state_of(agent);
    ++one.agents, one.ready += state == "waits" || state == "works" ? 1 : 0;
    one.done += agent.done, one.failed += agent.failed;
    one.devices.insert(device_of(agent));
  }
  for (const auto& [name, jobs] : queue.jobs_by_class())
    classes[name].waiting = jobs.first, classes[name].leased = jobs.second;
  if (!command.json.empty()) {
    nlohmann::json out = nlohmann::json::array();
    for (const auto& [name, one] : classes) {
      out.push_back({{"device_class", name},
                     {"agents", one.agents},
                     {"ready", one.ready},
                     {"done", one.done},
                     {"failed", one.failed},
                     {"waiting", one.waiting},
                     {"leased", one.leased},
                     {"devices", one.devices}});
    }
    write_json(command.json, out);
    if (command.json == "-") return;
  }
  TextTable table({{.title = "class", .width = 16, .left = true, .least = 8},
                   {.title = "agents", .width = 6},
                   {.title = "ready", .width = 5},
                   {.title = "failed", .width = 6},
                   {.title = "waiting", .width = 7},
                   {.title = "leased", .width = 6},
                   {.title = "device", .left = true, .least = 20, .gap = 2}});
  for (const auto& [name, one] : classes) {
    const int64_t all = one.done + one.failed;
    table.add(
        {printable(name), std::to_string(one.agents), std::to_string(one.ready),
         all > 0 ? fmt::format("{:.0f} %", 100.0 * static_cast<double>(one.failed) / static_cast<double>(all)) : "-",
         std::to_string(one.waiting), std::to_string(one.leased),
         printable(fmt::format("{}", fmt::join(one.devices, "; ")))});
  }
  say("{}", classes.empty() ? "no device classes: the fleet has no agents and no jobs\n"
                            : table.text(table_style(), "--json has them"));
}

void tell_number(const FleetCommand& command, const char* what, int64_t jobs) {
  if (!command.json.empty()) write_json(command.json, {{what, jobs}});
  if (command.json != "-") say("{} jobs {}\n", jobs, what);
}

void tell_agent(const FleetCommand& command, bool known, const char* what) {
  if (!known)
    fail(ErrorKind::bad_input, "there is no agent {} in the fleet; `kilter fleet status` lists the agents",
         command.name);
  if (!command.json.empty()) write_json(command.json, {{"agent", command.name}});
  if (command.json != "-") say("{} {}\n", command.name, what);
}

using Shared = std::shared_ptr<FleetCommand>;

Command add_sub(Command app, const Shared& command, const char* name, const char* what) {
  const Command sub = app.subcommand(name, what);
  sub.option("--fleet", command->url, "the fleet's database (default: $KILTER_FLEET)").value("URL");
  return sub;
}

/// Offers a program to all agents that trust the key, and returns it.
AgentProgram offer(Queue& queue, const std::string& file, const SecretKey& key) {
  std::string bytes = read_file(file);
  AgentProgram program;
  try {
    program = kilter::fleet::program_in(bytes);
  } catch (const Error& e) {
    fail(e.kind(), "--agent {}: {}", file, e.message());
  }
  program.data.bytes = std::ssize(bytes);
  for (size_t at = 0; at < bytes.size(); at += Stored::kPiece)
    program.data.hashes.push_back(queue.put_blob(bytes.substr(at, Stored::kPiece)));
  queue.offer_program(program, key);
  return program;
}

void add_upgrade(const Command& sub) {
  auto command = std::make_shared<FleetCommand>();
  auto keys = std::make_shared<FleetOptions>();
  Command upgrade =
      add_sub(sub, command, "upgrade",
              "Offer a newer kilter-agent to agents that run with --upgrade, which replace themselves with it");
  upgrade.option("--agent", command->name, "the program, built by scripts/build_agent.sh for one type of processor")
      .file()
      .required();
  upgrade.option("--sign-key", keys->sign_key, "the secret key that signs the program; not one that signs jobs").file();
  upgrade.json(command->json, "what is offered");
  upgrade.footer(
      "An agent installs a program for its processor between two jobs, within a minute, if the program is newer than "
      "its own and is signed with a key that --upgrade names.");
  upgrade.example("kilter fleet upgrade --agent build-aarch64/kilter-agent --sign-key release.secret",
                  "Upgrade the agents on boards");
  upgrade.callback([=] {
    if (keys->sign_key.empty())  // KILTER_FLEET_KEY signs jobs
      fail(ErrorKind::usage, "--sign-key FILE is missing: agents accept only programs that are signed");
    const std::optional<SecretKey> key = keys->key();
    Queue queue = command->queue();
    const AgentProgram program = offer(queue, command->name, *key);
    if (!command->json.empty()) {
      write_json(
          command->json,
          {{"architecture", program.architecture}, {"version", program.version}, {"protocol", program.protocol}});
    }
    if (command->json != "-")
      say("offered: {}; agents of an older version or protocol install it within a minute, if the key {} is in their "
          "--upgrade\n",
          program.words(), key->owner().fingerprint());
  });
}

void add_push(const Command& sub) {
  auto agent = std::make_shared<AgentPush>();
  auto json = std::make_shared<std::string>();
  Command push = sub.subcommand("push", "Copy an agent to a board and start it there, with your own ssh or adb");
  push.option("BOARD", agent->board, "ssh://USER@HOST, ssh://USER@HOST:PORT, adb: or adb:SERIAL")
      .value("BOARD")
      .required();
  push.option("--agent", agent->agent, "the program, built by scripts/build_agent.sh for the board's processor")
      .file()
      .required();
  push.option("--broker", agent->broker, "the fleet's broker, https://HOST:PORT").value("URL").required();
  push.option("--token", agent->token, "the file of the agent's token").file().required();
  push.option("--ca", agent->ca, "the certificate of the authority that issued the broker's certificate").file();
  push.option("--trust", agent->trusted,
              "run jobs that the owner of this public key has signed; may be given several times")
      .file();
  push.option("--upgrade", agent->upgraders,
              "let newer programs that the owner of this public key has signed replace the agent (`kilter fleet "
              "upgrade`); may be given several times")
      .file();
  push.option("--name", agent->name, "the agent's name (default: the board's host name)").value("NAME");
  push.option("--device-class", agent->device_class,
              "the class whose jobs it runs (default: the target that fits the processor)")
      .value("CLASS");
  push.option("--folder", agent->folder,
              "folder on the board (default: kilter-agent, with adb /data/local/tmp/kilter-agent)")
      .value("FOLDER");
  push.json(*json, "the folder and the process id");
  push.footer(
      "An agent that already runs there from the same folder first finishes its job and exits, so `push` also upgrades "
      "agents.");
  push.example(
      "kilter fleet push ssh://board --agent build-aarch64/kilter-agent --broker https://fleet.example.com:8443 "
      "--token "
      "bench1.token --ca broker.crt --trust team.public",
      "Add a board to a fleet");
  push.callback([=] {
    const PushedAgent pushed = push_agent(*agent);
    if (!json->empty()) write_json(*json, {{"board", agent->board}, {"folder", pushed.folder}, {"pid", pushed.pid}});
    if (*json != "-")
      say("{}: the agent runs in {} and waits for jobs; it writes agent.log there\n", agent->board, pushed.folder);
  });
}

}  // namespace

void add_fleet(Command app, Context& context) {
  Command sub = app.subcommand("fleet", "Show and manage the agents and jobs of a fleet");
  sub.require_subcommand();
  sub.group("Tune");
  sub.footer("doc/fleet.md explains how to set up a fleet. `kilter tune --fleet URL` measures on the fleet.");

  auto command = std::make_shared<FleetCommand>();
  Command s =
      add_sub(sub, command, "status", "Show the agents, when they were last heard from, and how many jobs there are");
  s.json(command->json, "them");
  s.example("kilter fleet status --fleet postgresql://db.example.com/tuning", "The agents of a fleet");
  s.callback([=] { status(*command); });

  command = std::make_shared<FleetCommand>();
  Command t = add_sub(sub, command, "top", "Show what `status` shows, and refresh it until Ctrl-C");
  t.option("--every", command->seconds, "seconds between two refreshes").range(0.1, 3600.0).shows_default();
  t.option("--times", command->times, "exit after showing the status this many times; 0: never")
      .range(int64_t{0}, int64_t{1'000'000})
      .shows_default();
  t.json(command->json, "each as an object");
  t.example("kilter fleet top --fleet postgresql://db.example.com/tuning --times 2", "Show the status twice");
  t.callback([=] { top(*command); });

  command = std::make_shared<FleetCommand>();
  Command v =
      add_sub(sub, command, "devices",
              "List the device classes: their machines, how many agents are ready, and how many jobs there are");
  v.json(command->json, "them");
  v.example("kilter fleet devices --fleet postgresql://db.example.com/tuning", "What the fleet consists of");
  v.callback([=] { devices(*command); });

  command = std::make_shared<FleetCommand>();
  Command j = add_sub(sub, command, "jobs",
                      "List the jobs that have not ended, and those that were set aside, with the reasons");
  j.option("RUN", command->run, "all jobs of this run, including those that have ended").value("RUN");
  j.json(command->json, "them");
  j.example("kilter fleet jobs --fleet postgresql://db.example.com/tuning", "The jobs of a fleet");
  j.callback([=] { jobs(*command); });

  command = std::make_shared<FleetCommand>();
  Command c = add_sub(sub, command, "cancel", "Cancel the jobs of a run that have not ended");
  c.option("RUN", command->run, "the run, as `kilter fleet jobs` shows it").value("RUN").required();
  c.example("kilter fleet cancel 3f2a91c07d55e8b1", "Cancel one run");
  c.json(command->json, "their number");
  c.callback([=] { tell_number(*command, "cancelled", command->queue().cancel(command->run)); });

  command = std::make_shared<FleetCommand>();
  Command d = add_sub(sub, command, "drain", "Let an agent finish its job and exit; for the schema's owner");
  d.option("AGENT", command->name, "the agent's name").value("AGENT").required();
  d.example("kilter fleet drain bench1", "Take a machine out of the fleet");
  d.json(command->json, "the agent");
  d.callback([=] { tell_agent(*command, command->queue().drain(command->name), "will exit after its current job"); });

  command = std::make_shared<FleetCommand>();
  Command r =
      add_sub(sub, command, "remove", "Forget an agent and give its job to another one; for the schema's owner");
  r.option("AGENT", command->name, "the agent's name").value("AGENT").required();
  r.example("kilter fleet remove bench1", "Forget a machine that is gone");
  r.json(command->json, "the agent");
  r.callback([=] { tell_agent(*command, command->queue().remove_agent(command->name), "is removed"); });

  add_push(sub);
  add_upgrade(sub);
  add_fleet_bench(sub, context);

  command = std::make_shared<FleetCommand>();
  Command p = add_sub(sub, command, "purge",
                      "Forget jobs that ended long ago, and data that no job has used since; for the schema's owner");
  p.option("--days", command->days, "how long ago").range(0.0, 36500.0).shows_default();
  p.example("kilter fleet purge --days 7", "Keep a week");
  p.json(command->json, "their number");
  p.callback([=] { tell_number(*command, "forgotten", command->queue().purge(command->days)); });
}

}  // namespace kilter::tool
