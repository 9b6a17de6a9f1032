// A network that delays, cuts and drops data.
#pragma once

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <random>
#include <thread>

namespace kilter::fleet {

/// Returns a socket of this machine that listens on `port` (0: any that is free), and sets `port`.
inline int listen_on(int& port) {
  const int made = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  setsockopt(made, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in at{};
  at.sin_family = AF_INET, at.sin_port = htons(static_cast<uint16_t>(port)),
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof at;
  if (bind(made, reinterpret_cast<sockaddr*>(&at), size) != 0 || listen(made, 100) != 0) return -1;
  getsockname(made, reinterpret_cast<sockaddr*>(&at), &size);
  port = ntohs(at.sin_port);
  return made;
}

/// Copies from one socket to the other until one of them ends. Of a thousand chunks, 30 arrive up to 0.3 s late, 4 cut
/// the connection half-way, and after one of them, nothing more arrives although both sides stay connected.
inline void carry(int from, int to, uint32_t seed) {
  std::mt19937 random(seed);
  std::array<char, 2048> chunk{};
  bool swallow = false;
  for (ssize_t got = 0; (got = recv(from, chunk.data(), chunk.size(), 0)) > 0;) {
    const auto luck = random() % 1000;
    if (luck < 30) std::this_thread::sleep_for(std::chrono::milliseconds(random() % 300));
    if (luck == 40) swallow = true;
    if (swallow) continue;
    const bool cut = luck >= 50 && luck < 54;
    if (send(to, chunk.data(), static_cast<size_t>(cut ? got / 2 : got), MSG_NOSIGNAL) < 0 || cut) break;
  }
  shutdown(from, SHUT_RDWR), shutdown(to, SHUT_RDWR);
}

/// Forwards connections to `port` to another port of this machine, as long as the process runs.
[[noreturn]] inline void be_bad_network(int listening, int port, uint32_t seed) {
  for (uint32_t n = 0;; n += 2) {
    const int client = accept(listening, nullptr, nullptr);
    const int server = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in at{};
    at.sin_family = AF_INET, at.sin_port = htons(static_cast<uint16_t>(port)),
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(server, reinterpret_cast<sockaddr*>(&at), sizeof at) != 0) {
      close(client), close(server);
      continue;
    }
    const auto ends = std::make_shared<std::atomic<int>>(2);
    const auto side = [=](int from, int to, uint32_t s) {
      carry(from, to, s);
      if (--*ends == 0) close(client), close(server);
    };
    std::thread(side, client, server, seed + n).detach();
    std::thread(side, server, client, seed + n + 1).detach();
  }
}

}  // namespace kilter::fleet
