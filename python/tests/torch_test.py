"""torch.compile(backend="kilter") and kilter.torch.compile: whole networks, dynamic shapes, fallback, errors.

Networks have seeded random weights, and few layers and small images unless KILTER_TORCH_FULL is set.
"""
import logging
import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

import kilter  # noqa: E402
import kilter.torch  # noqa: E402
from kilter.torch._function import CompiledFunction  # noqa: E402

pytestmark = pytest.mark.slow
FULL = bool(os.environ.get("KILTER_TORCH_FULL"))
TOLERANCE = 1e-3  # of the largest value


@pytest.fixture(autouse=True)
def fresh_dynamo():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def torchvision_model(name, **options):
    models = pytest.importorskip("torchvision", reason="torchvision is not installed").models
    return models.get_model(name, weights=None, **options)


def timm_model(name, **options):
    return pytest.importorskip("timm", reason="timm is not installed").create_model(name, pretrained=False, **options)


def language_model(kind, **sizes):
    hub = pytest.importorskip("transformers", reason="transformers is not installed")
    small = {"Bert": dict(num_hidden_layers=2), "GPT2": dict(n_layer=2), "DistilBert": dict(n_layers=2),
             "Roberta": dict(num_hidden_layers=2), "Electra": dict(num_hidden_layers=2), "Albert": {},
             "Llama": dict(num_hidden_layers=2, hidden_size=128, intermediate_size=256, num_attention_heads=4,
                           num_key_value_heads=2, vocab_size=1000)}[kind]
    always = small if kind == "Llama" else {}
    config = getattr(hub, kind + "Config")(**({**small} if not FULL else always), **sizes)
    return getattr(hub, kind + "Model")(config)


SIDE = 224 if FULL else 64
SMALL_SIDE = 224 if FULL else 32
#: networks that every run checks, by name
NETWORKS = {
    "resnet18": (lambda: torchvision_model("resnet18"), SIDE),
    "resnet50": (lambda: torchvision_model("resnet50"), SIDE),
    "mobilenet_v2": (lambda: torchvision_model("mobilenet_v2"), SIDE),
    "vit_b_16": (lambda: torchvision_model("vit_b_16", image_size=SMALL_SIDE), SMALL_SIDE),
    "convnext_tiny": (lambda: torchvision_model("convnext_tiny"), SIDE),
    "timm vit": (lambda: timm_model("vit_tiny_patch16_224", img_size=SMALL_SIDE), SMALL_SIDE),
    "timm convnext": (lambda: timm_model("convnext_atto"), SIDE),
    "bert-base": (lambda: language_model("Bert"), None),
    "gpt2": (lambda: language_model("GPT2", use_cache=False), None),
}
#: other members of these families, which only full runs check
MORE = {
    "resnet34": (lambda: torchvision_model("resnet34"), 224),
    "regnet": (lambda: torchvision_model("regnet_y_400mf"), 224),
    "efficientnet_b0": (lambda: torchvision_model("efficientnet_b0"), 224),
    "swin_t": (lambda: torchvision_model("swin_t"), 224),
    "densenet121": (lambda: torchvision_model("densenet121"), 224),
    "mobilenet_v3": (lambda: torchvision_model("mobilenet_v3_large"), 224),
    "shufflenet": (lambda: torchvision_model("shufflenet_v2_x1_0"), 224),
    "googlenet": (lambda: torchvision_model("googlenet", init_weights=False), 224),
    "squeezenet": (lambda: torchvision_model("squeezenet1_1"), 224), "vgg11": (lambda: torchvision_model("vgg11"), 224),
    "maxvit_t": (lambda: torchvision_model("maxvit_t"), 224), "mnasnet": (lambda: torchvision_model("mnasnet1_0"), 224),
    "deit": (lambda: timm_model("deit_tiny_patch16_224"), 224), "mixer": (lambda: timm_model("mixer_s32_224"), 224),
    "distilbert": (lambda: language_model("DistilBert"), None), "roberta": (lambda: language_model("Roberta"), None),
    "electra": (lambda: language_model("Electra"), None),
    "albert": (lambda: language_model("Albert", hidden_size=768, num_attention_heads=12, intermediate_size=3072), None),
    "llama": (lambda: language_model("Llama", use_cache=False), None),
}


def prepared(build):
    """Builds a network with seeded weights, none of which is only zeros, so that every layer shows in the result."""
    torch.manual_seed(0)
    model = build().eval()
    for parameter in model.parameters():
        if not parameter.any():
            torch.nn.init.normal_(parameter, std=0.02)
    return model


