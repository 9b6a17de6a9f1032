"""torch.compile(backend="kilter"): whole networks, dynamic shapes, fallback, errors.

KILTER_TORCH_FULL=1 tests more networks, at full size."""
import logging

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

import kilter  # noqa: E402
import kilter.torch  # noqa: E402
from kilter.torch._function import CompiledFunction  # noqa: E402
from torch_models import (FULL, MORE, NETWORKS, Small, WithSorting, assert_agrees, called, compiled,  # noqa: E402, F401
                          fresh_dynamo, images, inputs_of, language_model, prepared)

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", [*NETWORKS, *(MORE if FULL else ())])
def test_network(name):
    """No graph break, no fallback, no node in PyTorch; agrees with eager."""
    build, side = {**NETWORKS, **MORE}[name]
    model, inputs = prepared(build), inputs_of(side)
    with torch.no_grad():
        found = torch._dynamo.explain(lambda: called(model, inputs))()
        assert found.graph_break_count == 0 and found.graph_count == 1, found.break_reasons
        torch._dynamo.reset()
        fast = torch.compile(model, backend=kilter.torch.backend, fullgraph=True, options={"fallback": False})
        assert_agrees(called(fast, inputs), called(model, inputs))


def test_registered_by_name():
    torch._dynamo.register_backend(kilter.torch.backend, name="kilter_test")
    model = prepared(Small)
    with torch.inference_mode():
        fast = torch.compile(model, backend="kilter_test", options={"threads": 1, "fallback": False})
        assert_agrees(fast(images(2)), model(images(2)))


def kept_functions(monkeypatch):
    """Returns a list to which the functions compiled from now on are added."""
    made = []
    begin = CompiledFunction.__init__

    def recorded(self, *args):
        begin(self, *args)
        made.append(self)
    monkeypatch.setattr(CompiledFunction, "__init__", recorded)
    return made


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_dynamic_batch_is_bounded(monkeypatch, mode):
    made, model = kept_functions(monkeypatch), prepared(Small)
    options = {"cache_size": 2, "fallback": False}
    fast = torch.compile(model, backend=kilter.torch.backend, dynamic=True, options=options)
    with mode():
        for batch in (2, 3, 4, 5, 2, 5):
            assert_agrees(fast(images(batch)), model(images(batch)))
    assert len(made) == 1 and made[0].cached() == 2


def test_batch_found_to_change(monkeypatch):
    """Without dynamic=True the second batch size makes the graph dynamic; the third captures nothing new."""
    made, model = kept_functions(monkeypatch), prepared(Small)
    fast = compiled(model, fallback=False)
    with torch.no_grad():
        for batch in (2, 3, 4, 5):
            assert_agrees(fast(images(batch)), model(images(batch)))
    assert len(made) == 2


def test_dynamic_transformer():
    model = prepared(lambda: language_model("Bert", hidden_size=64, num_attention_heads=2, intermediate_size=96))
    fast = torch.compile(model, backend=kilter.torch.backend, dynamic=True, options={"fallback": False})
    with torch.no_grad():
        for batch, length in ((2, 12), (3, 12), (3, 7)):
            inputs = inputs_of(None, batch, length)
            assert_agrees(called(fast, inputs), called(model, inputs))


def test_fallback_is_told_once(caplog):
    model = prepared(WithSorting)
    fast = compiled(model)
    with torch.no_grad(), caplog.at_level(logging.WARNING, "kilter"):
        assert_agrees(fast(images(1)), model(images(1)))
        assert_agrees(fast(images(3)), model(images(3)))
    told = [r.getMessage() for r in caplog.records if r.name == "kilter"]
    assert len(told) == 1
    assert told[0].splitlines()[0].endswith("nodes cannot run in Kilter, so PyTorch runs them:")
    assert "1 x aten.median.dim: no converter for this operator (at " in told[0] and "torch_models.py:" in told[0]


def test_fallback_keeps_the_rest_in_kilter(monkeypatch):
    made, model = kept_functions(monkeypatch), prepared(WithSorting)
    with torch.no_grad():
        compiled(model)(images(1))
    program = only_program(made[0])
    assert [str(n.target) for n in program.refused] == ["aten.median.dim"]
    assert len(program.networks) == 2


def only_program(function):
    (weights,) = function._weights.values()
    (program,) = weights.programs.values()
    return program


