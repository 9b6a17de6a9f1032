// kilter zoo: lists the built-in networks, and writes one as ONNX.

#include "zoo/zoo.h"

#include <nlohmann/json.hpp>

#include "base/columns.h"
#include "onnx/model.h"
#include "ops/support/builder.h"
#include "terminal.h"
#include "tool.h"

namespace kilter::tool {
namespace {

void list(const std::string& json) {
  nlohmann::json all = nlohmann::json::array();
  for (const zoo::Row& row : zoo::all())
    all.push_back({{"name", row.name}, {"size", row.size}, {"summary", row.summary}, {"aliases", row.aliases}});
  if (!json.empty()) write_json(json, all);
  if (json == "-") return;
  for (const zoo::Row& row : zoo::all()) {
    std::string aliases;
    for (std::string_view a : row.aliases) aliases += fmt::format("{}{}", aliases.empty() ? "  also " : ", ", a);
    const std::string line = fmt::format("{:<22} {:>5}  {}{}", row.name, row.size, row.summary, aliases);
    say("{}\n", hanging(line, 30, terminal_columns().value_or(0)));
  }
}

}  // namespace

void add_zoo(Command app, Context&) {
  auto name = std::make_shared<std::string>();
  auto file = std::make_shared<std::string>();
  auto json = std::make_shared<std::string>();
  auto options = std::make_shared<zoo::Options>();
  Command sub = app.subcommand("zoo", "List the built-in networks, or write one as an ONNX file");
  std::vector<std::string> names;
  for (const zoo::Row& row : zoo::all()) names.emplace_back(row.name);
  sub.group("Look inside");
  sub.option("NAME", *name, "network to write; without it, the networks are listed").suggests(std::move(names));
  sub.heading("Output");
  sub.option("-o,--output,~--out", *file, "ONNX file to write").file();
  sub.json(*json, "the list");
  sub.heading("Network");
  sub.option("--batch", options->batch, "batch size").range(1, 65536).shows_default();
  sub.option("--size", options->size, "image height and width in pixels, or tokens (default: the network's own)")
      .range(1, 65536);
  sub.option("--width", options->width, "width multiplier of mobilenet").range(0.05, 8.0).shows_default();
  sub.option("--classes", options->classes, "number of classes (default: the network's own)").range(1, 1 << 20);
  sub.option("--seed", options->seed, "seed of the weights").shows_default();
  sub.example("kilter zoo", "The built-in networks");
  sub.example("kilter zoo resnet18 -o model.onnx", "One of them as an ONNX file");
  sub.callback([=] {
    if (name->empty()) return list(*json);
    if (!json->empty())
      fail(ErrorKind::usage, "--json {}: it is for the list of networks; leave it out, or leave {} out", *json, *name);
    if (file->empty()) fail(ErrorKind::usage, "zoo {}: give the file to write with -o FILE.onnx", *name);
    onnx::save(zoo::build(*name, *options), *file, 17);
    confirm("{}\n", *file);
  });
}

}  // namespace kilter::tool
