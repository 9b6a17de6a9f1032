// Names of a network and its tensors as identifiers of C.
#pragma once

#include <set>
#include <string>
#include <string_view>

namespace kilter::aot {

/// Returns whether a text is an identifier of both C and C++ that programs may use: up to 100 letters, digits and '_',
/// not a keyword and not reserved.
bool is_identifier(std::string_view text);
/// Returns whether a library cannot have this prefix, because of the C library or the runtime part.
bool is_taken(std::string_view prefix);
std::string upper(std::string_view text);
/// Returns the identifier that is most like `name`. Other characters become '_', and names that C headers may define
/// get "_value". A name whose capitals are already in `taken` gets _2, _3, ...; the result is added to `taken` in
/// capitals, so that no two differ only in case.
std::string identifier(std::string_view name, std::set<std::string>& taken);
/// Returns a text as a string literal of C, with the quotes.
std::string literal(std::string_view text);
/// Returns a text for a comment of C. It cannot end the comment and has one line.
std::string comment(std::string_view text);

}  // namespace kilter::aot
