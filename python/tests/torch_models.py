"""Networks with seeded random weights, their inputs, and helpers, for the tests of kilter.torch.

They have few layers and small images unless KILTER_TORCH_FULL is set.
"""
import os

import pytest
import torch

import kilter.torch

FULL = bool(os.environ.get("KILTER_TORCH_FULL"))
TOLERANCE = 1e-3  # of the largest value


@pytest.fixture(autouse=True)
def fresh_dynamo():
    """Discards what earlier tests have compiled. Applies to test files that import it."""
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def without_zero_weights(model):
    """Draws random values for the matrices that a network's initialisation leaves zero, such as torchvision's ViT head,
    whose zeros would make all results equal."""
    for weight in model.parameters():
        if weight.dim() > 1 and not weight.any():
            torch.nn.init.normal_(weight, std=0.02)
    return model


def torchvision_model(name, **options):
    models = pytest.importorskip("torchvision", reason="torchvision is not installed").models
    return without_zero_weights(models.get_model(name, weights=None, **options))


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
