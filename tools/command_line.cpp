#include "command_line.h"

#include <CLI/CLI.hpp>
#include <utility>

namespace kilter::tool {

Option& Option::range(int least, int most) { return option_->check(CLI::Range(least, most)), *this; }
Option& Option::range(int64_t least, int64_t most) { return option_->check(CLI::Range(least, most)), *this; }
Option& Option::range(double least, double most) { return option_->check(CLI::Range(least, most)), *this; }
Option& Option::positive() { return option_->check(CLI::PositiveNumber), *this; }
Option& Option::non_negative() { return option_->check(CLI::NonNegativeNumber), *this; }
Option& Option::one_of(std::initializer_list<const char*> values) {
  return option_->check(CLI::IsMember(std::vector<std::string>(values.begin(), values.end()))), *this;
}
Option& Option::required() { return option_->required(), *this; }
Option& Option::excludes(const Option& other) { return option_->excludes(other.option_), *this; }
Option& Option::shows_default() { return option_->capture_default_str(), *this; }
Option& Option::default_text(const std::string& text) { return option_->default_str(text), *this; }
Option& Option::delimiter(char c) { return option_->delimiter(c), *this; }
Option& Option::one_value_each() { return option_->allow_extra_args(false), *this; }
Option& Option::on_value(std::function<void()> function) {
  option_->each([call = std::move(function)](const std::string&) { call(); });
  return *this;
}

Option Command::option(const std::string& name, std::string& target, const std::string& help) const {
  return Option(app_->add_option(name, target, help));
}
Option Command::option(const std::string& name, std::vector<std::string>& target, const std::string& help) const {
  return Option(app_->add_option(name, target, help));
}
Option Command::option(const std::string& name, int& target, const std::string& help) const {
  return Option(app_->add_option(name, target, help));
}
Option Command::option(const std::string& name, int64_t& target, const std::string& help) const {
  return Option(app_->add_option(name, target, help));
}
Option Command::option(const std::string& name, uint64_t& target, const std::string& help) const {
  return Option(app_->add_option(name, target, help));
}
Option Command::option(const std::string& name, double& target, const std::string& help) const {
  return Option(app_->add_option(name, target, help));
}
Option Command::flag(const std::string& name, bool& target, const std::string& help) const {
  return Option(app_->add_flag(name, target, help));
}
void Command::refused_option(const std::string& name, std::function<void(const std::string&)> refuse) const {
  app_->add_option_function<std::vector<std::string>>(
          name, [call = std::move(refuse)](const auto& values) { call(values.empty() ? "" : values.front()); })
      ->expected(0, 1)
      ->group("");
}
Command Command::subcommand(const std::string& name, const std::string& help) const {
  return Command(app_->add_subcommand(name, help));
}
Command Command::group(const std::string& title) const { return Command(app_->add_option_group(title)); }
void Command::require_subcommand() const { app_->require_subcommand(1); }
void Command::footer(const std::string& text) const { app_->footer(text); }
void Command::callback(std::function<void()> function) const { app_->callback(std::move(function)); }
void Command::hide() const { app_->group(""); }

CommandLine::CommandLine(const std::string& description, const std::string& name, std::function<std::string()> version)
    : app_(std::make_unique<CLI::App>(description, name)) {
  app_->set_version_flag("--version", std::move(version));
}
CommandLine::~CommandLine() = default;

Command CommandLine::root() { return Command(app_.get()); }

CommandLine::Parsed CommandLine::parse(int argc, char** argv) {
  try {
    app_->parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return app_->exit(e), Parsed{};  // --help, --version
    return {e.what(), dynamic_cast<const CLI::ExtrasError*>(&e) != nullptr};
  }
  return {};
}

}  // namespace kilter::tool
