#include "tune/records/import.h"

#include <gmock/gmock.h>
#include <sqlite3.h>

#include <fstream>
#include <map>

#include "../base/scratch_folder.h"
#include "base/files.h"
#include "compile/compile.h"
#include "samples.h"
#include "schedule/problem/problem.h"
#include "tune/records/match.h"
#include "tune/records/scan.h"

namespace kilter::tune {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

const Target& avx512() {
  static const Target target = parse_target("znver4");
  return target;
}

Imported data(const std::string& name) {
  return import_file(std::filesystem::path(KILTER_RECORDS_DATA) / name, avx512());
}

std::vector<Entry> of_target(const Imported& imported, const std::string& target) {
  std::vector<Entry> out;
  for (const Entry& e : imported.entries) {
    if (e.tvm->target.starts_with(target)) out.push_back(e);
  }
  return out;
}

size_t count_of(const std::vector<Entry>& entries, const std::string& algorithm) {
  return static_cast<size_t>(
      std::count_if(entries.begin(), entries.end(), [&](const Entry& e) { return e.tvm->algorithm == algorithm; }));
}

// The two files contain 75 records in all, one file for each version of TVM's format.
TEST(TvmLogs, All75AreFound) {
  const Imported v1 = data("tvm_v01.txt"), v2 = data("tvm_v02.txt");
  EXPECT_THAT(v1.entries, SizeIs(33));
  EXPECT_THAT(v2.entries, SizeIs(42));
  std::set<std::string> distinct;
  std::set<std::pair<std::string, int64_t>> lines;
  for (const Imported* part : {&v1, &v2}) {
    EXPECT_THAT(part->damaged, IsEmpty());
    EXPECT_THAT(part->refused, IsEmpty());
    for (const Entry& e : part->entries) {
      distinct.insert(e.record.id());
      lines.insert({e.record.source, e.line});
      EXPECT_NO_THROW(parse_problem(e.record.problem)) << e.record.problem;
      EXPECT_EQ(e.record.status, Status::ok);
      EXPECT_TRUE(e.record.imported());
    }
  }
  EXPECT_THAT(distinct, SizeIs(64));
  EXPECT_THAT(lines, SizeIs(36));
}

TEST(TvmLogs, Version01IsAPlanForACpuAndTasksForAGpu) {
  const Imported v1 = data("tvm_v01.txt");
  const std::vector<Entry> llvm = of_target(v1, "llvm"), cuda = of_target(v1, "cuda");
  ASSERT_THAT(llvm, SizeIs(21));
  std::vector<size_t> layers;
  for (const PlanTask& task : plan_of(llvm)) layers.push_back(task.layers);
  EXPECT_THAT(layers, ElementsAre(1, 4, 1, 1, 3, 1, 1, 3, 1, 1, 3, 1));
  ASSERT_THAT(cuda, SizeIs(12));
  EXPECT_EQ(plan_of(cuda).size(), 12U);
  EXPECT_EQ(count_of(cuda, "direct"), 8U);
  EXPECT_EQ(count_of(cuda, "winograd"), 4U);
  EXPECT_THAT(summary(v1),
              ElementsAre(HasSubstr("12  tvm v0.1, cuda -model=unknown: 12 problems; 8 direct, 4 winograd"),
                          HasSubstr("21  tvm v0.1, llvm: 12 problems; 21 direct; 21 with a Kilter schedule"),
                          HasSubstr("as a plan: 21 layers over 12 tasks; layers per task: "
                                    "1,4,1,1,3,1,1,3,1,1,3,1")));
}

TEST(TvmLogs, Version02HasThirtyWorkloads) {
  const Imported v2 = data("tvm_v02.txt");
  EXPECT_EQ(count_of(v2.entries, "direct"), 31U);
  EXPECT_EQ(count_of(v2.entries, "winograd"), 11U);
  std::map<std::string, std::map<std::string, double>> best;
  for (const Entry& e : v2.entries) best[e.record.problem][e.tvm->algorithm] = e.record.ms();
  EXPECT_THAT(best, SizeIs(30));
  size_t both = 0, winograd = 0;
  for (const auto& [problem, times] : best) {
    if (times.size() < 2) continue;
    ++both;
    if (times.at("winograd") < times.at("direct")) ++winograd;
  }
  EXPECT_EQ(both, 10U);
  EXPECT_EQ(winograd, 6U);
}

TEST(TvmLogs, HistoryBestOfThe7x7IsTheDirectOne) {
  const std::string problem = "conv2d n1 c3 h608 w608 k16 r7 s7 pad3 f32";
  std::vector<Record> of_problem;
  for (const Record& r : data("tvm_v02.txt").records()) {
    if (r.problem == problem) of_problem.push_back(r);
  }
  ASSERT_THAT(of_problem, SizeIs(4));
  const std::vector<Record> best = history_best(of_problem);
  ASSERT_THAT(best, SizeIs(1));
  EXPECT_THAT(best[0].schedule, HasSubstr("tvm:conv2d_nchw.cuda direct index=45898438 tile_f=-1,1,2,8"));
  EXPECT_NEAR(best[0].ms(), 0.667, 0.0005);
  double worst = 0;
  for (const Record& r : of_problem) worst = std::max(worst, r.ms());
  EXPECT_NEAR(worst, 73.7, 0.05);
}

TEST(TvmLogs, ALineBecomesARecord) {
  const Entry first = of_target(data("tvm_v01.txt"), "llvm").front();
  const Record& r = first.record;
  EXPECT_EQ(r.problem, "conv2d n1 c3 h224 w224 k64 r7 s7 stride2,2 pad3 f32");
  EXPECT_EQ(r.source, "tvm v0.1");
  EXPECT_NEAR(r.ms(), 10.14757672815534, 1e-12);
  EXPECT_EQ(r.conditions.target, "llvm");
  EXPECT_EQ(r.conditions.threads, 0);
  EXPECT_EQ(r.conditions.executor, "tvm");
  EXPECT_EQ(r.conditions.date, "2020-02-11T16:00:58Z");
  EXPECT_EQ(first.line, 3);
  // The record keeps the complete line of the log, as plain JSON.
  EXPECT_THAT(r.foreign, HasSubstr(R"({"i": ["llvm", "topi_x86_conv2d_NCHWc", [["TENSOR", [1, 3, 224, 224])"));
  EXPECT_THAT(r.foreign, HasSubstr(R"([[0.01014757672815534], 0, 2.5155513286590576, 1581436858.4419928], "v": 0.1})"));
  const Entry gpu = data("tvm_v02.txt").entries.front();
  EXPECT_EQ(gpu.record.conditions.device, "cuda -model=unknown");
  EXPECT_EQ(gpu.record.conditions.executor, "tvm 0.7.dev1");
  EXPECT_FALSE(gpu.record.mapped());
  EXPECT_THAT(gpu.notes,
              ElementsAre(HasSubstr("cuda -model=unknown is not a CPU; kept as a record of another device")));
}

TEST(TvmLogs, CpuSchedulesAreTranslated) {
  std::map<std::string, Entry> by_problem;
  for (const Entry& e : of_target(data("tvm_v01.txt"), "llvm")) by_problem.emplace(e.record.problem, e);
  const auto at = [&](const char* problem) { return by_problem.at(problem); };
  EXPECT_EQ(at("conv2d n1 c3 h224 w224 k64 r7 s7 stride2,2 pad3 f32").record.schedule,
            "conv2d_direct vectors=2 rows=1 tile=1 prefetch=0");
  EXPECT_EQ(at("conv2d n1 c64 h56 w56 k64 r3 s3 pad1 f32").record.schedule,
            "conv2d_direct vectors=1 rows=1 tile=2 prefetch=0");
  const Entry point = at("conv2d n1 c64 h56 w56 k64 r1 s1 f32");
  EXPECT_EQ(point.record.schedule, "conv2d_direct vectors=1 rows=1 tile=2 prefetch=0");
  EXPECT_THAT(point.notes,
              ElementsAre(HasSubstr("tile_oh=2 with tile_ow=1: a tile here has several rows only"),
                          HasSubstr("tile_ic=32 has no counterpart: the layout determines the input's block, 16"),
                          HasSubstr("prefetch=0")));
  const Entry deep = at("conv2d n1 c512 h7 w7 k512 r3 s3 pad1 f32");
  EXPECT_EQ(deep.record.schedule, "conv2d_direct vectors=1 rows=1 tile=7 prefetch=0");
  EXPECT_THAT(deep.notes, ElementsAre(HasSubstr("tile_oc=4 is less than one vector (16 channels): using vectors=1"),
                                      HasSubstr("tile_ic=256 has no counterpart"),
                                      HasSubstr("unroll_kw=true has no counterpart: taps are unrolled if"),
                                      HasSubstr("prefetch=0")));
}

// A translated schedule must be one that the template accepts, on narrow and on wide vectors.
TEST(TvmLogs, TranslatedSchedulesCompile) {
  for (const char* name : {"x86-64-v2", "x86-64-v3", "znver4", "neoverse-n1"}) {
    const Target target = parse_target(name);
    const Imported imported = import_text(read_file(std::string(KILTER_RECORDS_DATA) + "/tvm_v01.txt"), "log", target);
    std::map<std::string, std::string> schedules;
    for (const Entry& e : of_target(imported, "llvm")) schedules[e.record.problem] = e.record.schedule;
    EXPECT_THAT(schedules, SizeIs(12));
    for (const auto& [line, schedule] : schedules) {
      const Problem problem = parse_problem(line);
      CompileOptions options;
      options.target = target;
      options.contents.code = false;
      options.choices[problem.anchor].schedule = parse_schedule(schedule);
      const Compiled compiled = compile_graph(problem.graph, options);
      const auto& steps = compiled.plan.steps;
      EXPECT_TRUE(std::any_of(steps.begin(), steps.end(), [&](const Step& s) { return s.schedule == schedule; }))
          << name << ": " << line << ": " << schedule;
    }
  }
}

TEST(TvmLogs, IllegalKnobValuesAreAdjusted) {
  TvmLine line;
  line.target = "llvm -mcpu=core-avx2", line.task = "conv2d_NCHWc.x86", line.algorithm = "direct";
  line.knobs = {{"tile_ic", "-1,3"}, {"tile_oc", "-1,64"}, {"tile_ow", "-1,28"}, {"unroll_kw", "true"}};
  const auto translated = translate(line, "conv2d n1 c3 h56 w56 k96 r3 s3 pad1 f32", parse_target("x86-64-v3"));
  ASSERT_TRUE(translated.schedule);
  EXPECT_EQ(translated.schedule->text(), "conv2d_direct vectors=6 rows=1 tile=1 prefetch=0");
  EXPECT_THAT(translated.notes,
              testing::Contains(HasSubstr(
                  "tile_oc=64 would be 8 vectors; with 12 blocks of channels and 16 registers, vectors=6 is used")));
  EXPECT_THAT(translated.notes,
              testing::Contains(HasSubstr("28 pixels with 6 vectors each do not fit: with 16 registers")));
  line.task = "depthwise_conv2d_NCHWc.x86";
  EXPECT_THAT(translate(line, "conv2d n1 c64 h56 w56 k64 r3 s3 g64 pad1 f32", avx512()).notes,
              ElementsAre("not translated: depthwise_conv2d_NCHWc.x86 (direct) has no counterpart; only conv2d_NCHWc "
                          "(direct) has one, conv2d_direct"));
}

std::string v2_line(const std::string& task, const std::string& args,
                    const std::string& result =
                        "[[0.001], 0, 1.0, "
                        "1589206637.48]") {
  return R"({"input": ["llvm -mcpu=skylake-avx512", ")" + task + R"(", [)" + args +
         R"(], {}], "config": {"index": 7, "code_hash": null, "entity": [["tile_x", "sp", [-1, 8]]]}, "result": )" +
         result + R"(, "version": 0.2, "tvm_version": "0.8.0"})";
}

Imported one(const std::string& text) { return import_text(text, "log", avx512()); }

TEST(TvmLogs, DepthwiseDenseAndOtherWorkloadsAreTranslated) {
  const auto problem = [](const std::string& task, const std::string& args) {
    const Imported imported = one(v2_line(task, args));
    if (imported.entries.empty()) return imported.refused.empty() ? imported.damaged.at(0) : imported.refused.at(0);
    const std::string line = imported.entries[0].record.problem;
    EXPECT_NO_THROW(parse_problem(line)) << line;
    return line;
  };
  EXPECT_EQ(problem("depthwise_conv2d_NCHWc.x86", R"(["TENSOR", [1, 32, 112, 112], "float32"], ["TENSOR", [32, 1, 3, 3],
                    "float32"], [1, 1], [1, 1, 1, 1], [1, 1], "NCHW", "NCHW", "float32")"),
            "conv2d n1 c32 h112 w112 k32 r3 s3 g32 pad1 f32");
  EXPECT_EQ(
      problem("depthwise_conv2d_nhwc.generic", R"(["TENSOR", [1, 112, 112, 32], "float32"], ["TENSOR", [3, 3, 32, 2],
                    "float32"], [2, 2], [0, 0, 1, 1], [1, 1], "float32")"),
      "conv2d n1 c32 h112 w112 k64 r3 s3 g32 stride2,2 pad0,0,1,1 f32");
  EXPECT_EQ(problem("dense_pack.x86", R"(["TENSOR", [1, 2048], "float32"], ["TENSOR", [1000, 2048], "float32"], null,
                    "float32")"),
            "matmul(f32[1,2048] f32[2048,1000])");
  EXPECT_EQ(problem("dense_nopack.x86", R"(["TENSOR", [8, 64], "float32"], ["TENSOR", [10, 64], "float32"], ["TENSOR",
                    [10], "float32"], "float32")"),
            "matmul(f32[8,64] f32[64,10]) +add(f32[10])");
  EXPECT_EQ(
      problem("batch_matmul.x86", R"(["TENSOR", [12, 128, 64], "float32"], ["TENSOR", [12, 256, 64], "float32"])"),
      "matmul(f32[12,128,64] f32[12,64,256])");
  EXPECT_EQ(problem("group_conv2d_nchw.x86", R"(["TENSOR", [1, 64, 56, 56], "float32"], ["TENSOR", [64, 2, 3, 3],
                    "float32"], [1, 1], [1, 1], [2, 2], 32, "float32")"),
            "conv2d n1 c64 h56 w56 k64 r3 s3 g32 pad1 dil2,2 f32");
  EXPECT_EQ(problem("conv2d_NCHWc.x86", R"(["TENSOR", [1, 4, 56, 56, 16], "float32"], ["TENSOR", [2, 4, 1, 1, 16, 32],
                    "float32"], 1, 0, 1, "NCHW16c", "NCHW32c", "float32")"),
            "conv2d n1 c64 h56 w56 k64 r1 s1 f32");
  EXPECT_THAT(
      problem("conv2d_NCHWc_int8.x86", R"(["TENSOR", [1, 64, 56, 56], "uint8"], ["TENSOR", [64, 64, 3, 3],
                      "int8"], [1, 1], [1, 1, 1, 1], [1, 1], "NCHW", "NCHW", "int32")"),
      HasSubstr("log: line 1: skipped: conv2d_NCHWc_int8.x86 of uint8: only float32, float16, bfloat16 and float64 can "
                "be read (Kilter's integer convolutions and products have zero points, which the log lacks)"));
  EXPECT_THAT(problem("conv2d_transpose_nchw.x86", R"(["TENSOR", [1, 64, 56, 56], "float32"])"),
              HasSubstr("conv2d_transpose_nchw.x86: only workloads of conv2d, depthwise and group conv2d, dense and "
                        "batch_matmul can be read"));
}

