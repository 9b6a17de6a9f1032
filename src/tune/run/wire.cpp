#include "tune/run/wire.h"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>

namespace kilter::tune {
namespace {

using Clock = std::chrono::steady_clock;

/// Waits until something can be read. Returns false if the timeout expires first.
bool wait_readable(int socket, int timeout_ms) {
  const auto end = Clock::now() + std::chrono::milliseconds(timeout_ms);
  for (;;) {
    int left = -1;
    if (timeout_ms >= 0) {
      const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
      left = static_cast<int>(std::max<int64_t>(ms, 0));
    }
    pollfd waits{socket, POLLIN, 0};
    const int ready = poll(&waits, 1, left);
    if (ready > 0) return true;
    if (ready == 0) return false;
    if (errno != EINTR) return true;  // reading reports the error
  }
}

}  // namespace

bool send_packet(int socket, std::string_view bytes) {
  require(bytes.size() <= kPacketBytes, "a message of {} bytes to the worker; expected at most {}", bytes.size(),
          kPacketBytes);
  for (;;) {
    const ssize_t sent = send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent >= 0) return true;
    if (errno != EINTR) return false;
  }
}

std::optional<std::string> receive_packet(int socket, int timeout_ms) {
  if (!wait_readable(socket, timeout_ms)) return std::nullopt;
  std::string bytes(kPacketBytes, '\0');
  for (;;) {
    const ssize_t got = recv(socket, bytes.data(), bytes.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    bytes.resize(got > 0 ? static_cast<size_t>(got) : 0);
    return bytes;
  }
}

}  // namespace kilter::tune
