#include "profile/shown.h"

#include "base/text.h"

namespace kilter::profile {
namespace {

void clean(std::string& text) { text = printable(text); }

void clean(std::vector<std::string>& lines) {
  for (std::string& line : lines) clean(line);
}

}  // namespace

Profile shown(Profile profile) {
  clean(profile.model);
  clean(profile.conditions.records);
  for (Row& row : profile.rows) {
    for (std::string* text : {&row.name, &row.ops, &row.problem, &row.schedule, &row.shapes, &row.layouts, &row.record})
      clean(*text);
    clean(row.reads_inputs);
  }
  for (ArenaSpan& span : profile.arena) clean(span.name);
  if (profile.tuning) {
    clean(profile.tuning->summary);
    clean(profile.tuning->lines);
    clean(profile.tuning->action);
  }
  return profile;
}

Explanation shown(Explanation explanation) {
  explanation.profile = shown(std::move(explanation.profile));
  clean(explanation.summary);
  for (Finding& finding : explanation.findings) {
    for (std::string* text : {&finding.name, &finding.evidence, &finding.advice, &finding.action}) clean(*text);
  }
  for (LayerView& layer : explanation.layers) {
    for (auto& [name, evidence] : layer.causes) clean(evidence);
  }
  return explanation;
}

Side shown(Side side) {
  clean(side.label);
  for (LayerTime& layer : side.layers) {
    clean(layer.name);
    clean(layer.detail);
  }
  return side;
}

}  // namespace kilter::profile
