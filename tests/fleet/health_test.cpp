// What an agent measures about its machine.
#include "fleet/agent/health.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "../base/scratch_folder.h"
#include "base/json_text.h"

namespace kilter::fleet {
namespace {

void write(const std::filesystem::path& file, const char* text) {
  std::filesystem::create_directories(file.parent_path());
  std::ofstream(file) << text;
}

TEST(Health, IsReadFromTheSystem) {
  const ScratchFolder folder;
  const std::string root = folder.path().string() + "/";
  write(root + "proc/loadavg", "1.25 0.5 0.1 2/345 678\n");
  write(root + "sys/class/thermal/thermal_zone0/temp", "45000\n");
  write(root + "sys/class/thermal/thermal_zone7/temp", "71500\n");
  write(root + "sys/class/thermal/cooling_device0/temp", "99000\n");
  write(root + "sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count", "3\n");
  write(root + "sys/devices/system/cpu/cpu1/thermal_throttle/core_throttle_count", "12\n");
  Health health(root);
  EXPECT_EQ(health.text(), "{}");
  health.measure();
  nlohmann::json state = try_parse_json(health.text());
  EXPECT_GT(state.at("reference").get<double>(), 0.1);
  EXPECT_EQ(state.at("load"), 1.25);
  EXPECT_EQ(state.at("temperature"), 71.5);
  EXPECT_EQ(state.at("throttled"), 12);
  EXPECT_FALSE(state.contains("drift"));
  const std::string first = health.text();
  health.measure();
  EXPECT_EQ(health.text(), first) << "it is too early";
  health.measure(0);
  state = try_parse_json(health.text());
  EXPECT_GT(state.at("drift").get<double>(), 0.01);
}

TEST(Health, UnavailableValuesAreOmitted) {
  const ScratchFolder folder;
  Health health(folder.path().string() + "/");
  health.measure();
  const nlohmann::json state = try_parse_json(health.text());
  EXPECT_EQ(state.size(), 1) << state;
  EXPECT_TRUE(state.contains("reference"));
}

}  // namespace
}  // namespace kilter::fleet
