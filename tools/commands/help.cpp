// kilter help, version, completion, man: what the program says about itself, generated from the table of commands.

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "completion.h"
#include "help_text.h"
#include "man_page.h"
#include "tool.h"

namespace kilter::tool {
namespace {

constexpr const char* kGroup = "Help";

void add_help_command(Command app) {
  auto words = std::make_shared<std::vector<std::string>>();
  auto json = std::make_shared<std::string>();
  Command sub = app.subcommand("help", "Print the help of a command");
  sub.group(kGroup);
  sub.option("COMMAND", *words, "the command, such as run or records list (default: the list of all)");
  sub.json(*json, "the table of commands and their options");
  sub.example("kilter help records list", "The help of a subcommand");
  sub.callback([=] {
    const CommandText& command = find_command(app.text(), *words);
    if (!json->empty()) write_json(*json, to_json(command));
    if (*json != "-") say("{}", help_text(command, false));
  });
}

void add_version(Command app) {
  auto json = std::make_shared<std::string>();
  Command sub = app.subcommand("version", "Print the version, which --version does as well");
  sub.group(kGroup);
  sub.json(*json, "the version and this machine");
  sub.example("kilter version --json -", "For bug reports and scripts");
  sub.callback([=] {
    if (!json->empty()) write_json(*json, version_json());
    if (*json != "-") say("{}\n", version_text());
  });
}

void add_completion(Command app) {
  auto shell = std::make_shared<std::string>();
  Command sub = app.subcommand("completion", "Print a script that lets a shell complete commands, options and values");
  sub.group(kGroup);
  sub.option("SHELL", *shell, "the shell").one_of({"bash", "zsh", "fish"}).required();
  sub.footer(
      "bash: put `source <(kilter completion bash)` into ~/.bashrc. zsh: put `source <(kilter completion zsh)` into "
      "~/.zshrc, after compinit. fish: write the script to ~/.config/fish/completions/kilter.fish.");
  sub.example("kilter completion bash", "The script for bash");
  sub.callback([=] { say("{}", completion_script(app.text(), *shell)); });
}

void write_pages(const CommandText& command, const std::string& folder) {
  const std::filesystem::path file = std::filesystem::path(folder) / (page_name(command) + ".1");
  write_file_atomically(file, man_page(command));
  confirm("{}\n", file.string());
  for (const CommandText& below : command.commands) write_pages(below, folder);
}

void add_man(Command app) {
  auto words = std::make_shared<std::vector<std::string>>();
  auto folder = std::make_shared<std::string>();
  Command sub = app.subcommand("man", "Print the manual page of a command, or write those of all");
  sub.group(kGroup);
  sub.option("COMMAND", *words, "the command, such as run or records list (default: the program)");
  sub.heading("Output");
  sub.option("-o,--output", *folder,
             "folder for the pages of the command and all its subcommands, instead of printing one")
      .folder();
  sub.example("kilter man run", "One page, for man -l or groff");
  sub.example("kilter man -o man1", "All pages as files");
  sub.callback([=] {
    const CommandText& command = find_command(app.text(), *words);
    if (folder->empty()) {
      say("{}", man_page(command));
      return;
    }
    std::error_code error;
    std::filesystem::create_directories(*folder, error);
    if (error)
      fail(ErrorKind::io, "--output {}: cannot create the folder: {}; choose another", *folder, error.message());
    write_pages(command, *folder);
  });
}

}  // namespace

void add_help(Command app, Context&) {
  add_help_command(app);
  add_version(app);
  add_completion(app);
  add_man(app);
}

}  // namespace kilter::tool
