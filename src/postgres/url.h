// URLs of PostgreSQL servers. A URL may contain passwords, so only shown_url() of it may be printed or stored.
#pragma once

#include <string>
#include <string_view>

namespace kilter::postgres {

/// Returns whether the text begins with postgresql:// or postgres://.
bool is_url(std::string_view text);
/// Returns the URL without its passwords. From a malformed URL, everything that may be part of a password is left out.
std::string shown_url(std::string_view url);
/// Returns a message of the client library on one line, without the passwords of the URL.
std::string without_passwords(std::string text, const std::string& url);

}  // namespace kilter::postgres
