#include "api/option_words.h"

#include <cctype>

namespace kilter {
namespace {

struct Words {
  std::string_view option;  ///< of the command line, without "--"
  std::string_view field;   ///< of NetworkOptions or LibraryOptions
  std::string_view name;    ///< of the C interface; empty: it has no such option
};

constexpr Words kWords[] = {
    {"input", "shapes", "shapes"},
    {"shapes", "shape_ranges", "shapes"},
    {"max-shapes", "max_shapes", "max-shapes"},
    {"specialise", "specialise", ""},
    {"plan-cache", "plan_cache_bytes", ""},
    {"target", "target", "target"},
    {"threads", "threads", "threads"},
    {"precision", "precision", "precision"},
    {"keep-float", "keep_float", "keep-float"},
    {"accuracy", "accuracy", "accuracy"},
    {"memory", "memory_bytes", "memory"},
    {"records", "records", "records"},
    {"choose", "choose", "choose"},
    {"layer-plan", "layer_plan", "layer-plan"},
    {"signed-by", "signed_by", ""},
    {"name", "LibraryOptions::name", ""},
    {"header", "LibraryOptions::header", ""},
    {"weights file", "LibraryOptions::weights_in_file", ""},
    {"cc", "LibraryOptions::compiler", ""},
    {"cmake", "LibraryOptions::sources", ""},
};

bool in_option(char c) { return (c >= 'a' && c <= 'z') || c == '-'; }

/// The row of the option that this text starts with; null if there is none.
const Words* find(std::string_view text) {
  if (!text.starts_with("--")) return nullptr;
  text.remove_prefix(2);
  for (const Words& w : kWords) {
    if (!text.starts_with(w.option)) continue;
    if (text.size() == w.option.size() || !in_option(text[w.option.size()])) return &w;
  }
  return nullptr;
}

std::string replaced(std::string_view message, std::string_view Words::* words) {
  std::string out;
  bool quoted = false, command = false, inside_word = false;
  for (size_t at = 0; at < message.size();) {
    const std::string_view rest = message.substr(at);
    if (rest.front() == '`') {
      quoted = !quoted;
      command = quoted && rest.starts_with("`kilter ");
    }
    const Words* found = command || inside_word ? nullptr : find(rest);
    if (found != nullptr && !(found->*words).empty()) {
      out += found->*words;
      at += found->option.size() + 2;
      continue;
    }
    inside_word = in_option(rest.front()) || std::isalnum(static_cast<unsigned char>(rest.front())) != 0;
    out += rest.front();
    ++at;
  }
  return out;
}

}  // namespace

std::string with_fields(std::string_view message) { return replaced(message, &Words::field); }
std::string with_option_names(std::string_view message) { return replaced(message, &Words::name); }

}  // namespace kilter
