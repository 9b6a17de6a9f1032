"""State that a network keeps between its runs: bind_state(), reset_state() and state."""
from __future__ import annotations

import concurrent.futures
import pathlib
import pickle

import numpy as np
import pytest

import kilter
from small_networks import raised_text

onnx_parser = pytest.importorskip("onnx.parser")

MODELS = pathlib.Path(__file__).resolve().parents[2] / "models"

# The essence of a decoder with a cache: it appends to `past` and computes its result from the whole.
CACHE = """
cache (float[batch, 1, 4] x, float[batch, past, 4] past_key) => (float[batch] y, float[batch, total, 4] present_key) {
  present_key = Concat <axis = 1> (past_key, x)
  axes = Constant <value_ints = [1, 2]> ()
  y = ReduceSum <keepdims = 0> (present_key, axes)
}
"""
RECURRENT = """
cell (float[2] x, float[2] h) => (float[2] y, float[2] hn) { hn = Add (x, h)  y = Mul (hn, hn) }
"""
# The sum of the elements that are not 0, whose number depends on data.
PROGRAM = """
counts (float[n] x, float[2] h) => (float[2] y, float[2] hn) {
  at = NonZero (x)
  rows = Transpose (at)
  found = GatherND (x, rows)
  sum = ReduceSum <keepdims = 0> (found)
  hn = Add (h, sum)
  y = Identity (hn)
}
"""
SEQUENCE = """
list (float[k] x, seq(float[k]) s) => (int64 n, seq(float[k]) s_out) { s_out = SequenceInsert (s, x)  n = SequenceLength (s_out) }
"""


def parsed(text, opset=20):
    return onnx_parser.parse_model(f'<ir_version: 9, opset_import: ["" : {opset}]> ' + text)


def network(text, **options):
    return kilter.compile(parsed(text), threads=1, **options)


def bound(text, pairs=None, initial=None, **options):
    net = network(text, **options)
    net.bind_state(pairs, initial)
    return net


