#include "completion.h"

#include <fmt/format.h>

#include <functional>

#include "base/error.h"
#include "base/text.h"

namespace kilter::tool {
namespace {

using Visit = std::function<void(const CommandText& command)>;

void for_all(const CommandText& command, const Visit& visit) {
  visit(command);
  for (const CommandText& below : command.commands) for_all(below, visit);
}

std::vector<std::string> values_of(const OptionText& option) {
  return option.legal.empty() ? option.suggests : option.legal;
}

/// Returns the positional argument for which completion offers values; null if there is none.
const OptionText* argument_of(const CommandText& command) {
  for (const OptionText& o : command.options) {
    if (o.by_position) return &o;
  }
  return nullptr;
}

/// A single quote inside single-quoted text: closes the quotes, adds an escaped quote, and opens them again. All three
/// shells accept this.
constexpr std::string_view kQuoteInside = "'\\''";

std::string in_quotes(std::string_view text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'') {
      out += kQuoteInside;
    } else {
      out += c;
    }
  }
  return out + "'";
}

std::string_view kind_word(const OptionText& option) {
  return option.kind == ValueKind::file ? "file" : option.kind == ValueKind::folder ? "folder" : "";
}

/// One row per command and per option with a value, which the script's function looks up: "kilter run|--accuracy".
std::string bash_rows(const CommandText& root) {
  std::string out;
  const auto row = [&](const std::string& key, std::string_view kind, const std::vector<std::string>& words) {
    out += fmt::format("    {}) kind={} words={} ;;\n", in_quotes(key), in_quotes(std::string(kind)),
                       in_quotes(join(words, " ")));
  };
  for_all(root, [&](const CommandText& c) {
    row(c.name + "|options", "", c.option_names());
    row(c.name + "|commands", "", c.words());
    if (const OptionText* argument = argument_of(c))
      row(c.name + "|argument", kind_word(*argument), values_of(*argument));
    for (const OptionText& o : c.options) {
      if (o.hidden || o.by_position || o.flag()) continue;
      for (const std::string& name : o.names) row(c.name + "|" + name, kind_word(o), values_of(o));
    }
  });
  return out;
}

/// The words before the cursor are read from the line, since bash splits them at ':' and '=', which occur in models and
/// values. A completion of such a word replaces only what follows its last ':' or '='.
constexpr std::string_view kBash = R"(# Completion of kilter for bash.
_kilter_look() {
  kind='' words=''
  case "$1" in
@ROWS@    *) return 1 ;;
  esac
}
_kilter_offer() { # WORDS KIND CURRENT
  local reply
  mapfile -t COMPREPLY < <(compgen -W "$1" -- "$3")
  if [ "$2" = file ]; then
    mapfile -t reply < <(compgen -f -- "$3")
    COMPREPLY+=("${reply[@]}")
    compopt -o filenames 2> /dev/null
  elif [ "$2" = folder ]; then
    mapfile -t COMPREPLY < <(compgen -d -- "$3")
    compopt -o filenames 2> /dev/null
  fi
  local split=${3##*[:=]} i
  local before=${3%"$split"}
  if [ -n "$before" ] && [[ $COMP_WORDBREAKS == *[:=]* ]]; then
    for i in "${!COMPREPLY[@]}"; do COMPREPLY[i]=${COMPREPLY[i]#"$before"}; done
  fi
}
_kilter() {
  local line=${COMP_LINE:0:COMP_POINT} command=kilter kind words current previous='' word
  local -a all
  read -ra all <<< "$line"
  current=''
  [[ $line == *[[:space:]] ]] || current=${all[-1]}
  [ -n "$current" ] && unset 'all[-1]'
  for word in "${all[@]:1}"; do
    case $word in -*) ;; *)
      [[ $previous != -* ]] && _kilter_look "$command|commands" && [[ " $words " == *" $word "* ]] && command="$command $word" ;;
    esac
    previous=$word
  done
  case $current in --*=*)
    if _kilter_look "$command|${current%%=*}"; then
      local value=${current#*=}
      _kilter_offer "$words" "$kind" "$value"
      return
    fi ;;
  esac
  if [[ $previous == -* ]] && _kilter_look "$command|$previous"; then
    _kilter_offer "$words" "$kind" "$current"
  elif [[ $current == -* ]]; then
    _kilter_look "$command|options" && _kilter_offer "$words" '' "$current"
  elif _kilter_look "$command|commands" && [ -n "$words" ]; then
    _kilter_offer "$words" '' "$current"
  elif _kilter_look "$command|argument"; then
    _kilter_offer "$words" "$kind" "$current"
  fi
}
complete -F _kilter kilter
)";

std::string bash(const CommandText& root) {
  std::string out(kBash);
  const std::string_view mark = "@ROWS@";
  return out.replace(out.find(mark), mark.size(), bash_rows(root));
}