def test_no_fallback_raises():
    with torch.no_grad(), pytest.raises(kilter.UnsupportedError) as error:
        compiled(prepared(WithSorting), fallback=False)(images(1))
    assert "aten.median.dim: no converter for this operator" in str(error.value)
    assert str(error.value).endswith("(fallback=False: nothing may run in PyTorch)")


def refusing(monkeypatch, times, text):
    """Makes the compiler refuse `times` networks with an error."""
    left = [text] * times

    def compile_or_refuse(graph, **options):
        if left:
            raise kilter.UnsupportedError(left.pop())
        return kilter.compile(graph, **options)
    monkeypatch.setattr("kilter.torch._program.compile_network", compile_or_refuse)


def test_node_that_the_compiler_refuses(monkeypatch):
    """A node that the error names runs in PyTorch, the rest in Kilter."""
    made, model = kept_functions(monkeypatch), prepared(Small)
    refusing(monkeypatch, 1, "Relu 'relu': cannot be compiled")
    with torch.no_grad():
        assert_agrees(compiled(model)(images(1)), model(images(1)))
    program = only_program(made[0])
    assert {str(n.target): why for n, why in program.refused.items()} == {
        "aten.relu.default": "Relu 'relu': cannot be compiled"}
    assert len(program.networks) == 2


def test_graph_that_the_compiler_refuses(monkeypatch):
    """If the error names no node, all of the piece runs in PyTorch."""
    made, model = kept_functions(monkeypatch), prepared(Small)
    refusing(monkeypatch, 1, "it cannot be compiled")
    with torch.no_grad():
        assert_agrees(compiled(model)(images(1)), model(images(1)))
    assert only_program(made[0]).networks == []


def test_arguments_that_a_converter_does_not_take(monkeypatch, caplog):
    def failing(c, x):
        return {}[x.rank]
    monkeypatch.setitem(kilter.torch._conversion.CONVERTERS, "aten.relu.default", failing)
    x = torch.tensor([-1.0, 2.0])
    with torch.no_grad(), caplog.at_level(logging.WARNING, "kilter"):
        assert compiled(lambda v: torch.relu(v) + 1)(x).tolist() == [1, 3]
    assert "aten.relu.default: its converter does not take these arguments: KeyError: 1" in caplog.text


def test_empty_batch():
    model = prepared(Small)
    with torch.no_grad():
        assert compiled(model)(images(1)[:0]).shape == (0, 4)


def test_operators_covered():
    covered = kilter.torch.operators_covered()
    assert covered == sorted(covered) and {"aten.convolution.default", "aten.add"} <= set(covered)


def test_random_numbers_stay_random():
    fast = compiled(lambda x: torch.relu(x) + torch.rand(3))
    with torch.no_grad():
        assert not torch.equal(fast(torch.ones(3)), fast(torch.ones(3)))


def test_gradients_fall_back_with_the_reason(caplog):
    model = prepared(Small)
    with caplog.at_level(logging.WARNING, "kilter"):
        result = compiled(model)(images(1))
    result.sum().backward()
    assert model.out.weight.grad is not None
    assert "gradients are recorded" in caplog.text and "torch.no_grad() or torch.inference_mode()" in caplog.text


def test_other_devices_are_refused():
    with torch.no_grad(), pytest.raises(Exception, match="is on device 'meta'; Kilter runs on the CPU"):
        compiled(Small().eval().to("meta"), fallback=False)(images(1).to("meta"))


@pytest.mark.parametrize("options, text", [
    ({"fallback": 1}, "option fallback: got 1; expected True or False"),
    ({"cache_size": 0}, "option cache_size: got 0; expected a number of sets of shapes, 1 or more"),
    ({"thread": 2}, "unknown option 'thread'"),
])
def test_options_that_are_not_legal(options, text):
    with torch.no_grad(), pytest.raises(Exception) as error:
        compiled(prepared(Small), **options)(images(1))
    assert text in str(error.value)


def test_options_reach_the_compiler(monkeypatch):
    made = kept_functions(monkeypatch)
    with torch.no_grad():
        compiled(prepared(Small), threads=1, records="none")(images(1))
    assert made[0]._settings.compile == {"threads": 1, "records": "none"}
    assert only_program(made[0]).networks[0]._command_words({})[1:] == ["--threads", "1", "--records", "none"]


def test_weights_that_change():
    model = prepared(Small)
    fast = compiled(model, fallback=False)
    with torch.no_grad():
        first = fast(images(1))
        model.out.weight.mul_(2)
        assert_agrees(fast(images(1)), model(images(1)))
        model.conv.weight.data = torch.randn(8, 3, 3, 3)
        assert_agrees(fast(images(1)), model(images(1)))
        assert not torch.equal(fast(images(1)), first)


