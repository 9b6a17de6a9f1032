// Models and external data behind symbolic links, as in model caches: snapshots/REVISION/FILE -> ../../blobs/HASH.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "../base/scratch_folder.h"
#include "model_maker.h"
#include "onnx/external_data.h"
#include "onnx/tensor_reader.h"

namespace kilter::onnx {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

void write(const fs::path& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }

/// Returns the bytes of 16 floats of one value.
std::string floats(float value) {
  std::string bytes(64, '\0');
  for (size_t at = 0; at < bytes.size(); at += sizeof value) std::memcpy(bytes.data() + at, &value, sizeof value);
  return bytes;
}

pb::TensorProto external(const std::string& location) {
  pb::TensorProto proto;
  proto.set_name("w");
  proto.set_data_type(1);
  proto.set_data_location(1);
  proto.add_dims(16);
  auto& entry = *proto.add_external_data();
  entry.set_key("location");
  entry.set_value(location);
  return proto;
}

class ModelCache : public testing::Test {
 protected:
  ModelCache() : root_(scratch_.path()), blobs_(root_ / "cache/blobs"), snapshot_(root_ / "cache/snapshots/0123") {
    fs::create_directories(blobs_);
    fs::create_directories(snapshot_);
    write(root_ / "secret", floats(666));
  }

  /// Returns the bytes of a model whose weights are at `location`.
  static std::string model(const std::string& location) {
    ModelMaker maker = relu_model();
    *maker.graph().add_initializer() = external(location);
    return maker.bytes();
  }
  /// Adds a file to the snapshot that is a link to a blob.
  void add(const std::string& name, const std::string& blob, const std::string& bytes) {
    const fs::path file = snapshot_ / name;
    fs::create_directories(file.parent_path());
    write(blobs_ / blob, bytes);
    fs::create_symlink(fs::relative(blobs_, file.parent_path()) / blob, file);
  }
  std::string error(const std::string& name = "model.onnx") const {
    return error_of([&] { Model::load(snapshot_ / name); });
  }
  /// Returns the error for weights at `location` when the model file is a link.
  std::string data_error(const std::string& location) {
    fs::remove(snapshot_ / "model.onnx");
    add("model.onnx", "1111", model(location));
    return error();
  }

