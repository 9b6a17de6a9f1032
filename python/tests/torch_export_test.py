"""kilter.torch.compile for programs of torch.export; and modules that PyTorch runs as one operator each."""
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

import kilter  # noqa: E402
import kilter.torch  # noqa: E402
from torch_models import (NETWORKS, Small, WithSorting, assert_agrees, called, compiled,  # noqa: E402, F401
                          fresh_dynamo, images, inputs_of, prepared)

pytestmark = pytest.mark.slow


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
#: modules that PyTorch runs as one operator each
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
