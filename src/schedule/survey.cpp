#include "schedule/survey.h"

#include <algorithm>

namespace kilter {
namespace {

/// The reason why choose() rejected a template; null if it did not.
const Rejected* known_rejection(const Chosen& chosen, std::string_view name) {
  const auto is = [&](const auto& r) { return r.first == name; };
  const auto it = std::find_if(chosen.rejected.begin(), chosen.rejected.end(), is);
  return it == chosen.rejected.end() ? nullptr : &it->second;
}

/// The view of a template that picked a schedule for the task or rejected the task.
TemplateView view_of(const Template& t, const Result<Schedule>& picked, const Chosen& chosen, Accuracy accuracy) {
  TemplateView view;
  view.from = &t;
  if (chosen.schedule.name == t.name) {
    view.standing = TemplateView::chosen;
    view.fallback = chosen.schedule;
  } else if (!picked) {
    view.why = picked.rejected();
  } else if (t.approximates != nullptr && accuracy == Accuracy::strict) {
    view.standing = TemplateView::barred;
    view.why = Rejected{"accuracy", "default", "strict"};
    view.fallback = *picked;
  } else if (const Rejected* known = known_rejection(chosen, t.name)) {
    view.why = *known;
    if (known->check == kForbid) view.standing = TemplateView::forbidden, view.fallback = *picked;
    if (known->check == kWeightBytes) view.standing = TemplateView::given_up, view.fallback = *picked;
  } else {
    view.standing = TemplateView::behind;
    view.fallback = *picked;
  }
  return view;
}

}  // namespace

std::string_view name(TemplateView::Standing standing) {
  switch (standing) {
    case TemplateView::chosen:
      return "chosen";
    case TemplateView::preferred:
      return "preferred";
    case TemplateView::behind:
      return "behind";
    case TemplateView::barred:
      return "barred";
    case TemplateView::forbidden:
      return "forbidden";
    case TemplateView::given_up:
      return "given_up";
    case TemplateView::rejected:
      break;
  }
  return "rejected";
}

std::vector<TemplateView> survey(const Task& task, const CpuLimits& limits, const Chosen& chosen, Accuracy accuracy,
                                 size_t most) {
  std::vector<TemplateView> views;
  bool taken = false;  // whether an earlier template would be the default
  for (const Template* t : all_templates()) {
    const auto analysed = t->analyse(task, limits);
    const Result<Schedule> picked = analysed ? (*analysed)->pick() : analysed.rejected();
    TemplateView view = view_of(*t, picked, chosen, accuracy);
    if (view.standing == TemplateView::behind && !taken) view.standing = TemplateView::preferred;
    taken = taken || view.standing == TemplateView::preferred || (view.standing == TemplateView::chosen && picked);
    if (analysed) view.ranked = rank(**analysed, most);
    views.push_back(std::move(view));
  }
  return views;
}

const TemplateView* chosen_of(const std::vector<TemplateView>& views) {
  const auto it = std::find_if(views.begin(), views.end(),
                               [](const TemplateView& v) { return v.standing == TemplateView::chosen; });
  return it == views.end() ? nullptr : &*it;
}

std::vector<Ranked> rivals(const std::vector<TemplateView>& views, const Schedule& taken) {
  std::vector<Ranked> first, rest;
  std::vector<const TemplateView*> order;
  if (const TemplateView* own = chosen_of(views)) order.push_back(own);
  for (const TemplateView& v : views) {
    const bool allowed = v.standing != TemplateView::barred && v.standing != TemplateView::forbidden;
    if (v.standing != TemplateView::chosen && allowed) order.push_back(&v);
  }
  for (const TemplateView* v : order) {
    bool best = true;
    for (const Ranked& r : v->ranked) {
      if (r.schedule == taken) continue;
      (best ? first : rest).push_back(r);
      best = false;
    }
  }
  std::stable_sort(rest.begin(), rest.end(),
                   [](const Ranked& a, const Ranked& b) { return a.estimate.cycles < b.estimate.cycles; });
  first.insert(first.end(), rest.begin(), rest.end());
  return first;
}

}  // namespace kilter
