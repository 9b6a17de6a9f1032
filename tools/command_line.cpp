#include "command_line.h"

#include <CLI/CLI.hpp>
#include <chrono>
#include <utility>

#include "base/cpu_info.h"
#include "base/error.h"
#include "base/text.h"
#include "console.h"
#include "exec/thread_pool.h"
#include "help_text.h"
#include "measure/clock.h"
#include "tool.h"

namespace kilter::tool {
namespace {

constexpr const char* kGeneral = "General";

template <class T>
std::string range_text(T least, T most) {
  return fmt::format("{:g} to {:g}", static_cast<double>(least), static_cast<double>(most));
}
template <>
std::string range_text(int64_t least, int64_t most) {
  return fmt::format("{} to {}", least, most);
}

void apply(const PrintOptions& print) {
  console().detail = print.quiet ? Detail::quiet : print.verbose ? Detail::verbose : Detail::normal;
  console().colour = print.colour == "always"  ? Colour::always
                     : print.colour == "never" ? Colour::never
                                               : Colour::automatic;
}

}  // namespace

Option& Option::range(int least, int most) { return range(int64_t{least}, int64_t{most}); }
Option& Option::range(int64_t least, int64_t most) {
  text_->range = range_text(least, most);
  return option_->check(CLI::Range(least, most)), *this;
}
Option& Option::range(double least, double most) {
  text_->range = range_text(least, most);
  return option_->check(CLI::Range(least, most)), *this;
}
Option& Option::positive() {
  text_->range = "above 0";
  return option_->check(CLI::PositiveNumber), *this;
}
Option& Option::non_negative() {
  text_->range = "0 or more";
  return option_->check(CLI::NonNegativeNumber), *this;
}
Option& Option::one_of(std::initializer_list<const char*> values) {
  text_->legal.assign(values.begin(), values.end());
  text_->value = "WORD";
  return option_->check(CLI::IsMember(text_->legal)), *this;
}
Option& Option::required() { return text_->required = true, option_->required(), *this; }
Option& Option::excludes(const Option& other) { return option_->excludes(other.option_), *this; }
Option& Option::shows_default() {
  option_->capture_default_str();
  text_->by_default = option_->get_default_str();
  return *this;
}
Option& Option::default_text(const std::string& text) {
  text_->by_default = text;
  return option_->default_str(text), *this;
}
Option& Option::delimiter(char c) { return option_->delimiter(c), *this; }
Option& Option::one_value_each() { return option_->allow_extra_args(false), *this; }
Option& Option::on_value(std::function<void()> function) {
  option_->each([call = std::move(function)](const std::string&) { call(); });
  return *this;
}
Option& Option::value(const std::string& name) { return text_->value = name, *this; }
Option& Option::file(const std::string& name) { return text_->kind = ValueKind::file, value(name); }
Option& Option::folder(const std::string& name) { return text_->kind = ValueKind::folder, value(name); }
Option& Option::suggests(std::vector<std::string> values) { return text_->suggests = std::move(values), *this; }

OptionText& Command::describe(const std::string& name, const std::string& help, std::string& cli_name) const {
  OptionText& text = text_->options.emplace_back();
  text.help = help;
  for (const std::string_view part : split(name, ',')) {
    const bool old = part.starts_with('~');
    const std::string_view bare = old ? part.substr(1) : part;
    const std::string_view shown = bare.starts_with('!') ? bare.substr(1) : bare;  // "!--no-x" turns a flag off
    (old ? text.old_names : text.names).emplace_back(shown);
    cli_name += (cli_name.empty() ? "" : ",") + std::string(bare);
  }
  text.by_position = !text.names.front().starts_with('-');
  text.heading = text.by_position ? "Arguments" : text_->heading;
  text.rare = !text.by_position && text_->heading_rare;
  return text;
}

template <class T>
Option Command::add(const std::string& name, T& target, const std::string& help, const std::string& value) const {
  std::string cli_name;
  OptionText& text = describe(name, help, cli_name);
  text.value = value;
  text.several = std::is_same_v<T, std::vector<std::string>>;
  return {app_->add_option(cli_name, target, help), &text};
}

Option Command::option(const std::string& name, std::string& target, const std::string& help) const {
  return add(name, target, help, "TEXT");
}
Option Command::option(const std::string& name, std::vector<std::string>& target, const std::string& help) const {
  return add(name, target, help, "TEXT");
}
Option Command::option(const std::string& name, int& target, const std::string& help) const {
  return add(name, target, help, "N");
}
Option Command::option(const std::string& name, int64_t& target, const std::string& help) const {
  return add(name, target, help, "N");
}
Option Command::option(const std::string& name, uint64_t& target, const std::string& help) const {
  return add(name, target, help, "N");
}
Option Command::option(const std::string& name, double& target, const std::string& help) const {
  return add(name, target, help, "X");
}
Option Command::flag(const std::string& name, bool& target, const std::string& help) const {
  std::string cli_name;
  OptionText& text = describe(name, help, cli_name);
  return {app_->add_flag(cli_name, target, help), &text};
}
Option Command::json(std::string& target, const std::string& what) const {
  return option("--json", target,
                "also write " + what + " as JSON to a file; - for standard output, which then contains nothing else")
      .file();
}
void Command::refused_option(const std::string& name, std::function<void(const std::string&)> refuse) const {
  OptionText& text = text_->options.emplace_back();
  text.names = {name}, text.value = "TEXT", text.hidden = true;
  app_->add_option_function<std::vector<std::string>>(
          name, [call = std::move(refuse)](const auto& values) { call(values.empty() ? "" : values.front()); })
      ->expected(0, 1);
}
Command Command::subcommand(const std::string& name, const std::string& help) const {
  CommandText& text = text_->commands.emplace_back();
  text.name = text_->name + " " + name, text.word = name, text.summary = help;
  CLI::App* app = app_->add_subcommand(name, help);
  app->set_help_flag("");
  return {app, &text, print_};
}
void Command::heading(const std::string& title, bool rare) const {
  if (!fixed_) text_->heading = title, text_->heading_rare = rare;
}
Command Command::under(const std::string& title, bool rare) const {
  heading(title, rare);
  Command out = *this;
  out.fixed_ = true;
  return out;
}
void Command::group(const std::string& title) const { text_->group = title; }
void Command::require_subcommand() const {
  app_->require_subcommand(1);
  add_help();
}
void Command::stands_for(const std::string& names, const std::string& command, const std::string& help) const {
  std::string unused;
  describe(names, help, unused).stands_for = command;
}
void Command::footer(const std::string& text) const { text_->notes += (text_->notes.empty() ? "" : "\n") + text; }
void Command::example(const std::string& command, const std::string& what) const {
  text_->examples.push_back({command, what});
}

/// The scan of the words (look_at()) handles these options, so the parser never sees them.
void Command::add_help() const {
  heading(kGeneral);
  for (const auto& [names, help] : {std::pair{"-h,--help", "print the help"},
                                    {"--help-all", "print the help with the options that are rarely needed"}}) {
    std::string unused;
    describe(names, help, unused);
  }
}

void Command::callback(std::function<void()> function) const {
  heading(kGeneral);
  flag("-v,--verbose", print_->verbose, "say more: what is being done and how long it took");
  flag("-q,--quiet", print_->quiet, "print only results and errors: no progress, notes and confirmations");
  option("--color", print_->colour, "colours and bold text: auto uses them on a terminal unless NO_COLOR is set")
      .one_of({"auto", "always", "never"})
      .value("WHEN")
      .default_text("auto");
  add_help();
  app_->callback([print = print_, call = std::move(function)] {
    if (print->quiet && print->verbose)
      fail(ErrorKind::usage, "--quiet and --verbose contradict each other; give only one of them");
    apply(*print);
    const auto start = std::chrono::steady_clock::now();
    if (print->verbose) say_error("{}\n{}, {} threads by default\n", version_text(), cpu_brand(), default_threads());
    call();
    if (!print->verbose) return;
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    say_error("took {:.2f} s, peak memory {:.0f} MB\n", took.count(), static_cast<double>(peak_rss_bytes()) * 1e-6);
  });
}

CommandLine::CommandLine(const std::string& description, const std::string& name)
    : app_(std::make_unique<CLI::App>(description, name)) {
  table_.name = name, table_.summary = description;
  app_->set_help_flag("");
}
CommandLine::~CommandLine() = default;

Command CommandLine::root() { return {app_.get(), &table_, &print_}; }

void CommandLine::parse(std::vector<std::string> words) {
  if (const OptionText* first = words.empty() ? nullptr : table_.option(words.front());
      first != nullptr && !first->stands_for.empty())
    words.front() = first->stands_for;
  using Finding = Look::Finding;
  const Look look = look_at(table_, words);
  if (look.finding == Finding::help || look.finding == Finding::all_help) {
    apply({false, false, look.colour});
    say("{}", help_text(*look.command, look.finding == Finding::all_help));
    return;
  }
  if (look.finding != Finding::legal) refuse(look);
  try {
    app_->parse(std::vector<std::string>(words.rbegin(), words.rend()));
  } catch (const CLI::ExtrasError&) {
    fail(ErrorKind::usage, "unexpected argument {}; usage: {}", join(app_->remaining(true), " "),
         usage_text(*look.command));
  } catch (const CLI::RequiredError& e) {
    fail(ErrorKind::usage, "{}; usage: {}; `{} --help` describes it", e.what(), usage_text(*look.command),
         look.command->name);
  } catch (const CLI::ParseError& e) {
    std::string error = e.what();
    while (!error.empty() && (error.back() == '\n' || error.back() == '.')) error.pop_back();
    const OptionText* option = look.command->option(std::string_view(error).substr(0, error.find(':')));
    fail(ErrorKind::usage, "{}; `{} {}` lists the legal values", error, look.command->name,
         option != nullptr && option->rare ? "--help-all" : "--help");
  }
}

}  // namespace kilter::tool
