// The table of commands as data: everything that is known about each command and option. Registration (command_line.h)
// fills it; help, completion, man pages and the messages about unknown words are generated from it.
#pragma once

#include <cstdint>
#include <list>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace kilter::tool {

/// What the value of an option or argument is, for completion.
enum class ValueKind : uint8_t { text, file, folder };

struct OptionText {
  std::vector<std::string> names;      ///< "-o", "--output"; "MODEL" alone for an argument by position
  std::vector<std::string> old_names;  ///< accepted, but shown nowhere
  std::string value;                   ///< "FILE", "N"; empty for a flag
  std::string help, heading, by_default;
  std::string stands_for;             ///< the command that the option as the first word stands for
  std::vector<std::string> legal;     ///< all legal values; empty: not a fixed list
  std::vector<std::string> suggests;  ///< values that completion offers besides files
  std::string range;                  ///< "1 to 1024"; empty: no limits
  ValueKind kind = ValueKind::text;
  bool by_position = false, required = false, several = false;
  bool rare = false;    ///< shown only by --help-all, the man page and completion
  bool hidden = false;  ///< shown nowhere

  bool named(std::string_view name) const;
  bool flag() const { return value.empty(); }
};

struct Example {
  std::string command, what;  ///< "kilter run zoo:resnet18 --verify", and what it is for
};

struct CommandText {
  std::string name;  ///< "kilter records list"
  std::string word;  ///< "list"
  std::string group, summary, notes;
  std::vector<Example> examples;
  std::list<OptionText> options;    ///< in the order of the help; their addresses are stable
  std::list<CommandText> commands;  ///< subcommands
  std::string heading = "Options";  ///< heading of the options registered next
  bool heading_rare = false;

  const CommandText* find(std::string_view below) const;
  const OptionText* option(std::string_view called) const;  ///< null if none has this name
  std::vector<std::string> words() const;                   ///< of the subcommands
  std::vector<std::string> option_names() const;            ///< without hidden and old names
};

/// Returns the command that `words` name, such as {"records", "list"}. Throws usage for a word that names none.
const CommandText& find_command(const CommandText& root, const std::vector<std::string>& words);

/// What a command line asks for, as far as the table tells.
struct Look {
  enum class Finding : uint8_t { legal, help, all_help, unknown_command, no_command, unknown_option };
  Finding finding = Finding::legal;
  const CommandText* command = nullptr;  ///< the innermost command named
  std::string word;                      ///< the unknown word
  std::string colour;                    ///< the value of --color; empty: not given
};

/// Looks at the words of a command line before they are parsed: for --help, and for the first word that the table does
/// not have. Values of options are skipped.
Look look_at(const CommandText& root, const std::vector<std::string>& words);

/// Throws usage for the unknown word that look_at() found, suggesting the nearest legal word or, for an option of
/// another program, what does the same here.
[[noreturn]] void refuse(const Look& look);

nlohmann::json to_json(const CommandText& command);

}  // namespace kilter::tool
