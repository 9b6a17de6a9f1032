// Commands and their options, parsed by CLI11. Only command_line.cpp includes that library, which adds ten seconds to
// the compilation of each file that includes it. What is registered here is also written into the table of commands.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "command_table.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace kilter::tool {

/// An option of a command: a handle that is valid as long as its CommandLine. Functions return the option itself.
class Option {
 public:
  Option(CLI::Option* option, OptionText* text) : option_(option), text_(text) {}

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
  /// Names the value in the help, such as "NAME=SHAPE".
  Option& value(const std::string& name);
  /// Declares the value to be a file or a folder, which completion offers; `name` stands for it in the help.
  Option& file(const std::string& name = "FILE");
  Option& folder(const std::string& name = "DIR");
  /// Values that completion offers; others are legal as well.
  Option& suggests(std::vector<std::string> values);

 private:
  CLI::Option* option_;
  OptionText* text_;
};

/// Settings for printing, which every command has.
struct PrintOptions {
  bool quiet = false, verbose = false;
  std::string colour = "auto";
};

/// A command with subcommands and options: a handle that is valid as long as its CommandLine. Targets must live until
/// the command line is parsed. Names are "--name", "-n,--name", "--name,~--old" with an old name that is accepted but
/// not shown, or "NAME" for an argument by position.
class Command {
 public:
  Command(CLI::App* app, CommandText* text, PrintOptions* print) : app_(app), text_(text), print_(print) {}

  Option option(const std::string& name, std::string& target, const std::string& help) const;
  Option option(const std::string& name, std::vector<std::string>& target, const std::string& help) const;
  Option option(const std::string& name, int& target, const std::string& help) const;
  Option option(const std::string& name, int64_t& target, const std::string& help) const;
  Option option(const std::string& name, uint64_t& target, const std::string& help) const;
  Option option(const std::string& name, double& target, const std::string& help) const;
  Option flag(const std::string& name, bool& target, const std::string& help) const;
  /// The option of every command that can write its result as JSON. `what` it writes is e.g. "the figures".
  Option json(std::string& target, const std::string& what) const;
  /// An option that the help does not show and whose use is an error: `refuse` gets its value, or "", and throws.
  void refused_option(const std::string& name, std::function<void(const std::string&)> refuse) const;
  Command subcommand(const std::string& name, const std::string& help) const;
  /// Puts the options that are registered from now on under a heading of the help; rare ones are only in --help-all.
  void heading(const std::string& title, bool rare = false) const;
  /// Returns this command with one heading, which heading() does not change, for all options registered through it.
  Command under(const std::string& title, bool rare) const;
  /// Sets the heading under which the parent command lists this one.
  void group(const std::string& title) const;
  void require_subcommand() const;
  /// Adds options that, as the first word, stand for a subcommand: "-V,--version".
  void stands_for(const std::string& names, const std::string& command, const std::string& help) const;
  /// Adds a paragraph to the help.
  void footer(const std::string& text) const;
  void example(const std::string& command, const std::string& what) const;
  /// Registers the command's function, and the options that every command has. Must come after all of its own options.
  void callback(std::function<void()> function) const;
  const CommandText& text() const { return *text_; }

 private:
  template <class T>
  Option add(const std::string& name, T& target, const std::string& help, const std::string& value) const;
  OptionText& describe(const std::string& name, const std::string& help, std::string& cli_name) const;
  void add_help() const;

  CLI::App* app_;
  CommandText* text_;
  PrintOptions* print_;
  bool fixed_ = false;  ///< heading() has no effect
};

class CommandLine {
 public:
  CommandLine(const std::string& description, const std::string& name);
  ~CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  Command root();
  /// Fills the targets and calls the callbacks, whose exceptions pass through. Prints the help if it is asked for.
  /// Throws usage for words that are not legal.
  void parse(std::vector<std::string> words);

 private:
  CommandText table_;
  PrintOptions print_;
  std::unique_ptr<CLI::App> app_;
};

}  // namespace kilter::tool
