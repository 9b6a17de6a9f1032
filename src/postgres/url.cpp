#include "postgres/url.h"

#include <charconv>
#include <vector>

#include "base/text.h"

namespace kilter::postgres {
namespace {

/// Decodes %XX; anything malformed stays as it is.
std::string decoded(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    unsigned code = 0;
    const char* const digits = text.data() + i + 1;
    if (text[i] == '%' && i + 2 < text.size() && std::from_chars(digits, digits + 2, code, 16).ptr == digits + 2) {
      out += static_cast<char>(code);
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

/// A URL, divided into what may be shown and the passwords, which are listed both as written and decoded.
struct Parts {
  std::string shown;
  std::vector<std::string> passwords;
};

/// Returns the number of bytes of `rest` (a URL after its scheme) that name the user, or 0 if there is none. Passwords
/// that contain unencoded @ or / are counted, although libpq refuses them or takes them for a host.
size_t user_bytes(std::string_view rest) {
  const size_t at = rest.find('@'), slash = rest.find('/');
  const size_t query = rest.find('?');
  if (at == std::string_view::npos) return 0;
  if (at < slash) return rest.substr(0, rest.find_first_of("/?", at)).rfind('@') + 1;
  const size_t last = rest.substr(0, query).rfind('@');
  return last == std::string_view::npos ? 0 : last + 1;
}

Parts parts_of(std::string_view url) {
  Parts out;
  const auto secret = [&](std::string_view text) {
    for (const std::string& form : {std::string(text), decoded(text)})
      if (!form.empty()) out.passwords.push_back(form);
  };
  const size_t scheme = url.find("://") + 3;
  out.shown = url.substr(0, scheme);
  std::string_view rest = url.substr(scheme);
  if (const size_t bytes = user_bytes(rest); bytes > 0) {
    const std::string_view user = rest.substr(0, bytes - 1);
    const size_t colon = user.find(':');
    if (colon != std::string_view::npos) secret(user.substr(colon + 1));
    out.shown += std::string(user.substr(0, colon)) + "@";
    rest.remove_prefix(bytes);
  }
  const size_t query = rest.find('?');
  out.shown += rest.substr(0, query);
  if (query == std::string_view::npos) return out;
  char before = '?';
  for (const std::string_view pair : split(rest.substr(query + 1), '&')) {
    const size_t equals = pair.find('=');
    const std::string key = decoded(pair.substr(0, equals));
    if (key.find("pass") != std::string::npos && key != "passfile") {
      if (equals != std::string_view::npos) secret(pair.substr(equals + 1));
      continue;
    }
    out.shown += before;
    out.shown += pair;
    before = '&';
  }
  return out;
}

void replace_all(std::string& text, std::string_view what, std::string_view with) {
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + with.size()))
    text.replace(at, what.size(), with);
}

}  // namespace

bool is_url(std::string_view text) { return text.starts_with("postgresql://") || text.starts_with("postgres://"); }

std::string shown_url(std::string_view url) { return parts_of(url).shown; }

std::string without_passwords(std::string text, const std::string& url) {
  const Parts parts = parts_of(url);
  replace_all(text, url, parts.shown);
  for (const std::string& password : parts.passwords) replace_all(text, password, "***");
  std::string line;
  for (const std::string_view part : split(text, '\n')) {
    if (trim(part).empty()) continue;
    line += (line.empty() ? "" : "; ") + std::string(trim(part));
  }
  return line;
}

}  // namespace kilter::postgres
