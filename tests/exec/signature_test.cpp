// Keys, and signatures of bytes in memory. tests/e2e/targets_test.py tests the commands.
#include "exec/signature.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string_view>

#include "../base/error_of.h"
#include "../base/scratch_folder.h"
#include "exec/sodium.h"

namespace kilter {
namespace {

using ::testing::HasSubstr;

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

class SignatureTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string error = error_of([] { (void)sodium(); }); error != "no error") GTEST_SKIP() << error;
    owner_ = write_keys(secret_, public_);
  }
  const ScratchFolder folder_;
  const std::filesystem::path secret_ = folder_.path() / "team.secret", public_ = folder_.path() / "team.public";
  PublicKey owner_;
};

TEST_F(SignatureTest, KeysRoundTrip) {
  EXPECT_EQ(read_public_key(public_), owner_);
  EXPECT_EQ(read_secret_key(secret_).owner(), owner_);
  EXPECT_EQ(owner_.fingerprint(), sha256(std::as_bytes(std::span(owner_.bytes))).substr(0, 16));
}

TEST_F(SignatureTest, VerifiesOnlySameBytesKeyAndSignature) {
  const SecretKey key = read_secret_key(secret_);
  Signature signature = sign(bytes_of("some bytes"), key);
  EXPECT_TRUE(has_signed(owner_, bytes_of("some bytes"), signature));
  EXPECT_FALSE(has_signed(owner_, bytes_of("some byte"), signature));
  EXPECT_FALSE(has_signed(owner_, {}, signature));
  const PublicKey other = write_keys(folder_.path() / "other.secret", folder_.path() / "other.public");
  EXPECT_FALSE(has_signed(other, bytes_of("some bytes"), signature));
  for (unsigned char& byte : signature) {
    byte ^= 1;
    EXPECT_FALSE(has_signed(owner_, bytes_of("some bytes"), signature));
    byte ^= 1;
  }
  EXPECT_TRUE(has_signed(owner_, {}, sign({}, key)));
}

TEST_F(SignatureTest, OtherFilesAreRefused) {
  const std::string gone = (folder_.path() / "gone.secret").string();
  EXPECT_EQ(
      error_of([&] { read_secret_key(gone); }, ErrorKind::io),
      gone + ": there is no such file; expected a secret key, the file NAME.secret of `kilter sign --new-keys NAME`");
  EXPECT_EQ(error_of([&] { read_secret_key(public_); }, ErrorKind::bad_input),
            public_.string() +
                ": not a file that starts with 'kilter secret key 1': it is a public key; expected a "
                "secret key, the file NAME.secret of `kilter sign --new-keys NAME`");
  EXPECT_THAT(error_of([&] { read_public_key(secret_); }, ErrorKind::bad_input), HasSubstr(": it is a secret key; "));
  write_file_atomically(public_, "kilter public key 1\n0123\n");
  EXPECT_EQ(error_of([&] { read_public_key(public_); }, ErrorKind::bad_input),
            public_.string() + ": line 2: expected 64 digits of 0 to 9 and a to f; copy the file again");
}

}  // namespace
}  // namespace kilter
