// Counters of one model, and their text for Prometheus.

#include "metrics.h"

namespace serve {
namespace {

using Models = std::vector<std::pair<std::string, const Metrics*>>;

/// The value of a label, with the escapes of the text format.
std::string label(const std::string& name) {
  std::string out;
  for (const char c : name) {
    if (c == '\\' || c == '"') out += '\\';
    if (c == '\n') {
      out += "\\n";
    } else {
      out += c;
    }
  }
  return "model=\"" + out + "\"";
}

void head(std::string& out, const std::string& name, const char* type, const char* help) {
  out += "# HELP " + name + " " + help + "\n# TYPE " + name + " " + type + "\n";
}

void line(std::string& out, const std::string& name, const std::string& labels, const std::string& value) {
  out += name + "{" + labels + "} " + value + "\n";
}

std::string seconds(int64_t nanoseconds) { return std::to_string(static_cast<double>(nanoseconds) * 1e-9); }

}  // namespace

void Metrics::ran(int64_t rows, int64_t nanoseconds) {
  for (size_t i = 0; i < kBounds.size(); ++i) {
    if (rows <= kBounds[i]) ++at_most_[i];
  }
  ++runs_;
  rows_ += rows;
  compute_ns_ += nanoseconds;
}

void Metrics::append(std::string& out, const Models& models) {
  const auto each = [&](const std::string& name, const char* type, const char* help, auto&& lines) {
    head(out, name, type, help);
    for (const auto& [model, metrics] : models) lines(name, label(model), *metrics);
  };
  each("kilter_requests_total", "counter", "Inference requests that were answered, by outcome.",
       [&](const std::string& name, const std::string& model, const Metrics& m) {
         line(out, name, model + ",outcome=\"ok\"", std::to_string(m.answered_));
         line(out, name, model + ",outcome=\"refused\"", std::to_string(m.refused_));
         line(out, name, model + ",outcome=\"failed\"", std::to_string(m.failed_));
       });
  each("kilter_queue_requests", "gauge", "Requests that wait for a run.",
       [&](const std::string& name, const std::string& model, const Metrics& m) {
         line(out, name, model, std::to_string(m.queued_));
       });
  each("kilter_queue_seconds_total", "counter", "Time that requests waited for a run.",
       [&](const std::string& name, const std::string& model, const Metrics& m) {
         line(out, name, model, seconds(m.queue_ns_));
       });
  each("kilter_compute_seconds_total", "counter", "Time of the runs.",
       [&](const std::string& name, const std::string& model, const Metrics& m) {
         line(out, name, model, seconds(m.compute_ns_));
       });
  each("kilter_batch_rows", "histogram", "Rows of a run, without padding.",
       [&](const std::string& name, const std::string& model, const Metrics& m) {
         for (size_t i = 0; i < kBounds.size(); ++i)
           line(out, name + "_bucket", model + ",le=\"" + std::to_string(kBounds[i]) + "\"",
                std::to_string(m.at_most_[i]));
         line(out, name + "_bucket", model + ",le=\"+Inf\"", std::to_string(m.runs_));
         line(out, name + "_sum", model, std::to_string(m.rows_));
         line(out, name + "_count", model, std::to_string(m.runs_));
       });
}

}  // namespace serve
