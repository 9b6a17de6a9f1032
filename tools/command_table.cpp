#include "command_table.h"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/nearest.h"
#include "base/text.h"
#include "foreign_words.h"

namespace kilter::tool {
namespace {

/// Whether a word is written as an option. Negative numbers and "-" alone are values.
bool looks_like_option(std::string_view word) {
  return word.size() > 1 && word[0] == '-' && std::isdigit(static_cast<unsigned char>(word[1])) == 0 && word[1] != '.';
}

/// Finds the options that one word names; "-qv" names two. `takes_next`: the last one takes the next word. Returns
/// false if one of them is unknown.
bool find_options(const CommandText& command, const std::string& word, std::vector<const OptionText*>& found,
                  bool& takes_next) {
  const bool whole = word.starts_with("--");
  const size_t equals = word.find('=');
  if (whole || equals == 2 || word.size() == 2) {
    const OptionText* option = command.option(word.substr(0, equals));
    if (option == nullptr) return false;
    found.push_back(option);
    takes_next = !option->flag() && equals == std::string::npos;
    return true;
  }
  for (size_t i = 1; i < word.size(); ++i) {
    const OptionText* option = command.option(std::string{'-', word[i]});
    if (option == nullptr) return false;
    found.push_back(option);
    takes_next = !option->flag() && i + 1 == word.size();
    if (!option->flag()) return true;
  }
  return true;
}

nlohmann::json to_json(const OptionText& option) {
  nlohmann::json out{{"names", option.names}, {"help", option.help}, {"rare", option.rare}};
  out["by_position"] = option.by_position, out["required"] = option.required, out["several"] = option.several;
  for (const auto& [key, text] : {std::pair{"value", &option.value},
                                  {"group", &option.heading},
                                  {"default", &option.by_default},
                                  {"range", &option.range}}) {
    if (!text->empty()) out[key] = *text;
  }
  if (!option.legal.empty()) out["legal"] = option.legal;
  return out;
}

}  // namespace

bool OptionText::named(std::string_view name) const {
  return !by_position &&
         (std::ranges::find(names, name) != names.end() || std::ranges::find(old_names, name) != old_names.end());
}

const CommandText* CommandText::find(std::string_view below) const {
  const auto at = std::ranges::find(commands, below, &CommandText::word);
  return at == commands.end() ? nullptr : &*at;
}

const OptionText* CommandText::option(std::string_view called) const {
  const auto at = std::ranges::find_if(options, [&](const OptionText& o) { return o.named(called); });
  return at == options.end() ? nullptr : &*at;
}

std::vector<std::string> CommandText::words() const {
  std::vector<std::string> out;
  for (const CommandText& c : commands) out.push_back(c.word);
  return out;
}

std::vector<std::string> CommandText::option_names() const {
  std::vector<std::string> out;
  for (const OptionText& o : options) {
    if (!o.hidden && !o.by_position) out.insert(out.end(), o.names.begin(), o.names.end());
  }
  return out;
}

const CommandText& find_command(const CommandText& root, const std::vector<std::string>& words) {
  const CommandText* command = &root;
  for (const std::string& word : words) {
    const CommandText* below = command->find(word);
    if (below == nullptr) refuse({Look::Finding::unknown_command, command, word, {}});
    command = below;
  }
  return *command;
}

Look look_at(const CommandText& root, const std::vector<std::string>& words) {
  Look look{Look::Finding::legal, &root, {}, {}};
  const auto unknown = [&](Look::Finding finding, const std::string& word) {
    if (look.finding == Look::Finding::legal) look.finding = finding, look.word = word;
  };
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word == "--") break;
    if (!looks_like_option(word)) {
      if (look.command->commands.empty() || look.finding != Look::Finding::legal) continue;
      const CommandText* below = look.command->find(word);
      if (below == nullptr)
        unknown(Look::Finding::unknown_command, word);
      else
        look.command = below;
      continue;
    }
    std::vector<const OptionText*> found;
    bool takes_next = false;
    if (!find_options(*look.command, word, found, takes_next)) {
      unknown(Look::Finding::unknown_option, word.substr(0, word.find('=')));
      continue;
    }
    for (const OptionText* option : found) {
      if (option->named("--help")) return {Look::Finding::help, look.command, {}, look.colour};
      if (option->named("--help-all")) return {Look::Finding::all_help, look.command, {}, look.colour};
      if (option->hidden) return {Look::Finding::legal, look.command, {}, {}};
      if (option->named("--color"))
        look.colour = takes_next && i + 1 < words.size() ? words[i + 1] : word.substr(word.find('=') + 1);
    }
    if (takes_next) ++i;
  }
  if (!look.command->commands.empty()) unknown(Look::Finding::no_command, "");
  return look;
}

void refuse(const Look& look) {
  const CommandText& command = *look.command;
  if (look.finding == Look::Finding::no_command) {
    fail(ErrorKind::usage, "a command is required after `{}`: {}; `{} --help` describes them", command.name,
         join(command.words(), ", "), command.name);
  }
  if (look.finding == Look::Finding::unknown_command) {
    fail(ErrorKind::usage, "unknown command '{}'{} `{} --help` lists the commands", look.word,
         did_you_mean(look.word, command.words()), command.name);
  }
  if (const std::string_view instead = instead_of(command.word, look.word); !instead.empty())
    fail(ErrorKind::usage, "{}: {} has no such option; {}", look.word, command.name, instead);
  std::vector<std::string> long_names = command.option_names();
  std::erase_if(long_names, [](const std::string& name) { return !name.starts_with("--"); });
  fail(ErrorKind::usage, "unknown option '{}'{} `{} --help-all` lists the options", look.word,
       did_you_mean(look.word, long_names), command.name);
}

nlohmann::json to_json(const CommandText& command) {
  nlohmann::json out{{"name", command.name}, {"summary", command.summary}};
  if (!command.group.empty()) out["group"] = command.group;
  if (!command.notes.empty()) out["notes"] = command.notes;
  nlohmann::json options = nlohmann::json::array(), examples = nlohmann::json::array();
  for (const OptionText& option : command.options) {
    if (!option.hidden) options.push_back(to_json(option));
  }
  for (const Example& e : command.examples) examples.push_back({{"command", e.command}, {"what", e.what}});
  out["options"] = options, out["examples"] = examples;
  out["commands"] = nlohmann::json::array();
  for (const CommandText& below : command.commands) out["commands"].push_back(to_json(below));
  return out;
}

}  // namespace kilter::tool
