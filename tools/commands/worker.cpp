// kilter worker: does the work of kilter-worker, plus the operators' reference kernels. The tuner starts it for
// networks that have steps without a schedule.
#include "tune/run/worker.h"

#include "tool.h"

namespace kilter::tool {

void add_worker(Command app, Context& context) {
  auto arguments = std::make_shared<std::vector<std::string>>();
  Command sub = app.subcommand("worker", "");
  sub.hide();  // hidden from the list of subcommands
  sub.option("arguments", *arguments, "");
  sub.callback([=, &context] {
    install_reference_runner();
    std::vector<const char*> pointers;
    for (const std::string& a : *arguments) pointers.push_back(a.c_str());
    context.exit = tune::worker_main(pointers);
    if (context.exit != kDone) fail(ErrorKind::usage, "kilter worker is started by a tuner, not by hand");
  });
}

}  // namespace kilter::tool
