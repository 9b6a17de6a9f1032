"""Times, profiles, explanations and comparisons: the Python objects for the commands' results."""
from __future__ import annotations

import copy
import json
import pickle

import numpy as np
import pytest

import kilter
from kilter.graph import Graph
from kilter.measure import Profile


def network(threads=1):
    random = np.random.default_rng(0)
    g = Graph("mlp")
    x = g.input("x", "f32", (32, 128))
    hidden = g.Relu(g.MatMul(x, random.standard_normal((128, 128)).astype(np.float32)), name="act")
    g.output(g.Softmax(g.MatMul(hidden, random.standard_normal((128, 64)).astype(np.float32)), name="scores"), "y")
    return kilter.compile(g, threads=threads)


X = np.ones((32, 128), np.float32)


@pytest.fixture(scope="module")
def profile():
    return kilter.profile(network(), seconds=0.1)


def test_rows_name_what_they_read(profile):
    assert profile.rows[0]["reads_inputs"] == ["x"] and profile.rows[0]["reads"] == []
    assert all(0 <= source < at for at, row in enumerate(profile.rows) for source in row["reads"])
    assert any(row["reads"] for row in profile.rows)


def test_timer_counts_and_adds_up():
    timing = network().timer(X, number=3, repeat=5)
    assert timing.number == 3 and len(timing.samples_ms) == 5
    assert timing.min_ms == min(timing.samples_ms) <= timing.median_ms <= max(timing.samples_ms)
    assert timing.mean_ms == pytest.approx(np.mean(timing.samples_ms))
    assert timing.std_ms == pytest.approx(np.std(timing.samples_ms, ddof=1), rel=0.2)
    assert repr(timing).startswith(f"<kilter.Timing: {timing.estimate_ms:.4f} ms; mean ")
    assert repr(timing).endswith("; 5 measurements of 3>")


def test_timer_raises_number_and_takes_names():
    timing = network().timer(x=X, repeat=2, min_repeat_ms=5, flush=True)
    assert timing.number > 1 and timing.number * timing.min_ms > 2


@pytest.mark.parametrize("call, error, text", [
    (lambda n: n.timer(X, number=0), kilter.UsageError, "number 0: expected 1 or more calls in one measurement"),
    (lambda n: n.timer(X, repeat=0), kilter.UsageError, "repeat 0: expected 1 or more measurements"),
    (lambda n: n.timer(X, X), kilter.InputError, "mlp: 2 inputs are given; expected x: f32[32,128]"),
    (lambda n: n.bench(secnds=1), kilter.UsageError,
     "unknown option 'secnds'; did you mean 'seconds'? `kilter bench --help-all` lists the options"),
    (lambda n: kilter.compare(n, "onnxruntime:none.onnx"), kilter.FileError,
     "cannot read file 'none.onnx': No such file or directory"),
    (lambda n: Profile({}).html("x.html"), kilter.UsageError, "this profile has no html: it was made from a "
                                                              "dictionary"),
])
def test_misuse(call, error, text):
    with pytest.raises(error) as raised:
        call(network())
    assert str(raised.value) == text


def test_bench():
    doing = []
    bench = kilter.bench(network(), seconds=0.1, progress=doing.append)
    assert bench.threads == 1 and 0 < bench.min_ms <= bench.median_ms <= bench.p90_ms
    assert bench["estimate_ms"] == bench.estimate_ms and repr(bench).startswith("<kilter.Bench 'mlp': ")
    assert network().bench(seconds=0.1).threads == 1
    assert doing  # what the command was doing


def test_a_progress_function_that_raises_ends_the_measurement():
    def refuse(text):
        raise ZeroDivisionError(text)

    with pytest.raises(ZeroDivisionError):
        kilter.bench(network(), seconds=60, progress=refuse)


def test_records_of_fields_are_mappings_and_attributes(profile):
    bench = kilter.bench(network(), seconds=0.05)
    for record in (bench, profile):
        data = record.to_dict()
        assert dict(record.items()) == data and list(record.keys()) == list(data)
        assert list(record.values()) == list(data.values())
        assert {**record} == data and "conditions" in record and record.get("nothing", 5) == 5
        assert "conditions" in dir(record)
        json.dumps(data)
        with pytest.raises(AttributeError) as raised:
            record.nothing
        assert str(raised.value).startswith(f"{type(record).__name__} has no field 'nothing'; it has ")
        for again in (pickle.loads(pickle.dumps(record)), copy.copy(record), copy.deepcopy(record)):
            assert again == record and type(again) is type(record) and again.conditions == record.conditions
    assert list(bench) == list(bench.to_dict()) and bench != profile


def test_profile_rows_add_up(profile):
    assert [type(row) for row in profile] == [dict] * len(profile)
    assert list(profile) == profile.rows
    assert sum(row["duration_ms"] for row in profile) == pytest.approx(profile.sum_ms, rel=1e-3)
    assert sum(row["percent"] for row in profile) == pytest.approx(100, abs=0.1)
    assert {"MatMul", "scores"} & {row["name"] for row in profile}