/// Returns the first line of a text, for single quotes, without characters that are special to _arguments and
/// _describe.
std::string zsh_text(std::string_view text) {
  std::string out;
  for (const char c : text.substr(0, text.find('\n'))) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') out += '\\';
    if (c == '\'') {
      out += kQuoteInside;
    } else {
      out += c;
    }
  }
  return out;
}

std::string zsh_action(const OptionText& o) {
  if (o.kind == ValueKind::folder) return "_files -/";
  std::string values;
  for (const std::string& v : values_of(o)) values += (values.empty() ? "" : " ") + zsh_text(v);
  if (o.kind == ValueKind::file)
    return values.empty() ? "_files" : "{compadd -- " + join(values_of(o), " ") + "; _files}";
  return values.empty() ? " " : "(" + values + ")";
}

std::string zsh_function(const CommandText& c) {
  std::string name = c.name;
  for (char& x : name) x = x == ' ' || x == '-' ? '_' : x;
  std::string out = "_" + name + "() {\n";
  if (!c.commands.empty()) {
    out += "  local -a commands=(\n";
    for (const CommandText& below : c.commands)
      out += fmt::format("    '{}:{}'\n", below.word, zsh_text(below.summary));
    out += "  )\n  if (( CURRENT == 2 )); then\n    _describe command commands\n    return\n  fi\n";
    out += fmt::format("  local below=_{}_${{words[2]//-/_}}\n  shift words\n  (( CURRENT-- ))\n", name);
    return out + "  (( ${+functions[$below]} )) && $below\n}\n";
  }
  out += "  _arguments -S";
  for (const OptionText& o : c.options) {
    if (o.hidden) continue;
    if (o.by_position) {
      out += fmt::format(" \\\n    '{}:{}:{}'", o.several ? "*" : "", o.names.front(), zsh_action(o));
      continue;
    }
    for (const std::string& n : o.names) {
      out += fmt::format(" \\\n    '{}{}[{}]{}'", o.several ? "*" : "", n, zsh_text(o.help),
                         o.flag() ? "" : fmt::format(":{}:{}", zsh_text(o.value), zsh_action(o)));
    }
  }
  return out + "\n}\n";
}

std::string zsh(const CommandText& root) {
  std::string out = "#compdef kilter\n# Completion of kilter for zsh.\n";
  for_all(root, [&](const CommandText& c) { out += zsh_function(c); });
  return out + "if [[ ${funcstack[1]} == _kilter ]]; then _kilter \"$@\"; else compdef _kilter kilter; fi\n";
}

/// The condition under which a command's completions apply: all of its words were given.
std::string fish_condition(const CommandText& c) {
  std::string out;
  for (const std::string_view word : split_words(c.name)) {
    if (word != "kilter") out += fmt::format("{}__fish_seen_subcommand_from {}", out.empty() ? "" : "; and ", word);
  }
  return out;
}

std::string fish(const CommandText& root) {
  std::string out = "# Completion of kilter for fish.\ncomplete -c kilter -f\n";
  for_all(root, [&](const CommandText& c) {
    const std::string here = fish_condition(c);
    std::string none_below = here.empty() ? std::string("__fish_use_subcommand") : here;
    if (!here.empty() && !c.commands.empty())
      none_below += fmt::format("; and not __fish_seen_subcommand_from {}", join(c.words(), " "));
    for (const CommandText& below : c.commands)
      out += fmt::format("complete -c kilter -n {} -a {} -d {}\n", in_quotes(none_below), below.word,
                         in_quotes(below.summary));
    const std::string when = here.empty() ? "" : " -n " + in_quotes(here);
    for (const OptionText& o : c.options) {
      if (o.hidden) continue;
      const std::string values = values_of(o).empty() ? "" : " -a " + in_quotes(join(values_of(o), " "));
      const std::string files = o.kind == ValueKind::text ? "" : " -F";
      if (o.by_position) {
        if (!values.empty() || !files.empty()) out += fmt::format("complete -c kilter{}{}{}\n", when, files, values);
        continue;
      }
      out += fmt::format("complete -c kilter{}", when);
      for (const std::string& n : o.names) out += n.starts_with("--") ? " -l " + n.substr(2) : " -s " + n.substr(1);
      out += fmt::format("{}{}{} -d {}\n", o.flag() ? "" : " -r", files, values, in_quotes(o.help));
    }
  });
  return out;
}

}  // namespace

std::string completion_script(const CommandText& root, std::string_view shell) {
  if (shell == "bash") return bash(root);
  if (shell == "zsh") return zsh(root);
  if (shell == "fish") return fish(root);
  fail(ErrorKind::usage, "completion {}: expected bash, zsh or fish", shell);
}

}  // namespace kilter::tool
