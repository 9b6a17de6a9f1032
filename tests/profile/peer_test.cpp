// The process of another runtime, simulated by a shell script that prints, fails and dies.
#include "profile/peer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>

#include "../base/error_of.h"
#include "../base/scratch_folder.h"
#include "base/files.h"

namespace kilter::profile {
namespace {

class PeerProcess : public testing::Test {
 protected:
  void TearDown() override { unsetenv("KILTER_PYTHON"); }
  /// Replaces the Python interpreter by a script that reads the request, then executes `lines`.
  void play(const std::string& lines) {
    const std::filesystem::path file = folder_.path() / "python";
    write_file_atomically(file, "#!/bin/sh\nread request\n" + lines);
    std::filesystem::permissions(file, std::filesystem::perms::owner_all);
    setenv("KILTER_PYTHON", file.c_str(), 1);
  }
  ScratchFolder folder_;
  Peer::Request request_{"onnxruntime", "m.onnx", 1, {}};
};

TEST_F(PeerProcess, LibraryOutputIsIgnored) {
  play(
      "echo hello; echo '{\"version\": \"onnxruntime 9\"}'; read run\n"
      "echo '[warning] something'; echo 12; echo '{\"ms\": 2.5}'; read layers\n"
      "echo '{\"layers\": [{\"name\": \"a\", \"op\": \"Conv\", \"ms\": 1}], \"ms\": 3}'; read end\n");
  Peer peer(request_);
  EXPECT_EQ(peer.version(), "onnxruntime 9");
  EXPECT_EQ(peer.run(3), 2.5);
  const PeerLayers layers = peer.layers(1);
  ASSERT_EQ(layers.layers.size(), 1U);
  EXPECT_EQ(layers.layers[0].op, "Conv");
  EXPECT_EQ(layers.run_ms, 3);
}

TEST_F(PeerProcess, FailuresQuoteThePeer) {
  play(
      "echo '{\"version\": \"v\"}'; read run; echo '{\"error\": \"MemoryError: none left\"}'\n"
      "read run; echo '{\"ms\": \"soon\"}'; read layers; echo 'Traceback' >&2; echo 'Killed: a reason' >&2\n");
  Peer peer(request_);
  EXPECT_EQ(error_of([&] { (void)peer.run(2); }, ErrorKind::unsupported),
            "onnxruntime:m.onnx: it failed on 'run 2': MemoryError: none left");
  EXPECT_EQ(error_of([&] { (void)peer.run(2); }, ErrorKind::unsupported),
            "onnxruntime:m.onnx: unknown answer to 'run 2': {\"ms\":\"soon\"}");
  EXPECT_EQ(error_of([&] { (void)peer.layers(2); }, ErrorKind::unsupported),
            "onnxruntime:m.onnx: its process ended before it answered 'layers 2': Killed: a reason");
}

TEST_F(PeerProcess, PeerThatNeverAnswersIsAnError) {
  play("echo 'no module' >&2\n");
  const std::string python = (folder_.path() / "python").string();
  EXPECT_EQ(error_of([&] { const Peer peer(request_); }, ErrorKind::unsupported),
            "onnxruntime:m.onnx: the Python interpreter '" + python +
                "' does not run: no module; set KILTER_PYTHON to one that has onnxruntime installed (this one was "
                "chosen because KILTER_PYTHON names it)");
  setenv("KILTER_PYTHON", "/no/such/python", 1);
  EXPECT_EQ(error_of([&] { const Peer peer(request_); }, ErrorKind::unsupported),
            "onnxruntime:m.onnx: the Python interpreter '/no/such/python' does not run; set KILTER_PYTHON to one that "
            "has onnxruntime installed (this one was chosen because KILTER_PYTHON names it)");
}

TEST_F(PeerProcess, MissingModuleErrorSaysHowToInstall) {
  play("echo '{\"missing\": \"onnxruntime\", \"error\": \"ModuleNotFoundError: No module named onnxruntime\"}'\n");
  const std::string python = (folder_.path() / "python").string();
  EXPECT_EQ(error_of([&] { const Peer peer(request_); }, ErrorKind::unsupported),
            "onnxruntime:m.onnx: the Python interpreter '" + python +
                "' has no onnxruntime: ModuleNotFoundError: No module named onnxruntime; install it with `" + python +
                " -m pip install onnxruntime`, or set KILTER_PYTHON to an interpreter that has it (this one was chosen "
                "because KILTER_PYTHON names it)");
}

/// Runs the real server in an interpreter that finds no packages.
TEST_F(PeerProcess, ServerNamesTheMissingModule) {
  const std::filesystem::path file = folder_.path() / "python";
  write_file_atomically(file, "#!/bin/sh\nexec python3 -I -S \"$@\"\n");
  std::filesystem::permissions(file, std::filesystem::perms::owner_all);
  setenv("KILTER_PYTHON", file.c_str(), 1);
  EXPECT_THAT(error_of([&] { const Peer peer(request_); }, ErrorKind::unsupported),
              testing::HasSubstr("' has no onnxruntime: ModuleNotFoundError: No module named 'onnxruntime'; install it "
                                 "with `" +
                                 file.string() + " -m pip install onnxruntime`"));
}

}  // namespace
}  // namespace kilter::profile
