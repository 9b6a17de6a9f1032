// The commands that `explain` and its causes suggest. Each compares exactly the two cases of its finding.

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/text.h"
#include "profile/explain/explain.h"

namespace kilter::profile {
namespace {

/// An option of the command line and its value.
using Word = std::pair<std::string, std::string>;

std::vector<Word> words_of(const CompileOptions& o, const Subject& subject) {
  const auto own = [&](const std::string& layer) { return subject.own_name ? subject.own_name(layer) : layer; };
  std::vector<Word> out;
  for (const std::string& pass : o.debug.disable) out.emplace_back("--disable", pass);
  if (!o.debug.stop_after.empty()) out.emplace_back("--stop-after", o.debug.stop_after);
  if (o.debug.max_rewrites != INT64_MAX) out.emplace_back("--max-rewrites", fmt::format("{}", o.debug.max_rewrites));
  if (o.accuracy == Accuracy::strict) out.emplace_back("--accuracy", "strict");
  if (o.precision != Precision::declared) out.emplace_back("--precision", name(o.precision));
  for (const std::string& held : o.keep_float) out.emplace_back("--keep-float", held);
  if (o.budget.memory) out.emplace_back("--memory", fmt::format("{}", *o.budget.memory));
  for (const auto& [node, choice] : o.choices) {
    if (choice.fuse == Fusion::before) out.emplace_back("--fuse", own(node));
    if (choice.fuse == Fusion::none) out.emplace_back("--no-fuse", own(node));
    if (choice.fuse == Fusion::apart) out.emplace_back("--forbid", "conv2d_then_depthwise@" + own(node));
  }
  for (const auto& [node, choice] : o.choices) {
    if (choice.plain) out.emplace_back("--plain-layout", own(node));
  }
  for (const auto& [node, choice] : o.choices) {
    if (choice.threads > 0) out.emplace_back("--layer-threads", fmt::format("{}={}", own(node), choice.threads));
  }
  for (const auto& [node, choice] : o.choices) {
    if (choice.forced()) out.emplace_back("--schedule", own(node) + "=" + choice.schedule->text());
  }
  return out;
}

std::string text(const Word& word, const char* suffix) {
  return fmt::format(" {}{} {}", word.first, suffix, shell_word(word.second));
}

std::string network(const char* subcommand, const Subject& subject) {
  return fmt::format("kilter {} {}", subcommand, shell_word(subject.model));
}

std::string more(const Subject& subject) { return subject.arguments.empty() ? "" : " " + subject.arguments; }

}  // namespace

std::string bench_command(const Subject& subject, const Setting& setting) {
  std::string out = fmt::format("{} --threads {}{}", network("bench", subject), setting.threads, more(subject));
  for (const Word& word : words_of(setting.compile, subject)) out += text(word, "");
  return out;
}

std::string compare_command(const Subject& subject, const Setting& now, const Setting& then) {
  const std::vector<Word> a = words_of(now.compile, subject), b = words_of(then.compile, subject);
  const auto both = [&](const Word& word) {
    return std::ranges::find(a, word) != a.end() && std::ranges::find(b, word) != b.end();
  };
  std::string out = network("compare", subject);
  out += now.threads == then.threads ? fmt::format(" --threads {}", now.threads)
                                     : fmt::format(" --threads-a {} --threads-b {}", now.threads, then.threads);
  out += more(subject);
  for (const Word& word : a) out += text(word, both(word) ? "" : "-a");
  for (const Word& word : b) out += both(word) ? "" : text(word, "-b");
  return out;
}

std::string compare_inputs_command(const Subject& subject, const Setting& now, const std::string& input) {
  return compare_command(subject, now, now) + text({"--input", input}, "-b");
}

}  // namespace kilter::profile
