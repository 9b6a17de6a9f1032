"""Tests of what results say about themselves: contradictions, warnings, outcomes in words, and records moved between
files.

Results are made from dictionaries, so that nothing here depends on the speed of the machine.
"""
from __future__ import annotations

import json
import pathlib
from typing import Any

import numpy as np
import pytest

import kilter

QUIET = {"quiet": "quiet", "quiet_text": "quiet: 1 of 100 runs disturbed", "best_ms": 1.9, "target": "znver4",
         "records": "none"}


def row(name: str, kind: str = "layer", source: str = "default") -> dict[str, Any]:
    return {"name": name, "ops": "Conv", "kind": kind, "schedule_from": source, "duration_ms": 1.0, "percent": 50.0,
            "share_of_bound": 0.5}


def profile(conditions: dict[str, Any] = {}, **fields: Any) -> kilter.Profile:
    """Returns a profile of two layers and a layout change: 2 ms on two threads, unless `fields` say otherwise."""
    ratio = {"value": 1.0, "low": 0.99, "high": 1.01, "agreement": "agree"}
    return kilter.Profile({"model": "net", "threads": 2, "end_to_end_ms": 2.0, "kernels_ms": 2.0, "gaps_ms": 0.0,
                           "barriers_ms": 0.0, "sum_over_end_to_end": ratio, "bounds_beaten": "",
                           "conditions": {**QUIET, **conditions},
                           "rows": [row("a"), row("b", source="record"), row("b.relayout", "layout change")], **fields})


def timing(**fields: Any) -> dict[str, Any]:
    return {"min_ms": 1.95, "estimate_ms": 2.05, "threads": 2, "target": "znver4", "records": "", **fields}


def error_of(call: Any) -> str:
    with pytest.raises(kilter.MeasurementError) as raised:
        call()
    assert isinstance(raised.value, kilter.Error)
    return str(raised.value)


def test_consistent_figures_pass() -> None:
    profile().check()
    profile().check(timing())
    profile().check(kilter.Timing(timing()))
    profile().check({"min_ms": 1.95, "estimate_ms": 2.05,
                     "conditions": {"threads": 2, "target": "znver4", "records": "none"}})


def test_rows_that_do_not_add_up() -> None:
    ratio = {"value": 0.48, "low": 0.47, "high": 0.49, "agreement": "differ"}
    assert error_of(profile(sum_over_end_to_end=ratio, kernels_ms=0.96).check) == (
        "net: the rows add up to 0.9600 ms, but a run takes 2.0000 ms end to end: ratio 0.480 (95 %: 0.470 to 0.490), "
        "expected 1 within 3.0%")


def test_an_interval_decides_not_its_middle() -> None:
    profile(sum_over_end_to_end={"value": 1.1, "low": 1.02, "high": 1.2, "agreement": "unknown"}).check()
    wide = profile(sum_over_end_to_end={"value": 1.1, "low": 1.02, "high": 1.2, "agreement": "unknown"})
    assert "expected 1 within 1.0%" in error_of(lambda: wide.check(tolerance=0.01))


def test_timing_under_other_conditions() -> None:
    assert error_of(lambda: profile().check(timing(threads=1, target="znver3", records="r.db: 3 records"))) == (
        "net: the profile and the timing were measured under different conditions: threads: 2 here, 1 in the timing; "
        "target: znver4 here, znver3 in the timing; records: none here, r.db: 3 records in the timing; expected the "
        "same")


def test_timing_that_contradicts() -> None:
    assert error_of(lambda: profile().check(timing(min_ms=0.4, estimate_ms=0.45))) == (
        "net: the profile says 1.9000 to 2.0000 ms a run, the timing 0.4000 to 0.4500 ms; expected ranges that overlap "
        "or are at most 3.0% apart")
    busy = {"quiet": "busy", "quiet_text": "busy: 90 of 100 runs disturbed"}
    assert error_of(lambda: profile(busy).check(timing(min_ms=9, estimate_ms=9.5))).endswith(
        "at most 3.0% apart (busy: 90 of 100 runs disturbed)")


def test_timing_within_the_tolerance() -> None:
    profile().check(timing(min_ms=2.05, estimate_ms=2.2))
    error_of(lambda: profile().check(timing(min_ms=2.07, estimate_ms=2.2)))


def test_warnings() -> None:
    assert profile().warnings == []
    assert profile({"quiet": "slightly disturbed", "took_part": [1.0, 0.9], "absent_threads": ""}).warnings == []
    several = profile({"quiet": "busy", "quiet_text": "busy: 90 of 100 runs disturbed", "records": "r.db: 3 records",
                       "took_part": [1.0, 0.03], "absent_threads": "2 threads requested, 1 took part"},
                      sum_over_end_to_end={"value": 1.1, "low": 0.9, "high": 1.2, "agreement": "unknown"},
                      bounds_beaten="1 layer beats its bound", rows=[row(f"conv{i}") for i in range(7)])
    assert several.warnings == [
        "busy: 90 of 100 runs disturbed",
        "2 threads requested, 1 took part",
        "the rows add up to 1.100 of the end-to-end time (95 %: 0.900 to 1.200)",
        "1 layer beats its bound",
        "7 layers keep the default schedule, as the records have none for them: conv0, conv1, conv2, conv3, conv4 "
        "and 2 others"]


def test_default_layers_are_layers_without_a_record() -> None:
    assert profile().default_layers() == ["a"]


