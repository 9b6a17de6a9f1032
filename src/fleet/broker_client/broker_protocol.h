// What agents and brokers send each other: over HTTP, with a message as the body of requests and answers.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace kilter::fleet {

/// Must change if the meaning of a request or an answer changes.
constexpr int kBrokerProtocol = 1;
/// A header of requests.
constexpr const char* kProtocolHeader = "kilter-protocol";
/// Where a broker has what agents ask for; a blob is at kBlobs and its hash.
constexpr const char *kCalls = "/v1/", *kBlobs = "/v1/blobs/";

/// Statuses of answers. Any other one is a broker's fault.
constexpr int kDone = 200;
constexpr int kBadRequest = 400;
constexpr int kUnknownToken = 401;
constexpr int kForbidden = 403;     ///< the token is for other agents
constexpr int kNothingThere = 404;  ///< also a blob that is gone
constexpr int kRefused = 409;       ///< the queue's rules do not allow it
constexpr int kOtherProtocol = 426;
constexpr int kNoDatabase = 503;  ///< try again

/// A JSON object, and bytes that it speaks of. Sent as the object in one line, which has the sizes of the blocks, and
/// the blocks.
struct Message {
  nlohmann::json head = nlohmann::json::object();
  std::vector<std::string> blocks = {};
};
std::string pack(const Message& message);
/// Throws bad_input for bytes that are no message.
Message unpack_message(std::string_view bytes);

/// Fields of a head. Throw bad_input, naming the field, if it is missing or of another type.
std::string text_field(const nlohmann::json& head, const char* name);
int64_t int_field(const nlohmann::json& head, const char* name);
double number_field(const nlohmann::json& head, const char* name);
bool flag_field(const nlohmann::json& head, const char* name);

}  // namespace kilter::fleet