TEST(TvmLogs, FailuresKeepTheirKind) {
  const std::string args = R"(["TENSOR", [1, 64], "float32"], ["TENSOR", [10, 64], "float32"], null, "float32")";
  const auto status = [&](int number) {
    const Imported imported =
        one(v2_line("dense_pack.x86", args, "[[1000000000.0], " + std::to_string(number) + ", 10.5, 1589206637.48]"));
    const Record& r = imported.entries.at(0).record;
    EXPECT_THAT(r.samples_ms, IsEmpty());
    EXPECT_THAT(r.error, HasSubstr("TVM's error " + std::to_string(number)));
    return name(r.status);
  };
  EXPECT_EQ(status(1), "rejected");
  EXPECT_EQ(status(4), "crash");
  EXPECT_EQ(status(5), "wrong");
  EXPECT_EQ(status(7), "timeout");
  EXPECT_EQ(status(99), "crash");
}

TEST(Scanner, FindsRecordsBetweenProse) {
  const std::string line =
      v2_line("dense_pack.x86", R"(["TENSOR", [1, 64], "float32"], ["TENSOR", [10, 64], "float32"])");
  std::string curly = line;
  for (size_t at = curly.find('"'), n = 0; at != std::string::npos; at = curly.find('"', at), ++n)
    curly.replace(at, 1, n % 2 == 0 ? "\xe2\x80\x9c" : "\xe2\x80\x9d");
  const Imported both =
      one("a set {1, 2} and { \"dtype\": 3 }\n> " + line + line + "** and {“x”: " + curly + " — end {");
  ASSERT_THAT(both.entries, SizeIs(3));
  EXPECT_EQ(both.distinct(), 1U);
  EXPECT_EQ(both.entries[2].line, 2);
  EXPECT_THAT(both.damaged, IsEmpty());
  // Records may extend over several lines and contain no-break spaces and typographic quotes.
  EXPECT_THAT(one(line.substr(0, 60) + "\n\xc2\xa0" + line.substr(60)).entries, SizeIs(1));
  Record own = failed(Status::crash, "conv2d_direct tile=1");
  own.error = "it said “no {way}” and ended";
  const Imported ours = one("see " + to_line(own));
  ASSERT_THAT(ours.entries, SizeIs(1));
  EXPECT_EQ(ours.entries[0].record.id(), own.id());
}

