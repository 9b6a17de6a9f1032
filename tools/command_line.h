// Commands and their options, parsed by CLI11. Only command_line.cpp includes that library, which adds ten seconds to
// the compilation of each file that includes it.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace kilter::tool {

/// An option of a command: a handle that is valid as long as its CommandLine. Functions return the option itself.
class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}

  /// Limits legal values to [least, most].
  Option& range(int least, int most);
  Option& range(int64_t least, int64_t most);
  Option& range(double least, double most);
  Option& positive();
  Option& non_negative();
  Option& one_of(std::initializer_list<const char*> values);
  Option& required();
  Option& excludes(const Option& other);
  /// Shows the target's present value as the default in the help.
  Option& shows_default();
  Option& default_text(const std::string& text);
  /// Splits a value at a character into several.
  Option& delimiter(char c);
  /// Makes each use of the option accept only one value; the word after that is the next argument.
  Option& one_value_each();
  /// Calls a function for each value.
  Option& on_value(std::function<void()> function);

 private:
  CLI::Option* option_;
};

/// A command with subcommands and options: a handle that is valid as long as its CommandLine. Targets must live until
/// the command line is parsed. Names are "--name", "-n,--name", or "NAME" for an argument by position.
class Command {
 public:
  explicit Command(CLI::App* app) : app_(app) {}

  Option option(const std::string& name, std::string& target, const std::string& help) const;
  Option option(const std::string& name, std::vector<std::string>& target, const std::string& help) const;
  Option option(const std::string& name, int& target, const std::string& help) const;
  Option option(const std::string& name, int64_t& target, const std::string& help) const;
  Option option(const std::string& name, uint64_t& target, const std::string& help) const;
  Option option(const std::string& name, double& target, const std::string& help) const;
  Option flag(const std::string& name, bool& target, const std::string& help) const;
  /// An option that the help does not show and whose use is an error: `refuse` gets its value, or "", and throws.
  void refused_option(const std::string& name, std::function<void(const std::string&)> refuse) const;
  Command subcommand(const std::string& name, const std::string& help) const;
  /// Options under a title of their own in the help.
  Command group(const std::string& title) const;
  void require_subcommand() const;
  void footer(const std::string& text) const;
  void callback(std::function<void()> function) const;
  /// Leaves the command out of the list of subcommands.
  void hide() const;

 private:
  CLI::App* app_;
};

class CommandLine {
 public:
  CommandLine(const std::string& description, const std::string& name, std::function<std::string()> version);
  ~CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  Command root();
  struct Parsed {
    std::string error;     ///< empty: the command's callback was called, or help or the version was printed
    bool unknown = false;  ///< the error is about arguments that no option takes
  };
  /// Fills the targets and calls the callbacks, whose exceptions pass through.
  Parsed parse(int argc, char** argv);

 private:
  std::unique_ptr<CLI::App> app_;
};

}  // namespace kilter::tool
