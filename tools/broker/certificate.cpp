#include "broker/certificate.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "base/error.h"

namespace kilter {
namespace {

template <auto free>
struct Free {
  template <class T>
  void operator()(T* value) const {
    free(value);
  }
};
using Key = std::unique_ptr<EVP_PKEY, Free<EVP_PKEY_free>>;
using Certificate = std::unique_ptr<X509, Free<X509_free>>;

void expect(bool done) { require(done, "OpenSSL cannot create a certificate"); }

void add_extension(X509& certificate, int what, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, &certificate, &certificate, nullptr, nullptr, 0);
  const std::unique_ptr<X509_EXTENSION, Free<X509_EXTENSION_free>> made(
      X509V3_EXT_conf_nid(nullptr, &context, what, value.c_str()));
  expect(made != nullptr && X509_add_ext(&certificate, made.get(), -1) == 1);
}

std::string names_of(const std::vector<std::string>& hosts) {
  std::string names;
  for (const std::string& host : hosts) {
    in6_addr address{};
    const bool ip = inet_pton(AF_INET, host.c_str(), &address) == 1 || inet_pton(AF_INET6, host.c_str(), &address) == 1;
    if (host.empty() || host.find_first_of(", :;\n") != std::string::npos)
      if (!ip) fail(ErrorKind::usage, "'{}' is neither a host name nor an IP address", host);
    names += fmt::format("{}{}:{}", names.empty() ? "" : ",", ip ? "IP" : "DNS", host);
  }
  return names;
}

template <class Write>
void write_new(const std::filesystem::path& file, mode_t mode, Write write) {
  const int made = open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
  const int error = errno;
  FILE* const to = made < 0 ? nullptr : fdopen(made, "w");
  if (to == nullptr) fail(ErrorKind::io, "'{}' cannot be created: {}", file.string(), std::strerror(error));
  const bool written = write(to) == 1;
  if (fclose(to) != 0 || !written) fail(ErrorKind::io, "'{}' cannot be written", file.string());
}

}  // namespace

void write_certificate(const std::vector<std::string>& hosts, const std::filesystem::path& certificate,
                       const std::filesystem::path& key) {
  constexpr long kDays = 3650;
  const std::string names = names_of(hosts);
  const Key pair(EVP_EC_gen("P-256"));
  const Certificate made(X509_new());
  expect(pair && made);
  uint64_t serial = 0;
  expect(RAND_bytes(reinterpret_cast<unsigned char*>(&serial), sizeof serial) == 1);
  expect(X509_set_version(made.get(), 2) == 1);
  expect(ASN1_INTEGER_set_uint64(X509_get_serialNumber(made.get()), serial >> 1) == 1);
  expect(X509_gmtime_adj(X509_getm_notBefore(made.get()), -86400) != nullptr);  // clocks of boards may be behind
  expect(X509_time_adj_ex(X509_getm_notAfter(made.get()), kDays, 0, nullptr) != nullptr);
  expect(X509_set_pubkey(made.get(), pair.get()) == 1);
  X509_NAME* const subject = X509_get_subject_name(made.get());
  expect(X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8,
                                    reinterpret_cast<const unsigned char*>(hosts.front().c_str()), -1, -1, 0) == 1);
  expect(X509_set_issuer_name(made.get(), subject) == 1);
  add_extension(*made, NID_subject_alt_name, names);
  add_extension(*made, NID_basic_constraints, "critical,CA:TRUE");
  add_extension(*made, NID_subject_key_identifier, "hash");
  expect(X509_sign(made.get(), pair.get(), EVP_sha256()) > 0);
  write_new(key, 0600,
            [&](FILE* to) { return PEM_write_PrivateKey(to, pair.get(), nullptr, nullptr, 0, nullptr, nullptr); });
  write_new(certificate, 0644, [&](FILE* to) { return PEM_write_X509(to, made.get()); });
}

}  // namespace kilter