def inputs_of(side, batch=1, length=12):
    """Seeded images, or token ids with a mask whose last row ends early."""
    generator = torch.Generator().manual_seed(batch)
    if side is not None:
        return {"": torch.randn(batch, 3, side, side, generator=generator)}
    ids = torch.randint(0, 900, (batch, length), generator=generator)
    mask = torch.ones_like(ids)
    if batch > 1:
        mask[-1, length // 2:] = 0
    return {"input_ids": ids, "attention_mask": mask}


def called(model, inputs):
    """Runs a model on inputs by name ("" for by position). Returns its first result."""
    positional = [inputs[""]] if "" in inputs else []
    result = model(*positional, **{k: v for k, v in inputs.items() if k})
    return result if isinstance(result, torch.Tensor) else result[0]


def assert_agrees(got, wanted):
    assert got.shape == wanted.shape and got.dtype == wanted.dtype and bool(wanted.isfinite().all())
    assert float((got - wanted).abs().max()) <= TOLERANCE * float(wanted.abs().max())


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


# --- a small network, for everything else ---


class Small(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(8)
        self.out = torch.nn.Linear(8, 4)

    def forward(self, x):
        return self.out(torch.relu(self.norm(self.conv(x))).mean((2, 3)))


class WithSorting(Small):
    """A network with an operator in its middle that has no converter."""

    def forward(self, x):
        x = torch.relu(self.norm(self.conv(x)))
        return self.out(torch.median(x.flatten(2), 2).values)


def images(batch, side=16):
    return inputs_of(side, batch)[""]


def compiled(model, **options):
    return torch.compile(model, backend=kilter.torch.backend, options=options)


def test_registered_by_name():
    torch._dynamo.register_backend(kilter.torch.backend, name="kilter_test")
    model = prepared(Small)
    with torch.inference_mode():
        fast = torch.compile(model, backend="kilter_test", options={"threads": 1, "fallback": False})
        assert_agrees(fast(images(2)), model(images(2)))


def kept_functions(monkeypatch):
    """Returns a list that the functions that are compiled from now on are added to."""
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
    assert "1 x aten.median.dim: no converter for this operator (at " in told[0] and "torch_test.py:" in told[0]


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
    ({"thread": 2}, "--thread"),
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
    assert only_program(made[0]).networks[0]._words == ["--threads", "1", "--records", "none"]


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
    """The network's constants lie where the model's weights do."""
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


# --- torch.export ---


def exported(model, *args, **options):
    return torch.export.export(model, args, **options)


def test_export():
    model = prepared(Small)
    net = kilter.torch.compile(exported(model, images(2)), threads=1, fallback=False)
    with torch.no_grad():
        assert_agrees(net(images(2)), model(images(2)))
        assert_agrees(net(images(2).numpy()), model(images(2)))
    assert isinstance(net.network(), kilter.Network)
    assert np.allclose(net.network()(images(2)), model(images(2)).detach(), atol=1e-5)


@pytest.mark.parametrize("name", ["resnet18", "vit_b_16", "bert-base"])
def test_export_of_networks(name):
    build, side = NETWORKS[name]
    model, inputs = prepared(build), inputs_of(side)
    args, kwargs = (tuple(inputs.values()), {}) if "" in inputs else ((), inputs)
    net = kilter.torch.compile(torch.export.export(model, args, kwargs), fallback=False)
    with torch.no_grad():
        assert_agrees(called(net, inputs), called(model, inputs))


def test_export_with_dynamic_batch():
    model = prepared(Small)
    batch = torch.export.Dim("batch", min=1, max=8)
    net = kilter.torch.compile(exported(model, images(2), dynamic_shapes=({0: batch},)), cache_size=2)
    with torch.no_grad():
        for size in (1, 2, 5, 8):
            assert_agrees(net(images(size)), model(images(size)))
    with pytest.raises(kilter.InputError, match=r"input 'x': shape \[9, 3, 16, 16\]; the program was exported with "
                                                r"\[\w+ from 1 to 8, 3, 16, 16\]"):
        net(images(9))


class Padded(torch.nn.Module):
    """An encoder with a mask of keys that are padding."""

    def __init__(self, **options):
        super().__init__()
        layer = torch.nn.TransformerEncoderLayer(32, 4, 48, batch_first=True, **options)
        self.layers = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, x, padding):
        return self.layers(x, src_key_padding_mask=padding)


PADDING = torch.arange(5).expand(2, 5) >= torch.tensor([[5], [3]])
#: modules that PyTorch runs by one operator each
FUSED = {
    "lstm": (lambda: torch.nn.LSTM(6, 8, 2), (5, 2, 6)),
    "lstm, both directions": (lambda: torch.nn.LSTM(6, 8, 2, batch_first=True, bidirectional=True), (2, 5, 6)),
    "lstm without bias": (lambda: torch.nn.LSTM(6, 8, bias=False), (5, 2, 6)),
    "gru": (lambda: torch.nn.GRU(6, 8, 2, batch_first=True, bidirectional=True), (2, 5, 6)),
    "encoder": (lambda: torch.nn.TransformerEncoderLayer(32, 4, 48, batch_first=True), (2, 5, 32)),
    "encoder, norm first": (lambda: torch.nn.TransformerEncoderLayer(32, 4, 48, batch_first=True, norm_first=True,
                                                                     activation="gelu"), (2, 5, 32)),
    "encoder, padding": (Padded, (2, 5, 32), PADDING),
}


@pytest.mark.parametrize("name", FUSED)
def test_export_of_fused_modules(name):
    build, shape, *others = FUSED[name]
    model, x = prepared(build), torch.randn(shape, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        net = kilter.torch.compile(exported(model, x, *others), fallback=False)
        got, wanted = (torch.utils._pytree.tree_leaves(f(x, *others)) for f in (net, model))
    assert len(got) == len(wanted)
    for g, w in zip(got, wanted):
        assert_agrees(g, w)
    kept = name[:4].strip().upper()
    assert "encoder" in name or f" {kept}@" in str(net.network()._model)


@pytest.mark.parametrize("name", [name for name in FUSED if "encoder" in name])
def test_fused_modules(name):
    build, shape, *others = FUSED[name]
    model, x = prepared(build), torch.randn(shape, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        assert_agrees(compiled(model, fallback=False)(x, *others), model(x, *others))


def test_multi_head_attention():
    class Attention(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = torch.nn.MultiheadAttention(32, 4, batch_first=True)

        def forward(self, x):
            return self.inner(x, x, x, need_weights=False)[0]
    model, x = prepared(Attention), torch.randn(2, 5, 32, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        assert_agrees(compiled(model, fallback=False)(x), model(x))


def test_export_called_by_threads():
    model = prepared(Small)
    batch = torch.export.Dim("batch", min=1, max=8)
    net = kilter.torch.compile(exported(model, images(2), dynamic_shapes=({0: batch},)), cache_size=2)
    with ThreadPoolExecutor(4) as threads:
        results = list(threads.map(lambda size: (size, net(images(size))), [1, 2, 3, 4] * 4))
    for size, result in results:
        assert_agrees(result, model(images(size)).detach())


def test_export_of_structures():
    class Pairs(torch.nn.Module):
        def forward(self, pair, *, scale):
            return {"sum": pair[0] + pair[1], "scaled": (pair[0] * scale, None)}
    args, kwargs = ((torch.ones(2), torch.arange(2.0)),), {"scale": torch.tensor(3.0)}
    net = kilter.torch.compile(torch.export.export(Pairs(), args, kwargs))
    got = net(*args, **kwargs)
    assert got["sum"].tolist() == [1, 2] and got["scaled"][0].tolist() == [3, 3] and got["scaled"][1] is None
    with pytest.raises(kilter.InputError, match="the arguments have the structure"):
        net(args[0])


def test_export_refuses_wrong_inputs():
    net = kilter.torch.compile(exported(prepared(Small), images(2)))
    with pytest.raises(kilter.InputError, match=r"input 'x': shape \[1, 3, 16, 16\]; the program was exported with "
                                                r"\[2, 3, 16, 16\]"):
        net(images(1))
    with pytest.raises(kilter.InputError, match="element type torch.float64; the program was exported with "
                                                "torch.float32"):
        net(images(2).double())
    with pytest.raises(kilter.InputError, match="got int; expected a tensor"):
        net(3)
    with pytest.raises(kilter.InputError, match="is on device 'meta'; Kilter runs on the CPU"):
        net(images(2).to("meta"))


def test_export_refuses_what_is_no_program():
    with pytest.raises(kilter.UsageError, match="expected a torch.export.ExportedProgram, got Small"):
        kilter.torch.compile(Small())


def test_export_refuses_training():
    program = exported(Small().train(), images(2))
    with pytest.raises(kilter.UnsupportedError, match="the program changes .*export the model after eval"):
        kilter.torch.compile(program)


def test_network_of_a_program_in_pieces():
    net = kilter.torch.compile(exported(prepared(WithSorting), images(2)))
    with pytest.raises(kilter.UnsupportedError, match="1 nodes of the program run in PyTorch"):
        net.network()