def test_profile_as_pandas(profile):
    pytest.importorskip("pandas")
    frame = profile.to_pandas()
    assert len(frame) == len(profile) and list(frame["name"]) == [row["name"] for row in profile]
    assert frame["duration_ms"].sum() == pytest.approx(profile.sum_ms, rel=1e-3)
    assert frame.nlargest(1, "duration_ms")["name"].iloc[0] == max(profile, key=lambda row: row["duration_ms"])["name"]


def test_profile_as_text_and_html(profile, tmp_path):
    lines = repr(profile).splitlines()
    assert lines[0].split() == ["layer", "ops", "ms", "%", "of", "bound"] and len(lines) == len(profile) + 2
    assert lines[-1].startswith(f"sum {profile.sum_ms:.4f} ms, end to end ")
    assert len(profile.table(top=2).splitlines()) == 4
    page = profile._repr_html_()
    assert page.count("<tr>") == len(profile) + 1 and page.startswith("<p>mlp: ") and page.endswith("</table>")
    profile.html(tmp_path / "p.html")
    with pytest.raises(kilter.FileError, match="cannot write file '.*/none/p.html': No such file or directory"):
        profile.html(tmp_path / "none" / "p.html")
    text = (tmp_path / "p.html").read_text("utf-8")
    assert "<html" in text and "mlp" in text
    profile.trace(tmp_path / "p.json")
    assert json.loads((tmp_path / "p.json").read_text("utf-8"))["traceEvents"]


def test_names_are_escaped_in_html():
    g = Graph("<b>")
    g.output(g.Relu(g.input("x", "f32", (64, 64)), name="<i>&"), "y")
    page = kilter.profile(kilter.compile(g), seconds=0.05)._repr_html_()
    assert "<b>" not in page and "<i>" not in page and "&lt;i&gt;&amp;" in page


def test_explain(tmp_path):
    found = kilter.explain(network(), seconds=0.2)
    assert isinstance(found.findings, list) and found.explain["summary"]
    assert all({"cause", "evidence", "advice", "action", "gain_ms", "how"} <= set(f) for f in found.findings)
    assert str(found).startswith("mlp takes ") and str(found.explain["summary"][0]) in str(found)
    assert "report:" not in str(found) and "memory:" not in str(found) + str(found.findings)
    found.html(tmp_path / "e.html")
    assert "<html" in (tmp_path / "e.html").read_text("utf-8")


def test_compare():
    net = network()
    result = kilter.compare(net, net.with_options(threads=2), seconds=0.3)
    assert result.ratio["low"] <= result.ratio["value"] <= result.ratio["high"]
    assert result.ratio["value"] == pytest.approx(result.b["ms"] / result.a["ms"], rel=0.3)
    text = " ".join(str(result).split())
    assert "conditions that differ: threads A: 1 B: 2 A mlp " in text and "memory:" not in text, result


def test_compare_runs_a_file_on_as_many_threads_as_the_network(tmp_path):
    net = network()
    net.save(tmp_path / "net.kilter")
    for a, b in ((net, tmp_path / "net.kilter"), (str(tmp_path / "net.kilter"), net)):
        result = kilter.compare(a, b, seconds=0.2)
        assert "conditions that differ: none" in str(result), result
    result = kilter.compare(net, tmp_path / "net.kilter", threads_b=2, seconds=0.2)
    assert "threads A: 1 B: 2" in " ".join(str(result).split()), result


def test_compare_one_network_with_options_of_its_sides():
    result = kilter.compare(network().with_options(threads=None), threads_a=1, threads_b=2, seconds=0.3)
    assert result.a["ms"] > 0 and result.b["ms"] > 0


def test_tasks():
    tasks = kilter.tasks(network())
    assert sum(t["problem"].startswith("matmul(f32[32,128] ") for t in tasks) == 2
    assert all(t["points"] >= 1 for t in tasks)


def test_lists_and_commands():
    assert "x86-64-v3" in kilter.targets()
    assert "resnet18" in kilter.zoo() and "MatMul" in kilter.ops() and "fuse" in kilter.options()
    lines = []
    out = kilter.command("zoo", line=lines.append)
    assert out == "".join(line + "\n" for line in lines) and out == kilter.zoo()

    def refuse(line):
        raise KeyError("enough")

    with pytest.raises(KeyError, match="enough"):
        kilter.command("zoo", line=refuse)
    with pytest.raises(kilter.UsageError):
        kilter.command("no-such-command")
    with pytest.raises(kilter.FileError) as raised:
        kilter.command("inspect", "none.onnx")
    assert str(raised.value) == "cannot read file 'none.onnx': No such file or directory"
