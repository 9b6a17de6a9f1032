// The protocol between the tuner and its worker: requests and replies over a packet socket, between two programs of one
// build on one machine. Large data are in shared memory: constants and variants in the store, times and traced values
// in the log.
#pragma once

#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "base/error.h"

namespace kilter::tune {

/// Must change with every change of the protocol.
constexpr uint32_t kProtocol = 4;
/// A worker's descriptors at start: the socket, the store (for reading), the log.
constexpr int kSocketFd = 3, kStoreFd = 4, kLogFd = 5;
/// Address space for the log; the board is its first page.
constexpr int64_t kLogReserve = int64_t{4} << 30;
constexpr int64_t kLogStart = 4096;

template <class T>
concept Plain = std::is_trivially_copyable_v<T> && !std::is_pointer_v<T>;

/// Appends values one after another.
class Pack {
 public:
  template <Plain T>
  Pack& put(const T& value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(T));
    return *this;
  }
  Pack& put(std::string_view text) {
    put(static_cast<uint64_t>(text.size()));
    bytes_.append(text);
    return *this;
  }
  template <Plain T>
  Pack& put(const std::vector<T>& values) {
    put(static_cast<uint64_t>(values.size()));
    bytes_.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

/// Reads values in the order of packing. Throws internal if there are too few bytes.
class Unpack {
 public:
  explicit Unpack(std::span<const std::byte> bytes) : bytes_(bytes) {}
  explicit Unpack(std::string_view bytes) : Unpack(std::as_bytes(std::span(bytes.data(), bytes.size()))) {}

  template <Plain T>
  T get() {
    T value{};
    std::memcpy(static_cast<void*>(&value), take(sizeof(T)).data(), sizeof(T));
    return value;
  }
  std::string_view text() {
    const auto bytes = block();
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  template <Plain T>
  std::vector<T> list() {
    const auto count = get<uint64_t>();
    require(count <= bytes_.size() / sizeof(T), "a message of the worker is cut off");
    std::vector<T> values(count);
    const auto from = take(count * sizeof(T));
    if (count > 0) std::memcpy(static_cast<void*>(values.data()), from.data(), from.size());
    return values;
  }
  /// Reads the bytes that put(string_view) wrote.
  std::span<const std::byte> block() { return take(get<uint64_t>()); }

 private:
  std::span<const std::byte> take(uint64_t count) {
    require(count <= bytes_.size(), "a message of the worker is cut off");
    const auto out = bytes_.first(count);
    bytes_ = bytes_.subspan(count);
    return out;
  }
  std::span<const std::byte> bytes_;
};

enum class Request : uint32_t { start, load, drop, measure, trace };
enum class Answer : uint32_t {
  done,
  refused,    ///< an error text follows
  no_memory,  ///< an error text follows; there was not enough memory
};

/// The worker's current activity, published so that the tuner knows what a worker was doing when it died.
enum class Phase : uint32_t { idle, starting, loading, checking, comparing, warming, measuring };

/// Filled in by the worker's signal handler.
struct Crash {
  uint32_t set = 0;
  int32_t signal = 0;
  int32_t thread = -1;   ///< number of the thread in the pool; -1: not a thread of the pool
  uint64_t address = 0;  ///< for SIGSYS, the number of the system call
  int32_t region = -1;   ///< nearest of the marked regions, as a Region; -1: none is near
  int64_t distance = 0;  ///< bytes before its start (negative) or after its end
  uint32_t inside = 0;   ///< 1: the address is in the region, which is write-protected
  uint32_t stack = 0;    ///< 1: the address is where the stack would have grown
};

/// Updated by the worker; the tuner may read it at any time.
struct Board {
  std::atomic<uint64_t> beat;  ///< grows with every step and phase
  std::atomic<Phase> phase;
  std::atomic<int64_t> variant, step;  ///< -1: none
  std::atomic<int64_t> log_bytes;      ///< of complete records, or of all traced values
  Crash crash;
};
static_assert(sizeof(Board) <= kLogStart && std::atomic<uint64_t>::is_always_lock_free);

enum class Check : uint32_t {
  none,     ///< do not check: the variant was checked before
  trust,    ///< keep the values as the correct ones
  compare,  ///< compare with the trusted variant's values
  careful,  ///< compare, and also find steps that change memory other than their own buffers
};

/// A step of a run in the log.
struct StepTimes {
  double step_ms = 0, gap_ms = 0;  ///< step_ms: from fork to join; gap_ms: before the step
  double width_ns = 0;             ///< time of WidthProbe's block, before or after the step, whichever is longer
};

/// A run in the log, followed by one StepTimes for each of its steps.
struct LapHeader {
  int64_t variant = 0;
  int64_t steps = 0;
  int64_t round = 0, order = 0;  ///< order: number among all counted runs of the request
  double total_ms = 0;
  double wall_ms = 0, steal_ms = 0, wait_ms = 0;  ///< of the turn that the run belongs to
  int64_t switches = 0;
  double drift = 0;
  uint32_t stolen = 0, waited = 0, switched = 0, drifted = 0;
};

/// The parameters of a request to measure.
struct RoundsRequest {
  int64_t first_round = 0, rounds = 0, first_order = 0;
  double max_ms = 0;
  double cut_off = 0;  ///< 0: none
  double slice_ms = 0;
  int64_t runs = 1;
  int32_t warm = 0;  ///< WarmUp
  uint64_t seed = 0;
  int64_t log_bytes = 0;  ///< after the first round, no round begins that may make the log larger than this
};

/// Largest packet.
constexpr size_t kPacketBytes = size_t{160} << 10;

/// Sends one packet. Returns false if the other end is gone.
bool send_packet(int socket, std::string_view bytes);
/// Waits up to `timeout_ms` (negative: forever) for a packet. Returns its bytes, "" at the end of the connection, or
/// nothing when the time is up.
std::optional<std::string> receive_packet(int socket, int timeout_ms);

}  // namespace kilter::tune