def test_weights_are_shared(monkeypatch):
    """The network's constants are in the memory of the model's weights."""
    made, model = kept_functions(monkeypatch), prepared(Small)
    with torch.no_grad():
        compiled(model)(images(1))
    graph = only_program(made[0]).networks[0]._model
    places = {v.numpy().ctypes.data for v in constants_of(graph)}
    assert {model.conv.weight.data_ptr(), model.out.weight.data_ptr(), model.norm.running_var.data_ptr()} <= places


def constants_of(graph):
    found, index = [], 0
    while True:
        value = kilter.graph.Value(graph, index)
        try:
            array = value.numpy()
        except kilter.Error:
            return found
        found += [value] if array is not None else []
        index += 1


def test_layers_that_share_code():
    """One function serves layers of one class that are compiled each by itself."""
    layers = [prepared(Small) for _ in range(3)]
    for i, layer in enumerate(layers):
        torch.nn.init.normal_(layer.out.weight, mean=i)
    fast = [compiled(layer, fallback=False) for layer in layers]
    with torch.no_grad():
        for _ in range(2):
            for quick, layer in zip(fast, layers):
                assert_agrees(quick(images(1)), layer(images(1)))


def test_inputs_are_changed_in_place():
    def counts(x, state):
        state.add_(1)
        return x + state, x.view(-1), x
    x, state, wanted = torch.ones(2, 3), torch.zeros(3), torch.zeros(3)
    with torch.no_grad():
        for _ in range(2):
            results = compiled(counts, fallback=False)(x, state)
            expected = counts(x, wanted)
            assert torch.equal(state, wanted) and all(torch.equal(a, b) for a, b in zip(results, expected))


def test_graph_breaks():
    def broken(x):
        y = torch.relu(x) + 1
        torch._dynamo.graph_break()
        return y.view(-1) * 2
    x = torch.randn(2, 3, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        assert torch.equal(compiled(broken, fallback=False)(x), broken(x))


def test_channels_last():
    model, x = prepared(Small).to(memory_format=torch.channels_last), images(2).to(memory_format=torch.channels_last)
    with torch.no_grad():
        assert_agrees(compiled(model, fallback=False)(x), model(x))


def test_recurrent_layers_if_they_are_captured():
    model, x = prepared(lambda: torch.nn.GRU(8, 16, batch_first=True)), torch.ones(2, 5, 8)
    with torch.no_grad(), torch._dynamo.config.patch(allow_rnn=True):
        assert_agrees(compiled(model, fallback=False)(x)[0], model(x)[0])


def test_generation():
    """Text is generated with a cache that grows by a token in each step."""
    hub = pytest.importorskip("transformers", reason="transformers is not installed")
    sizes = dict(n_layer=2, n_embd=64, n_head=4, vocab_size=500, bos_token_id=0, eos_token_id=0)
    model = prepared(lambda: hub.GPT2LMHeadModel(hub.GPT2Config(**sizes)))
    ids = torch.randint(1, 500, (1, 8), generator=torch.Generator().manual_seed(1))
    wanted = model.generate(ids, max_new_tokens=6, do_sample=False)
    model.forward = compiled(model.forward)
    with torch.no_grad():
        assert torch.equal(model.generate(ids, max_new_tokens=6, do_sample=False), wanted)


def test_results_belong_to_the_caller():
    def table(x):
        return torch.arange(3.0), x.clone(), torch.relu(x)
    fast, x = compiled(table, fallback=False), torch.ones(2)
    with torch.no_grad():
        for result in fast(x):
            result.fill_(7)
        assert [r.tolist() for r in fast(x)] == [[0, 1, 2], [1, 1], [1, 1]]


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_element_types(dtype):
    x = torch.linspace(-2, 2, 12).to(dtype).view(3, 4)
    with torch.no_grad():
        got = compiled(lambda v: torch.relu(v) * 2, fallback=False)(x)
    assert got.dtype == dtype and torch.equal(got, torch.relu(x) * 2)


def test_complex_numbers_stay_in_pytorch(caplog):
    x = torch.randn(4, 8)
    with torch.no_grad(), caplog.at_level(logging.WARNING, "kilter"):
        got = compiled(lambda v: torch.fft.rfft(torch.relu(v)).abs() + 1)(x)
        assert_agrees(got, torch.fft.rfft(torch.relu(x)).abs() + 1)
    assert "complex64" in caplog.text