def tune_result(**fields: Any) -> kilter.TuneResult:
    class Network:
        def tasks(self) -> list[dict[str, Any]]:
            return [{"nodes": ["a", "b"]}, {"nodes": ["c"]}, {"nodes": ["d"]}]

    data = {"model": "net", "trials": 10, "seconds": 3.21, "failures": 1, "stopped_because": "the time is up",
            "same_plan": False, "objective": "latency", "default_ms": {"value": 2.0}, "tuned_ms": {"value": 1.8},
            "ratio": {"value": 0.9, "low": 0.89, "high": 0.91}, "conditions": QUIET,
            "tasks": [{"nodes": ["a", "b"], "tried": 3}, {"nodes": ["c"], "tried": 0}]}
    return kilter.TuneResult({**data, **fields}, "", Network())


def test_outcome_of_tuning_in_words() -> None:
    result = tune_result()
    assert (result.accepted, result.before_ms, result.after_ms) == (True, 2.0, 1.8)
    assert str(result) == repr(result) == result.text == (
        "net: 10 trials in 3.2 s, 1 failed; stopped: the time is up\n"
        "before 2.0000 ms, after 1.8000 ms; after / before 0.9000 (95 %: 0.8900 to 0.9100)")


def test_outcome_without_a_gain_on_a_busy_machine() -> None:
    busy = {"quiet": "busy", "quiet_text": "busy: 9 of 10 runs disturbed"}
    result = tune_result(same_plan=True, conditions=busy)
    assert not result.accepted
    assert result.text.splitlines()[1:] == [
        "before 2.0000 ms; nothing that was tried is faster: the default plan stays", "busy: 9 of 10 runs disturbed"]
    undecided = "the machine was too busy to decide whether another schedule is faster (90 % of the runs were disturbed)"
    assert tune_result(same_plan=True, conditions=busy, undecided=undecided).text.splitlines()[1:] == [
        f"before 2.0000 ms; {undecided}: the default plan stays; end other programs and tune again",
        "busy: 9 of 10 runs disturbed"]


def test_outcome_of_tuning_for_memory() -> None:
    memory = {"objective": "memory", "default_memory": {"bytes": 2_000_000}, "tuned_memory": {"bytes": 1_500_000},
              "bytes_ratio": 0.75, "score": {"value": 0.76, "low": 0.75, "high": 0.77}}
    assert tune_result(**memory).text.splitlines()[2] == (
        "memory before 2.000 MB, after 1.500 MB; after / before 0.7500; score by memory 0.7600 (0.7500 to 0.7700)")
    assert tune_result(**memory, same_plan=True).text.splitlines()[1] == (
        "before 2.0000 ms; nothing that was tried is better by memory: the default plan stays")


def test_untuned_layers() -> None:
    assert tune_result().untuned_layers() == ["c", "d"]


def test_unknown_input_is_named() -> None:
    net = kilter.compile("zoo:squeezenet1_1", threads=1)
    x = np.zeros((1, 3, 224, 224), np.float32)
    for call in (lambda: net(image=x), lambda: net.run({"image": x}), lambda: net(x, image=x)):
        with pytest.raises(kilter.InputError) as raised:
            call()
        assert str(raised.value) == "squeezenet1_1: no input 'image'; legal values are input"


def test_benchmark_is_timer_with_other_defaults() -> None:
    from kilter.graph import Graph
    graph = Graph("tiny")
    x = graph.input("x", "f32", (4,))
    graph.output(graph.Relu(x), "y")
    result = kilter.compile(graph, threads=1).benchmark(np.zeros(4, np.float32))
    assert (result.model, result.number, len(result.samples_ms), result.threads) == ("tiny", 100, 3, 1)


def test_time_tasks() -> None:
    tasks = kilter.time_tasks("zoo:squeezenet1_1", threads=1, node=["conv1"], repeat=3)
    assert [task["name"] for task in tasks] == ["conv1"]
    assert tasks[0]["estimate_ms"] > 0
    assert "in_network_ms" not in tasks[0]


def test_records_are_imported_exported_and_merged(tmp_path: pathlib.Path) -> None:
    data, weights = ["TENSOR", [1, 64, 56, 56], "float32"], ["TENSOR", [64, 64, 3, 3], "float32"]
    workload = [data, weights, [1, 1], [1, 1, 1, 1], [1, 1], "NCHW", "NCHW", "float32"]
    knobs = [["tile_ic", "sp", [-1, 32]], ["tile_oc", "sp", [-1, 16]], ["tile_ow", "sp", [-1, 2]],
             ["unroll_kw", "ot", True]]
    log = {"input": ["llvm", "conv2d_NCHWc.x86", workload, {}],
           "config": {"index": 82, "code_hash": None, "entity": knobs},
           "result": [[0.0099], 0, 2.7, 1581437816.7], "version": 0.2, "tvm_version": "0.7"}
    (tmp_path / "tvm.log").write_text(json.dumps(log) + "\n")
    records = kilter.Records(tmp_path / "a.db")
    records.import_(tmp_path / "tvm.log")
    assert len(records) == 1
    records.export(tmp_path / "b.jsonl")
    other = kilter.Records(tmp_path / "c.db")
    other.merge(tmp_path / "b.jsonl")
    other.merge(tmp_path / "b.jsonl")
    assert [record["problem"] for record in other] == [record["problem"] for record in records]
