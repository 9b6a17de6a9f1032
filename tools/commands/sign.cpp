// kilter sign: makes keys, and signs compiled files.

#include <nlohmann/json.hpp>
#include <optional>

#include "base/files.h"
#include "exec/signature.h"
#include "terminal.h"
#include "tool.h"
#include "vm/compiled_file.h"

namespace kilter::tool {
namespace {

struct SignOptions {
  std::vector<std::string> files;
  std::string key, new_keys, json;
};

void sign(const SignOptions& options) {
  if (options.new_keys.empty() == options.files.empty())
    fail(ErrorKind::usage, "sign: give the files to sign and --key, or --new-keys NAME");
  if (!options.files.empty() && options.key.empty())
    fail(ErrorKind::usage, "sign: --key FILE is missing: the secret key that `kilter sign --new-keys NAME` makes");
  check_writable("--json", options.json);
  nlohmann::json out{{"files", nlohmann::json::array()}};
  if (!options.new_keys.empty()) {
    const std::string secret = options.new_keys + ".secret", open = options.new_keys + ".public";
    const std::string fingerprint = write_keys(secret, open).fingerprint();
    out = {{"files", {secret, open}}, {"fingerprint", fingerprint}};
    if (options.json != "-")
      confirm("{}: the secret key; {}: the public key; fingerprint {}\n", secret, open, fingerprint);
  }
  const std::optional<SecretKey> key =
      options.files.empty() ? std::nullopt : std::optional(read_secret_key(options.key));
  for (const std::string& file : options.files) {
    static_cast<void>(MappedFile::open(file));  // says why, if it cannot be read
    if (!vm::is_compiled_file(file))
      fail(ErrorKind::usage, "{} is not a compiled file; `kilter compile` writes one", file);
    const std::string signature = sign_file(file, *key).string();
    out["files"].push_back(signature);
    if (options.json != "-") confirm("{}: the signature of {}\n", signature, file);
  }
  if (!options.json.empty()) write_json(options.json, out);
}

}  // namespace

void add_sign(Command app, Context&) {
  auto options = std::make_shared<SignOptions>();
  Command sub =
      app.subcommand("sign", "Make keys, and sign compiled files, so that others can check where they come from");
  sub.group("Run and deploy");
  sub.option("FILE", options->files, "compiled files; the signature of each is written to FILE.sig").file();
  sub.option("--key", options->key, "the secret key").file();
  sub.option("--new-keys", options->new_keys, "make a pair of keys: NAME.secret and NAME.public").value("NAME");
  sub.heading("Output");
  sub.json(options->json, "the names of the files that were written, and the fingerprint of new keys");
  sub.footer(
      "`--signed-by NAME.public` makes the commands that run a compiled file check its signature. `kilter tune "
      "--sign-key NAME.secret` signs what agents of a fleet run.");
  sub.example("kilter sign --new-keys release", "Make a pair of keys");
  sub.example("kilter sign resnet18.kilter --key release.secret", "Write the signature resnet18.kilter.sig");
  sub.example("kilter run resnet18.kilter --signed-by release.public", "Run it only if its signature is right");
  sub.callback([=] { sign(*options); });
}

}  // namespace kilter::tool