def random(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def names(ports):
    return [port.name for port in ports]


def compare_with_hand(net, hand, pairs, feeds, first):
    """Checks that runs that keep their state and runs whose caller passes it on are bitwise identical."""
    state = dict(first)
    for feed in feeds:
        expected = hand.run({**feed, **state})
        state = {name: expected.pop(output) for name, output in pairs.items()}
        got = net.run(feed)
        assert list(got) == list(expected)
        for name, value in expected.items():
            np.testing.assert_array_equal(got[name], value)
        assert list(net.state) == sorted(state)
        for name, value in state.items():
            np.testing.assert_array_equal(net.state[name], value)


# --- which outputs are state ---


def test_a_cache_that_grows():
    net, hand = network(CACHE), network(CACHE)
    assert net.bind_state() == {"past_key": "present_key"}
    assert (names(net.inputs), names(net.outputs)) == (["x"], ["y"])
    assert repr(net) == "<kilter.Network 'cache': (x: f32[batch,1,4]) -> (y: f32[batch])>"
    assert net.state == {}  # the first run determines the batch
    feeds = [{"x": random(2, 1, 4, seed=i)} for i in range(12)]
    compare_with_hand(net, hand, {"past_key": "present_key"}, feeds, {"past_key": np.zeros((2, 0, 4), np.float32)})
    assert net.state["past_key"].shape == (2, 12, 4)


def test_an_output_that_appends_needs_no_name():
    text = """
    cache (float[1, t, 4] x, float[1, past, 4] a, float[1, t, 4] b) => (float[1, past, 4] c, float[1, total, 4] d) {
      same = Identity (a)
      part = Neg (x)
      all = Concat <axis = -2> (part, same)
      d = Identity (all)
      c = Mul (a, a)
    }
    """
    assert network(text).bind_state() == {"a": "d"}


def test_a_recurrent_network():
    net, hand = network(RECURRENT), network(RECURRENT)
    assert net.bind_state() == {"h": "hn"}
    np.testing.assert_array_equal(net.state["h"], np.zeros(2, np.float32))
    feeds = [{"x": random(2, seed=i)} for i in range(6)]
    compare_with_hand(net, hand, {"h": "hn"}, feeds, {"h": np.zeros(2, np.float32)})
    net.reset_state()
    x = random(2)
    np.testing.assert_array_equal(net(x), x * x)  # by position, one output
    memory = np.zeros(2, np.float32)
    assert net(x, out=memory) is memory
    np.testing.assert_array_equal(memory, (x + x) * (x + x))


@pytest.mark.parametrize("before, after", [
    ("past_key_values.3.decoder.key", "present.3.decoder.key"), ("past_key_values.0.key", "present_key_values.0.key"),
    ("past.0.key", "present.0.key"),
    ("past_0", "present_0"), ("past_key_self_1", "present_key_self_1"), ("state", "stateN"), ("h0", "hn"), ("h_in", "h_out"),
    ("cache", "cache_next"), ("cached_len_0", "new_cached_len_0"), ("prev_h", "next_h"), ("old_h", "new_h")])
def test_names_of_pairs(before, after):
    model = parsed("m (float[2] x, float[2] a) => (float[2] y, float[2] b) { b = Add (x, a)  y = Neg (x) }")
    model.graph.input[1].name = model.graph.node[0].input[1] = before
    model.graph.output[1].name = model.graph.node[0].output[0] = after
    assert kilter.compile(model, threads=1).bind_state() == {before: after}


def test_names_that_are_not_enough():
    other_type = "m (float[2] h, float[2] x) => (double[2] hn) { hn = Cast <to = 11> (h) }"
    other_rank = "m (float[2] h, float[2] x) => (float[1, 2] hn) { a = Constant <value_ints = [0]> ()  hn = Unsqueeze (h, a) }"
    other_size = "m (float[2] h, float[2] x) => (float[4] hn) { hn = Concat <axis = 0> (h, x) }"
    several = "m (float[2] h, float[2] x) => (float[2] hn, float[2] new_h) { hn = Add (h, x)  new_h = Sub (h, x) }"
    for text in (other_type, other_rank, other_size, several):
        message = raised_text(network(text).bind_state, kilter.UsageError)
        assert message.startswith("m: bind_state: no output is known to be the next value of an input; inputs are h (f32[2])")
    assert raised_text(network(several).bind_state, kilter.UsageError) == (
        "m: bind_state: no output is known to be the next value of an input; inputs are h (f32[2]), x (f32[2]); outputs are "
        'hn (f32[2]), new_h (f32[2]); name the pairs, such as {"h": "hn"}')
    assert network(several).bind_state({"h": "new_h"}) == {"h": "new_h"}


def test_pairs_that_do_not_fit():
    cell = network(RECURRENT)
    assert raised_text(lambda: cell.bind_state({"g": "hn"}), kilter.UsageError) == (
        "cell: bind_state: no input 'g'; legal values are x, h")
    assert raised_text(lambda: cell.bind_state({"h": "g"}), kilter.UsageError) == (
        "cell: bind_state: no output 'g', which is to be the next value of input 'h'; legal values are y, hn")
    assert raised_text(lambda: cell.bind_state(["h"]), kilter.UsageError) == (
        "bind_state: pairs: expected a mapping from names of inputs to names of outputs, got list")
    assert raised_text(lambda: cell.bind_state({"h": 1}), kilter.UsageError) == (
        "bind_state: pairs: expected names of inputs and outputs, got {'h': 1}")
    fixed = "m (float[1, 4] past, float[1, 1] x) => (float[1, 5] present) { present = Concat <axis = 1> (past, x) }"
    assert raised_text(network(fixed).bind_state) == (
        "m: output 'present' (f32[1,5]) cannot be the next value of input 'past' (f32[1,4]): dimension 1 differs")
    assert names(cell.inputs) == ["x", "h"] and cell.state == {}


# --- initial values ---


def test_initial_values():
    first = random(1, 3, 4)
    net = bound(CACHE, initial={"past_key": first})
    kept = first.copy()
    first[:] = 7  # the network has a copy
    np.testing.assert_array_equal(net.state["past_key"], kept)
    x = random(1, 1, 4, seed=1)
    hand = network(CACHE)
    y, present = hand(x, kept)
    np.testing.assert_array_equal(net(x), y)
    np.testing.assert_array_equal(net.state["past_key"], present)
    net.reset_state()
    np.testing.assert_array_equal(net.state["past_key"], kept)
    net.reset_state({"past_key": present})
    np.testing.assert_array_equal(net.state["past_key"], present)
    np.testing.assert_array_equal(net(x), hand(x, present)[0])


def test_initial_values_that_do_not_fit():
    net = network(CACHE)
    assert raised_text(lambda: net.bind_state(initial={"past_key": np.zeros((1, 2, 5), np.float32)})) == (
        "cache: the initial value of input 'past_key' must be f32[batch,past,4], got f32[1,2,5]")
    assert raised_text(lambda: net.bind_state(initial={"x": random(1, 1, 4)}), kilter.UsageError) == (
        "cache: the initial value of 'x': it is not an input with state; legal values are past_key")
    assert raised_text(lambda: net.bind_state(initial={"past_key": "zeros"})).startswith(
        "initial value of input 'past_key': expected an array on the CPU")
    assert raised_text(net.reset_state, kilter.UsageError) == (
        "cache: reset_state: the network has no state; call bind_state() first")
    net.bind_state()
    net(random(1, 1, 4))
    for wrong in (np.zeros((1, 2, 4)), np.zeros((2, 4), np.float32), np.zeros((1, 2, 5), np.float32)):
        assert raised_text(lambda: net.reset_state({"past_key": wrong})).startswith(
            "cache: the value of input 'past_key' must be f32[batch,past,4], got ")
    assert net.state["past_key"].shape == (1, 1, 4)


def test_sizes_that_nothing_tells():
    text = "m (float[2] x, float[n, 2] h) => (float[n, 2] hn) { hn = Add (h, x) }"
    assert raised_text(network(text).bind_state) == (
        "m: input 'h' (f32[n,2]) needs an initial value: the size of dimension 0 ('n') cannot be determined; give bind_state() one, "
        "such as zeros of shape 1x2")
    net = bound(text, initial={"h": random(3, 2)})
    net(random(2))
    assert net.state["h"].shape == (3, 2)
    for shapes in ({"h": (3, 2)}, {"h": (range(3, 4), 2)}):
        assert bound(text, shapes=shapes).state["h"].shape == (3, 2)


def test_sizes_that_other_state_tells():
    text = """m (float[2] x, float[n, 2] h, float[n, 2] c) => (float[n, 2] hn, float[n, 2] cn) {
      hn = Add (h, x)
      cn = Sub (c, x)
    }"""
    net = bound(text, initial={"h": random(3, 2)})
    np.testing.assert_array_equal(net.state["c"], np.zeros((3, 2), np.float32))
    assert net(random(2)) == ()
    net.reset_state({"h": random(4, 2), "c": random(4, 2)})
    assert net(random(2)) == () and net.state["c"].shape == (4, 2)


def test_the_models_default_value():
    text = "m (float[2] x, float[2] h = {1, 2}) => (float[2] y, float[2] g) { g = Add (h, x)  y = Neg (g) }"
    model = parsed(text.replace("float[2] h = {1, 2}", "float[2] h").replace("{ g", "<float[2] h = {1, 2}> { g"))
    net = kilter.compile(model, threads=1)
    net.bind_state({"h": "g"})
    np.testing.assert_array_equal(net.state["h"], [1, 2])
    np.testing.assert_array_equal(net(np.ones(2, np.float32)), [-2, -3])
    np.testing.assert_array_equal(net(np.ones(2, np.float32)), [-3, -4])


# --- calls ---


def test_bound_ports_are_not_given():
    net = bound(RECURRENT)
    x = random(2)
    assert raised_text(lambda: net(x, h=x)) == (
        "cell: input 'h' is state, which the network keeps between runs; leave it out, and use reset_state() to set it")
    assert raised_text(lambda: net.run({"x": x}, out={"hn": np.zeros(2, np.float32)})) == (
        "cell: memory for output 'hn': it is the next value of input 'h', which the network keeps; leave it out")
    assert raised_text(lambda: net(x, x)) == "cell: 2 inputs are given; expected x: f32[2]"
    np.testing.assert_array_equal(net.state["h"], [0, 0])


def test_a_run_that_fails_leaves_the_state():
    text = "m (float[2] h, float[n] x) => (float[k] hn, float[n] y) { hn = Add (h, x)  y = Neg (x) }"
    net = bound(text)
    net(np.ones(2, np.float32))
    net.reset_state({"h": random(2)})
    before = net.state["h"]
    assert raised_text(lambda: net(np.ones(2))).startswith("m: input 'x' must be f32[n]")
    with pytest.raises(kilter.Error):
        net(np.ones(3, np.float32))
    np.testing.assert_array_equal(net.state["h"], before)
    grows = "m (float[2] h, float[n] x) => (float[k] hn, float[n] y) { hn = Concat <axis = 0> (h, x)  y = Neg (x) }"
    net = bound(grows, {"h": "hn"})
    assert raised_text(lambda: net(np.ones(1, np.float32))) == (
        "m: output 'hn', the next value of input 'h', must be f32[2], got f32[3]")
    np.testing.assert_array_equal(net.state["h"], [0, 0])


@pytest.mark.parametrize("text", [RECURRENT, PROGRAM])
def test_nobody_else_can_write_the_state(text):
    net = bound(text)
    x = np.ones(2, np.float32)
    y = net(x)
    state = net.state["h"]
    kept = state.copy()
    y[:], x[:] = 9, 9
    np.testing.assert_array_equal(net.state["h"], kept)
    with pytest.raises(ValueError):
        state[:] = 0
    with pytest.raises(ValueError):
        state.setflags(write=True)
    net(np.ones(2, np.float32))
    np.testing.assert_array_equal(state, kept)  # later runs do not change it
    assert not np.array_equal(net.state["h"], kept)


def test_an_input_that_becomes_state_is_copied():
    text = PROGRAM.replace("hn = Add (h, sum)", "w = Add (h, sum)  hn = Identity (x)").replace("Identity (hn)", "Identity (w)")
    net = bound(text, {"h": "hn"})
    x = np.array([1, 2], np.float32)
    net(x)
    x[:] = 9
    np.testing.assert_array_equal(net.state["h"], [1, 2])


def test_programs_keep_state():
    net, hand = network(PROGRAM), network(PROGRAM)
    assert net.bind_state() == {"h": "hn"}
    feeds = [{"x": random(3 + i, seed=i)} for i in range(6)]
    compare_with_hand(net, hand, {"h": "hn"}, feeds, {"h": np.zeros(2, np.float32)})


def test_sequences_are_state():
    net = network(SEQUENCE)
    assert net.bind_state() == {"s": "s_out"}
    assert net.state == {"s": []}
    assert [int(net(random(2, seed=i))) for i in range(3)] == [1, 2, 3]
    np.testing.assert_array_equal(net.state["s"], [random(2, seed=i) for i in range(3)])
    assert not net.state["s"][0].flags.writeable
    net.reset_state({"s": [random(2)]})
    assert int(net(random(2))) == 2


# --- other networks and threads ---


def test_twins_and_copies_have_state_of_their_own():
    net = bound(RECURRENT, initial={"h": np.array([1, 2], np.float32)})
    x = random(2)
    net(x)
    for other in (net.twin(), pickle.loads(pickle.dumps(net)), net.with_options(accuracy="strict")):
        assert (names(other.inputs), names(other.outputs)) == (["x"], ["y"])
        np.testing.assert_array_equal(other.state["h"], [1, 2])
        other(x)
        np.testing.assert_array_equal(other.state["h"], net.state["h"])
    other(x)
    assert not np.array_equal(other.state["h"], net.state["h"])
    assert raised_text(lambda: net.pool(2), kilter.UsageError) == (
        "cell: pool: its networks take runs in any order, but state passes from each run to the next; make a twin() for each "
        "sequence of runs, or a pool without bind_state()")


def test_binding_again_replaces_the_state():
    net = bound(RECURRENT)
    net(random(2))
    assert net.bind_state({"h": "y"}) == {"h": "y"}
    assert names(net.outputs) == ["hn"]
    np.testing.assert_array_equal(net.state["h"], [0, 0])
    raised_text(lambda: net.bind_state({"h": "none"}), kilter.UsageError)
    assert names(net.outputs) == ["hn"]


def test_threads_take_turns():
    net = bound(RECURRENT)
    with concurrent.futures.ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda _: net(np.ones(2, np.float32)), range(200)))
    np.testing.assert_array_equal(net.state["h"], [200, 200])


