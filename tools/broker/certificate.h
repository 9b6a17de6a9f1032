#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace kilter {

/// Writes a new key (mode 600), and a self-signed certificate for it that is valid for ten years for these host names
/// and IP addresses. Throws io if a file exists or cannot be written.
void write_certificate(const std::vector<std::string>& hosts, const std::filesystem::path& certificate,
                       const std::filesystem::path& key);

}  // namespace kilter
