"""Classifiers of torchvision and timm."""
import timm
import torch
import torchvision

from spec import Spec, network, settle

TORCHVISION = ("convnext_tiny", "swin_t", "regnet_y_400mf", "efficientnet_v2_s", "mnasnet1_0", "mobilenet_v3_small", "shufflenet_v2_x1_0",
               "resnext50_32x4d", "googlenet")
TIMM = {"deit_tiny": ("deit_tiny_patch16_224", 224), "maxvit_tiny": ("maxvit_tiny_rw_224", 224), "mobilevit_s": ("mobilevit_s", 256),
        "mixer_s32": ("mixer_s32_224", 224), "coat_lite_mini": ("coat_lite_mini", 224), "ghostnetv2": ("ghostnetv2_100", 224),
        "edgenext_x_small": ("edgenext_x_small", 256), "poolformer_s12": ("poolformer_s12", 224)}


def classifier(name, make, size):
    @network(name, "classify")
    def build():
        return Spec(settle(make()), (torch.randn(1, 3, size, size),), outputs=("logits",))


def from_torchvision(name):
    more = {"init_weights": False, "aux_logits": False} if name == "googlenet" else {}
    return getattr(torchvision.models, name)(weights=None, **more)


for each in TORCHVISION:
    classifier(each, lambda each=each: from_torchvision(each), 224)
for each, (model, pixels) in TIMM.items():
    classifier(each, lambda model=model: timm.create_model(model, pretrained=False), pixels)