@pytest.mark.parametrize("text, x", [(CACHE, random(1, 1, 4)), (PROGRAM, random(3)), (RECURRENT, random(2))])
def test_timing_leaves_the_state(text, x):
    net = bound(text)
    net(x)
    before = {name: value.copy() for name, value in net.state.items()}
    assert net.timer(x, number=2, repeat=3).median_ms > 0
    for name, value in net.state.items():
        np.testing.assert_array_equal(value, before[name])


@pytest.mark.parametrize("text, shapes", [(RECURRENT, None), (PROGRAM, {"x": (3,)})])
def test_compiled_files(text, shapes, tmp_path):
    net = network(text, shapes=shapes)
    if shapes:
        net(random(3), random(2))
    net.save(tmp_path / "net.kilter")
    loaded, hand = kilter.load(tmp_path / "net.kilter", threads=1), kilter.load(tmp_path / "net.kilter", threads=1)
    assert loaded.bind_state() == {"h": "hn"}
    feeds = [{"x": random(*(shapes or {"x": (2,)})["x"], seed=i)} for i in range(4)]
    compare_with_hand(loaded, hand, {"h": "hn"}, feeds, {"h": np.zeros(2, np.float32)})


@pytest.mark.parametrize("name, pairs, shape", [
    ("silero_vad_openvino_16k", {"state": "stateN"}, (1, 576)),
    ("silero_vad_16k_sequence", {"h": "hn", "c": "cn"}, (2, 576))])
def test_speech(name, pairs, shape):
    file = MODELS / "silero_vad" / "data" / f"{name}.onnx"
    if not file.exists():
        pytest.skip(f"{file} is missing; bench/networks.py fetches it")
    net, hand = kilter.compile(str(file), threads=1), kilter.compile(str(file), threads=1)
    assert net.bind_state() == pairs
    feeds = [{"input": random(*shape, seed=i)} for i in range(5)]
    compare_with_hand(net, hand, pairs, feeds, {name: np.zeros_like(value) for name, value in net.state.items()})