  ScratchFolder scratch_;
  fs::path root_, blobs_, snapshot_;
};

TEST_F(ModelCache, LinksNextToALinkedModelAreLegal) {
  add("model.onnx", "1111", model("model.onnx_data"));
  add("model.onnx_data", "2222", floats(1));
  EXPECT_EQ(error(), "no error");
  add("onnx/model.onnx", "3333", model("model.onnx_data"));
  add("onnx/model.onnx_data", "4444", floats(1));
  EXPECT_EQ(error("onnx/model.onnx"), "no error") << "a folder of the snapshot";
  add("weights/w.bin", "5555", floats(1));
  EXPECT_EQ(data_error("weights/w.bin"), "no error") << "a folder next to the model";
}

TEST_F(ModelCache, LinksToLinksAndToFoldersAreFollowed) {
  add("model.onnx", "1111", model("model.onnx_data"));
  add("model.onnx_data", "2222", floats(1));
  fs::create_directory_symlink(snapshot_, root_ / "latest");
  EXPECT_EQ(error_of([&] { Model::load(root_ / "latest/model.onnx"); }), "no error");
  fs::create_symlink("model.onnx", snapshot_ / "again.onnx");
  EXPECT_EQ(error("again.onnx"), "no error");
}

TEST_F(ModelCache, DataNextToTheLinkTargetIsFound) {
  fs::create_directories(root_ / "store");
  write(root_ / "store/net.onnx", model("net.onnx_data"));
  write(root_ / "store/net.onnx_data", floats(1));
  fs::create_symlink(root_ / "store/net.onnx", snapshot_ / "net.onnx");
  EXPECT_EQ(error("net.onnx"), "no error") << "no link to the data is needed";
}

TEST_F(ModelCache, ModelFolderComesBeforeLinkTarget) {
  add("model.onnx", "1111", "");
  write(snapshot_ / "w", floats(1));
  write(blobs_ / "w", floats(2));
  const fs::path model = snapshot_ / "model.onnx";
  TensorReader reader("m.onnx", data_folders(model, link_target(model)));
  EXPECT_EQ(reader.read(external("w"), "initializer 'w'").data<float>()[0], 1);
}

TEST_F(ModelCache, EscapesAreRefused) {
  const std::string head =
      "bad_model: " + (snapshot_ / "model.onnx").string() + ": initializer 'w': external data location ";
  const std::string tail =
      "; expected a relative path to a file under the model's folder or that of the file that the model's link points "
      "to";
  EXPECT_EQ(data_error("../0123/w"), head + "'../0123/w' leaves the folder through '..'" + tail);
  EXPECT_EQ(data_error("/etc/passwd"), head + "'/etc/passwd' is an absolute path" + tail);
  const auto link = [&](const fs::path& to) {
    fs::remove(snapshot_ / "link");
    fs::create_symlink(to, snapshot_ / "link");
    return data_error("link");
  };
  EXPECT_EQ(link(root_ / "secret"), head + "'link' is a symbolic link that leaves the folder" + tail);
  EXPECT_EQ(link("../../../secret"), head + "'link' is a symbolic link that leaves the folder" + tail);
  EXPECT_EQ(link("/dev/zero"), head + "'link' is a symbolic link that leaves the folder" + tail);
  EXPECT_EQ(link("../../blobs"), head + "'link' is not a regular file" + tail);
  fs::create_directory_symlink(root_, snapshot_ / "up");
  EXPECT_EQ(data_error("up/secret"), head + "'up/secret' is a symbolic link that leaves the folder" + tail);
  fs::create_directories(root_ / "cache/blobs_other");
  write(root_ / "cache/blobs_other/w", floats(1));
  EXPECT_EQ(link("../../blobs_other/w"), head + "'link' is a symbolic link that leaves the folder" + tail);
  write(root_ / "other", floats(1));
  fs::create_symlink("../../other", blobs_ / "2222");
  EXPECT_EQ(link("../../blobs/2222"), head + "'link' is a symbolic link that leaves the folder" + tail)
      << "a blob that is a link out of blobs/";
}

TEST_F(ModelCache, OnlyLinkedModelsReachTheTargetFolder) {
  write(snapshot_ / "model.onnx", model("model.onnx_data"));
  add("model.onnx_data", "2222", floats(1));
  EXPECT_THAT(error(), HasSubstr("is a symbolic link that leaves the folder; expected a relative path to a file under "
                                 "the model's folder"));
}

TEST_F(ModelCache, SpecialFilesAreRefusedWithoutBlocking) {
  ASSERT_EQ(mkfifo((blobs_ / "fifo").c_str(), 0600), 0);
  fs::create_symlink("../../blobs/fifo", snapshot_ / "fifo");
  EXPECT_THAT(data_error("fifo"), HasSubstr("'fifo' is not a regular file; expected"));
  fs::create_directories(snapshot_ / "folder");
  EXPECT_THAT(data_error("folder"), HasSubstr("'folder' is not a regular file; expected"));
}

TEST_F(ModelCache, DanglingLinksAreNamed) {
  fs::create_symlink("../../blobs/gone", snapshot_ / "model.onnx_data");
  const std::string file = (snapshot_ / "model.onnx").string();
  EXPECT_EQ(
      data_error("model.onnx_data"),
      "io: " + file + ": initializer 'w': cannot read external data file '" + file +
          "_data', a symbolic link to '../../blobs/gone': No such file or directory; put the file next to the model");
  fs::create_symlink("loop", snapshot_ / "loop");
  EXPECT_THAT(data_error("loop"), HasSubstr("Too many levels of symbolic links"));
  fs::create_symlink("../../blobs/gone", snapshot_ / "dangling.onnx");
  EXPECT_EQ(error("dangling.onnx"),
            "io: cannot read file '" + (snapshot_ / "dangling.onnx").string() + "': No such file or directory");
}

TEST_F(ModelCache, FilesBelowAFolderAreOpenedWithoutFollowingLinks) {
  write(blobs_ / "1111", floats(1));
  EXPECT_EQ(MappedFile::open_below(root_, "cache/blobs/1111")->bytes().size(), 64u);
  fs::create_symlink(root_ / "secret", blobs_ / "link");
  EXPECT_THAT(error_of([&] { MappedFile::open_below(root_, "cache/blobs/link"); }),
              HasSubstr("cache/blobs/link': Too many levels of symbolic links"));
  fs::create_directory_symlink(root_, blobs_ / "up");
  EXPECT_THAT(error_of([&] { MappedFile::open_below(root_, "cache/blobs/up/secret"); }),
              HasSubstr("cache/blobs/up/secret': Not a directory"));
  ASSERT_EQ(mkfifo((blobs_ / "fifo").c_str(), 0600), 0);
  EXPECT_THAT(error_of([&] { MappedFile::open_below(blobs_, "fifo"); }), HasSubstr("it is not a regular file"));
}

/// Another thread keeps swapping a file and a link out of the folder. Each attempt reads the file or is refused; the
/// link is never followed.
TEST_F(ModelCache, SwappedLinksAreNeverFollowed) {
  write(snapshot_ / "good", floats(1));
  fs::create_symlink(root_ / "secret", snapshot_ / "bad");
  write(snapshot_ / "w", floats(1));
  std::atomic<bool> done = false;
  std::thread swap([&] {
    while (!done) {
      for (const char* next : {"bad", "good"}) {
        fs::copy(snapshot_ / next, snapshot_ / "next", fs::copy_options::copy_symlinks);
        fs::rename(snapshot_ / "next", snapshot_ / "w");
      }
    }
  });
  int read = 0;
  for (int i = 0; i < 2000; ++i) {
    try {
      TensorReader reader("m.onnx", {snapshot_});
      EXPECT_EQ(reader.read(external("w"), "initializer 'w'").data<float>()[0], 1);
      ++read;
    } catch (const Error&) {
    }
  }
  done = true;
  swap.join();
  EXPECT_GT(read, 0);
}

}  // namespace
}  // namespace kilter::onnx
