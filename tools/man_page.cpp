#include "man_page.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "help_text.h"

namespace kilter::tool {
namespace {

/// Escapes what roff would take for a command: backslashes, hyphens that must stay hyphens, and a dot or quote that
/// begins a line.
std::string roff(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (out.empty() && (c == '.' || c == '\'')) out += "\\&";
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else if (c == '\n') {
      out += "\n.PP\n";
    } else {
      out += c;
    }
  }
  return out;
}

std::string options_text(const CommandText& command, bool by_position) {
  std::string out, heading;
  for (const OptionText& o : command.options) {
    if (o.hidden || o.by_position != by_position) continue;
    if (!by_position && o.heading != heading) out += fmt::format(".SS {}\n", roff(heading = o.heading));
    out += fmt::format(".TP\n\\fB{}\\fR\n{}\n", roff(trim(option_form(o))), roff(option_help(o)));
  }
  return out;
}

/// Returns a copy whose options are grouped by heading, in the order of the first of each.
CommandText grouped(const CommandText& command) {
  CommandText out = command;
  out.options.clear();
  for (const OptionText& first : command.options) {
    const bool known = std::ranges::find(out.options, first.heading, &OptionText::heading) != out.options.end();
    for (const OptionText& o : command.options) {
      if (!known && o.heading == first.heading) out.options.push_back(o);
    }
  }
  return out;
}

}  // namespace

std::string page_name(const CommandText& command) {
  std::string out = command.name;
  std::ranges::replace(out, ' ', '-');
  return out;
}

std::string man_page(const CommandText& command) {
  const CommandText c = grouped(command);
  std::string title = page_name(c);
  std::ranges::transform(title, title.begin(), [](char x) { return x >= 'a' && x <= 'z' ? char(x - 'a' + 'A') : x; });
  std::string out = fmt::format(".TH {} 1 \"\" \"kilter\" \"User Commands\"\n", roff(title));
  out += fmt::format(".SH NAME\n{} \\- {}\n.SH SYNOPSIS\n\\fB{}\\fR\n", roff(page_name(c)), roff(c.summary),
                     roff(usage_text(c)));
  if (!c.notes.empty()) out += fmt::format(".SH DESCRIPTION\n{}\n", roff(c.notes));
  if (!c.commands.empty()) out += ".SH COMMANDS\n";
  for (const CommandText& below : c.commands)
    out += fmt::format(".TP\n\\fB{}\\fR(1)\n{}\n", roff(page_name(below)), roff(below.summary));
  if (const std::string arguments = options_text(c, true); !arguments.empty()) out += ".SH ARGUMENTS\n" + arguments;
  if (const std::string options = options_text(c, false); !options.empty()) out += ".SH OPTIONS\n" + options;
  if (!c.examples.empty()) out += ".SH EXAMPLES\n";
  for (const Example& e : c.examples)
    out += fmt::format("{}:\n.PP\n.RS\n.nf\n{}\n.fi\n.RE\n.PP\n", roff(e.what), roff(e.command));
  out +=
      ".SH EXIT STATUS\n0: done. 1: a check failed. 2: the command line is not legal. 3: a file or the model cannot be "
      "used.\n4: an error of Kilter itself. 130: interrupted.\n";
  return out;
}

}  // namespace kilter::tool
