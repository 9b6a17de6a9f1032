// kilter zoo: lists the built-in networks, and writes one as ONNX.

#include "zoo/zoo.h"

#include "onnx/model.h"
#include "ops/support/builder.h"
#include "tool.h"

namespace kilter::tool {
namespace {

void list() {
  for (const zoo::Row& row : zoo::all()) {
    std::string aliases;
    for (std::string_view a : row.aliases) aliases += fmt::format("{}{}", aliases.empty() ? "  also " : ", ", a);
    say("{:<22} {:>5}  {}{}\n", row.name, row.size, row.summary, aliases);
  }
}

}  // namespace

void add_zoo(Command app, Context&) {
  auto name = std::make_shared<std::string>();
  auto file = std::make_shared<std::string>();
  auto options = std::make_shared<zoo::Options>();
  Command sub = app.subcommand("zoo", "List the built-in networks, or write one as an ONNX file");
  sub.option("NAME", *name, "network to write; without it, the networks are listed");
  sub.option("-o,--out", *file, "ONNX file to write");
  sub.option("--batch", options->batch, "batch size").range(1, 65536).shows_default();
  sub.option("--size", options->size, "image height and width in pixels, or tokens (default: the network's own)")
      .range(1, 65536);
  sub.option("--width", options->width, "width multiplier of mobilenet").range(0.05, 8.0).shows_default();
  sub.option("--classes", options->classes, "number of classes (default: the network's own)").range(1, 1 << 20);
  sub.option("--seed", options->seed, "seed of the weights").shows_default();
  sub.callback([=] {
    if (name->empty()) return list();
    if (file->empty()) fail(ErrorKind::usage, "zoo {}: give the file to write with -o FILE.onnx", *name);
    onnx::save(zoo::build(*name, *options), *file, 17);
    say("{}\n", *file);
  });
}

}  // namespace kilter::tool
