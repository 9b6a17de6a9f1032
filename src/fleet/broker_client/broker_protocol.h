// What agents and brokers send each other: over HTTP, with a message as the body of each request and response.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace kilter::fleet {

/// Must change if the meaning of a request or a response changes.
constexpr int kBrokerProtocol = 1;
/// A header of requests.
constexpr const char* kProtocolHeader = "kilter-protocol";
/// Paths of the broker's calls; a blob is at kBlobs followed by its hash.
constexpr const char *kCalls = "/v1/", *kBlobs = "/v1/blobs/";

/// Status codes of responses. Any other one is a fault of the broker.
constexpr int kDone = 200;
constexpr int kBadRequest = 400;
constexpr int kUnknownToken = 401;
constexpr int kForbidden = 403;     ///< the token is for other agents
constexpr int kNothingThere = 404;  ///< also a blob that is gone
constexpr int kRefused = 409;       ///< the queue's rules do not allow it
constexpr int kOtherProtocol = 426;
constexpr int kNoDatabase = 503;  ///< try again

/// A JSON object and blocks of bytes that it refers to. Sent as one line with the object, which has the sizes of the
/// blocks, followed by the blocks.
struct Message {
  nlohmann::json head = nlohmann::json::object();
  std::vector<std::string> blocks = {};
};
std::string pack(const Message& message);
/// Throws bad_input for bytes that are not a message.
Message unpack_message(std::string_view bytes);

/// Return fields of a head. Throw bad_input, naming the field, if it is missing or has another type.
std::string text_field(const nlohmann::json& head, const char* name);
int64_t int_field(const nlohmann::json& head, const char* name);
double number_field(const nlohmann::json& head, const char* name);
bool flag_field(const nlohmann::json& head, const char* name);

}  // namespace kilter::fleet