TEST(Scanner, EveryTenthLineDamaged) {
  std::string text;
  for (int i = 1; i <= 100; ++i) {
    std::string line = v2_line("dense_pack.x86", R"(["TENSOR", [)" + std::to_string(i) +
                                                     R"(, 64], "float32"], ["TENSOR", [10, 64], "float32"])");
    if (i % 40 == 10) line.resize(line.size() / 2);
    if (i % 40 == 20) line.replace(line.find("\"result\""), 10, "\"rslt:");
    if (i % 40 == 30) line.replace(line.find("[[0.001]"), 8, "[null");
    if (i % 40 == 0) line.resize(line.size() - 1);
    text += line + "\n";
  }
  const Imported imported = one(text);
  EXPECT_THAT(imported.entries, SizeIs(90));
  ASSERT_THAT(imported.damaged, SizeIs(10));
  EXPECT_THAT(imported.damaged[0], HasSubstr("log: line 10: skipped: damaged: {\"input\": [\"llvm"));
  EXPECT_THAT(imported.damaged[3], HasSubstr("log: line 40: skipped: damaged"));
}

// If the start of a line is damaged, the scanner finds no record there. In a file of Kilter's own lines, this is
// reported.
TEST(Import, BrokenKilterLinesAreReported) {
  std::string lines;
  for (int i = 1; i <= 10; ++i) {
    std::string line = to_line(numbered(i));
    if (i == 3) line[2] = '\x01';
    if (i == 7) line = line.substr(40);
    lines += line + "\n" + (i == 5 ? "\n" : "");
  }
  const Imported imported = one(lines);
  EXPECT_THAT(imported.entries, SizeIs(8));
  EXPECT_THAT(imported.damaged, ElementsAre(HasSubstr("log: line 3: skipped: not a record: {\"\x01"),
                                            HasSubstr("log: line 8: skipped: not a record: ")));
  // A list of records, as --json writes it, is read without complaint.
  const std::string list = nlohmann::json{to_json(numbered(1)), to_json(numbered(2))}.dump(2);
  EXPECT_THAT(import_text(list, "list.json", avx512()).entries, SizeIs(2));
  EXPECT_THAT(import_text(list, "list.json", avx512()).damaged, IsEmpty());
  // Prose may surround a record, but not in a file of JSON lines.
  const std::string prose = "I saw this:\n" + to_line(numbered(1)) + "\nand wondered\nwhy.\n";
  EXPECT_THAT(one(prose).damaged, IsEmpty());
  EXPECT_THAT(import_text(prose, "log.jsonl", avx512()).damaged, SizeIs(3));
}

