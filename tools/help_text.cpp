#include "help_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "terminal.h"

namespace kilter::tool {
namespace {

constexpr size_t kLeftWidth = 26;     ///< of names of options and commands; longer ones have a line of their own
constexpr size_t kMostColumns = 100;  ///< wider lines are hard to read

std::string title(std::string_view text) { return "\n" + styled(Style::bold, std::string(text) + ":") + "\n"; }

/// Returns a name with its description next to it, or below it if the name is long.
std::string entry(const std::string& left, const std::string& right, size_t left_width, size_t width) {
  const size_t indent = left_width + 4;
  const std::string text = wrapped(right, indent, width);
  const std::string shown = "  " + styled(Style::bold, left);
  if (left.size() > left_width) return shown + "\n" + text;
  return shown + std::string(left_width - left.size() + 2, ' ') + text.substr(std::min(indent, text.size()));
}

/// Returns the titles of groups in the order of their first member.
template <class List, class Title>
std::vector<std::string> titles_of(const List& list, const Title& title) {
  std::vector<std::string> out;
  for (const auto& member : list) {
    if (std::ranges::find(out, title(member)) == out.end()) out.push_back(title(member));
  }
  return out;
}

std::string commands_help(const CommandText& command, size_t width) {
  size_t longest = 0;
  for (const CommandText& c : command.commands) longest = std::max(longest, c.word.size());
  const auto group = [](const CommandText& c) { return c.group.empty() ? std::string("Commands") : c.group; };
  std::string out;
  for (const std::string& of : titles_of(command.commands, group)) {
    out += title(of);
    for (const CommandText& c : command.commands) {
      if (group(c) == of) out += entry(c.word, c.summary, longest, width);
    }
  }
  return out;
}

std::string options_help(const CommandText& command, bool all, size_t width) {
  const auto shown = [&](const OptionText& o) { return !o.hidden && (all || !o.rare); };
  size_t longest = 0;
  for (const OptionText& o : command.options) {
    const size_t size = option_form(o).size();
    if (shown(o) && size <= kLeftWidth) longest = std::max(longest, size);
  }
  std::vector<std::string> titles = titles_of(command.options, [](const OptionText& o) { return o.heading; });
  std::string out;
  std::ranges::stable_partition(titles, [](const std::string& t) { return t == "Arguments"; });
  for (const std::string& of : titles) {
    std::string entries;
    for (const OptionText& o : command.options) {
      if (shown(o) && o.heading == of) entries += entry(option_form(o), option_help(o), longest, width);
    }
    if (!entries.empty()) out += title(of) + entries;
  }
  return out;
}

std::string examples_help(const CommandText& command, size_t width) {
  std::string out;
  for (const Example& e : command.examples) {
    out += wrapped(e.what + ":", 2, width);
    out += fmt::format("    {}\n", e.command);
  }
  return out.empty() ? out : title(command.examples.size() == 1 ? "Example" : "Examples") + out;
}

std::string pointer(const CommandText& command, bool all) {
  if (!command.commands.empty())
    return fmt::format("\n`{} COMMAND --help` describes a command and its options.\n", command.name);
  const bool rare = std::ranges::any_of(command.options, [](const OptionText& o) { return o.rare; });
  return rare && !all ? fmt::format("\n`{} --help-all` also shows the options that are rarely needed.\n", command.name)
                      : std::string();
}

}  // namespace

std::string wrapped(std::string_view text, size_t indent, size_t width) {
  std::string out;
  for (const std::string_view paragraph : split(text, '\n')) {
    std::string line(indent, ' ');
    for (const std::string_view word : split_words(paragraph)) {
      const bool first = line.size() == indent;
      if (!first && line.size() + 1 + word.size() > width) {
        out += line + "\n";
        line.assign(indent, ' ');
      }
      if (line.size() > indent) line += ' ';
      line += word;
    }
    out += (line.size() > indent ? line : std::string()) + "\n";
  }
  return out;
}

std::string usage_text(const CommandText& command) {
  std::string out = command.name;
  if (!command.commands.empty()) return out + " COMMAND";
  if (std::ranges::any_of(command.options, [](const OptionText& o) { return !o.by_position; })) out += " [OPTIONS]";
  for (const OptionText& o : command.options) {
    if (!o.by_position && o.required) out += fmt::format(" {} {}", o.names.back(), o.value);
  }
  for (const OptionText& o : command.options) {
    if (!o.by_position) continue;
    const std::string name = o.names.front() + (o.several ? "..." : "");
    out += o.required ? " " + name : " [" + name + "]";
  }
  return out;
}

std::string option_form(const OptionText& option) {
  const std::string names = join(option.names, ", ");
  if (option.by_position) return names + (option.several ? "..." : "");
  const bool long_only = option.names.front().starts_with("--");
  return (long_only ? "    " : "") + names + (option.flag() ? "" : " " + option.value);
}

std::string option_help(const OptionText& option) {
  std::vector<std::string> facts;
  if (!option.legal.empty()) facts.push_back("one of " + join(option.legal, ", "));
  if (!option.range.empty()) facts.push_back(option.range);
  if (option.required && !option.by_position) facts.emplace_back("required");
  if (!option.by_default.empty() && option.by_default != "-1" && option.help.find("(default") == std::string::npos)
    facts.push_back("default: " + option.by_default);
  if (facts.empty()) return option.help;
  const bool continues = option.help.ends_with(")") && option.help.find("(default") != std::string::npos;
  if (!continues) return option.help + " (" + join(facts, "; ") + ")";
  return option.help.substr(0, option.help.size() - 1) + "; " + join(facts, "; ") + ")";
}

std::string help_text(const CommandText& command, bool all) {
  const size_t width = std::clamp<size_t>(output_columns(), 40, kMostColumns);
  std::string out = wrapped(command.summary, 0, width);
  out += "\n" + styled(Style::bold, "Usage:") + "\n" + wrapped(usage_text(command), 2, width);
  out += commands_help(command, width) + options_help(command, all, width);
  if (!command.notes.empty()) out += "\n" + wrapped(command.notes, 0, width);
  return out + examples_help(command, width) + pointer(command, all);
}

}  // namespace kilter::tool