TEST(Import, NewerRecordsAreReportedSeparately) {
  const std::string newer = R"({"kilter_record": 3, "problem": "p", "schedule": "s"})";
  const Imported imported = one(to_line(numbered(1)) + "\n" + newer + "\n" + to_line(numbered(2)));
  EXPECT_THAT(imported.entries, SizeIs(2));
  EXPECT_THAT(imported.newer, ElementsAre(HasSubstr("log: line 2: skipped: record of version 3; this program reads")));
  EXPECT_THAT(imported.refused, IsEmpty());
  EXPECT_THAT(imported.damaged, IsEmpty());
}

TEST(Import, UntranslatablePartsAreCountedByReason) {
  using testing::Contains, testing::Pair;
  const auto v1 = reasons(data("tvm_v01.txt"));
  EXPECT_THAT(v1, Contains(Pair("tile_ic=N has no counterpart: the layout determines the input's block, N", 20)));
  EXPECT_THAT(
      v1, Contains(Pair("not translated: cuda -model=unknown is not a CPU; kept as a record of another device", 12)));
  EXPECT_TRUE(std::ranges::is_sorted(v1, std::greater<>(), [](const auto& r) { return r.second; }));
  const std::string other = v2_line("conv2d_transpose_nchw.x86", R"(["TENSOR", [1, 64, 56, 56], "float32"])");
  EXPECT_THAT(reasons(one(other + "\n" + other)),
              ElementsAre(Pair("conv2d_transpose_nchw.x86: only workloads of conv2d, depthwise and group conv2d, dense "
                               "and batch_matmul can be read",
                               2)));
}

TEST(Import, NoticesOfAnotherDatabaseAreKept) {
  const ScratchFolder folder;
  const auto file = folder.path() / "newer.db";
  Store::open(file, Store::Mode::write)->append(numbered(0, 2));
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open(file.c_str(), &db), SQLITE_OK);
  sqlite3_exec(db, "PRAGMA user_version = 3", nullptr, nullptr, nullptr);
  sqlite3_close(db);
  const Imported imported = import_file(file, avx512());
  EXPECT_THAT(imported.entries, SizeIs(2));
  EXPECT_THAT(imported.notices, ElementsAre(HasSubstr("newer.db: written by a newer version of Kilter (schema 3")));
}

TEST(Scanner, HostileTextIsScannedQuickly) {
  std::string deep, open;
  for (int i = 0; i < 200000; ++i) deep += "{\"i\":[";
  for (int i = 0; i < 2000; ++i) open += "{\"i\": \"unfinished ";
  EXPECT_THAT(one(deep).entries, IsEmpty());
  EXPECT_THAT(one(open).entries, IsEmpty());
}

TEST(Import, ImportingTwiceAddsNothing) {
  const ScratchFolder folder;
  const auto store = Store::open(folder.path() / "records.db", Store::Mode::write);
  const std::vector<Record> v1 = data("tvm_v01.txt").records(), v2 = data("tvm_v02.txt").records();
  EXPECT_EQ(add_missing(*store, v1), 24);
  EXPECT_EQ(add_missing(*store, v2), 40);
  EXPECT_EQ(add_missing(*store, v1), 0);
  // Translated for another target, the same log lines are still the same measurements.
  const Imported narrow =
      import_text(read_file(std::string(KILTER_RECORDS_DATA) + "/tvm_v01.txt"), "log", parse_target("x86-64-v2"));
  EXPECT_NE(narrow.entries[1].record.schedule, v1[1].schedule);
  EXPECT_EQ(add_missing(*store, narrow.records()), 0);
  EXPECT_THAT(store->read().records, SizeIs(64));
  EXPECT_THAT(store->read({.device = "cuda"}).records, SizeIs(52));
  // Exported records can be imported again unchanged.
  const auto lines = Store::open(folder.path() / "out.jsonl", Store::Mode::write);
  EXPECT_EQ(lines->append(store->read().records), 64);
  EXPECT_EQ(add_missing(*store, import_file(folder.path() / "out.jsonl", avx512()).records()), 0);
  EXPECT_EQ(import_file(folder.path() / "records.db", avx512()).entries.size(), 64U);
}

}  // namespace
}  // namespace kilter::tune
