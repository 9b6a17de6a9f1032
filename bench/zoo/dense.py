"""Networks whose result is an image, a mask or text in an image: segmentation, super-resolution, generators, OCR."""
import torch
import torchvision
import transformers
from torch import nn

from spec import Call, Spec, axes, calibrate, network, settle

SEGMENTATION = {"deeplabv3_mobilenet": ("deeplabv3_mobilenet_v3_large", 320), "deeplabv3_resnet50": ("deeplabv3_resnet50", 224),
                "lraspp": ("lraspp_mobilenet_v3_large", 320), "fcn_resnet50": ("fcn_resnet50", 224)}


def segmenter(model):
    inner = getattr(torchvision.models.segmentation, model)(weights=None, weights_backbone=None)
    return settle(Call(inner, lambda net, image: net(image)["out"]))


def add_segmenter(name, model, size):
    @network(name, "dense")
    def build():
        return Spec(segmenter(model), (torch.randn(1, 3, size, size),), outputs=("mask",))


for each, (model_name, pixels) in SEGMENTATION.items():
    add_segmenter(each, model_name, pixels)


def norm_relu(inputs, outputs, kernel=3, stride=1):
    return nn.Sequential(nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False), nn.BatchNorm2d(outputs), nn.ReLU())


class UNet(nn.Module):
    """The encoder and decoder of biomedical segmentation, with transposed convolutions."""

    def __init__(self, widths=(32, 64, 128, 256)):
        super().__init__()
        pair = lambda a, b: nn.Sequential(norm_relu(a, b), norm_relu(b, b))
        self.down = nn.ModuleList(pair(a, b) for a, b in zip((3, *widths[:-1]), widths))
        self.up = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, stride=2) for a, b in zip(widths[-2::-1], widths[:0:-1]))
        self.merge = nn.ModuleList(pair(2 * a, a) for a in widths[-2::-1])
        self.head = nn.Conv2d(widths[0], 2, 1)

    def forward(self, x):
        kept = []
        for level, block in enumerate(self.down):
            x = block(nn.functional.max_pool2d(x, 2) if level else x)
            kept.append(x)
        for up, merge, skip in zip(self.up, self.merge, kept[-2::-1]):
            x = merge(torch.cat([skip, up(x)], 1))
        return self.head(x)


@network("unet", "dense")
def unet():
    return Spec(settle(UNet()), (torch.randn(1, 3, 256, 256),), outputs=("mask",))


@network("espcn", "dense")
def espcn():
    layers = nn.Sequential(nn.Conv2d(1, 64, 5, padding=2), nn.Tanh(), nn.Conv2d(64, 32, 3, padding=1), nn.Tanh(),
                           nn.Conv2d(32, 9, 3, padding=1), nn.PixelShuffle(3))
    return Spec(layers.eval(), (torch.rand(1, 1, 224, 224),), outputs=("image",))


class ResidualUpscaler(nn.Module):
    """SRResNet: residual blocks with PReLU, then two steps of pixel shuffle."""

    def __init__(self, width=64, blocks=6):
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(3, width, 9, padding=4), nn.PReLU())
        block = lambda: nn.Sequential(nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width), nn.PReLU(),
                                      nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width))
        self.blocks = nn.ModuleList(block() for _ in range(blocks))
        grow = lambda: nn.Sequential(nn.Conv2d(width, 4 * width, 3, padding=1), nn.PixelShuffle(2), nn.PReLU())
        self.last = nn.Sequential(grow(), grow(), nn.Conv2d(width, 3, 9, padding=4))

    def forward(self, x):
        first = x = self.first(x)
        for block in self.blocks:
            x = x + block(x)
        return self.last(x + first)


@network("srresnet", "dense")
def srresnet():
    return Spec(settle(ResidualUpscaler()), (torch.rand(1, 3, 48, 48),), outputs=("image",))


@network("dcgan", "dense")
def dcgan():
    layers, width = [], 512
    layers += [nn.ConvTranspose2d(100, width, 4), nn.BatchNorm2d(width), nn.ReLU()]
    for _ in range(3):
        layers += [nn.ConvTranspose2d(width, width // 2, 4, 2, 1), nn.BatchNorm2d(width // 2), nn.ReLU()]
        width //= 2
    layers += [nn.ConvTranspose2d(width, 3, 4, 2, 1), nn.Tanh()]
    return Spec(settle(nn.Sequential(*layers)), (torch.randn(1, 100, 1, 1),), ("noise",), ("image",))


class Residual(nn.Module):
    """A residual block of a diffusion network, with the time added between its convolutions."""

    def __init__(self, inputs, outputs, time):
        super().__init__()
        self.first = nn.Sequential(nn.GroupNorm(32, inputs), nn.SiLU(), nn.Conv2d(inputs, outputs, 3, padding=1))
        self.time = nn.Linear(time, outputs)
        self.second = nn.Sequential(nn.GroupNorm(32, outputs), nn.SiLU(), nn.Conv2d(outputs, outputs, 3, padding=1))
        self.skip = nn.Conv2d(inputs, outputs, 1) if inputs != outputs else nn.Identity()

    def forward(self, x, time):
        return self.skip(x) + self.second(self.first(x) + self.time(nn.functional.silu(time))[:, :, None, None])


class CrossBlock(nn.Module):
    """Attention of pixels to each other and to a text, and a gated feed-forward layer."""

    def __init__(self, width, context, heads=8):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.q, self.kv = nn.ModuleList(nn.Linear(width, width) for _ in range(2)), nn.ModuleList(nn.Linear(n, 2 * width) for n in (width, context))
        self.out = nn.ModuleList(nn.Linear(width, width) for _ in range(2))
        self.gate, self.down, self.heads = nn.Linear(width, 8 * width), nn.Linear(4 * width, width), heads

    def attend(self, which, x, source):
        split = lambda t: t.unflatten(-1, (self.heads, -1)).transpose(1, 2)
        k, v = self.kv[which](source).chunk(2, -1)
        found = nn.functional.scaled_dot_product_attention(split(self.q[which](x)), split(k), split(v))
        return self.out[which](found.transpose(1, 2).flatten(2))

    def forward(self, image, context):
        x = image.flatten(2).transpose(1, 2)
        own = self.norms[0](x)
        x = x + self.attend(0, own, own)
        x = x + self.attend(1, self.norms[1](x), context)
        a, b = self.gate(self.norms[2](x)).chunk(2, -1)
        x = x + self.down(a * nn.functional.gelu(b))
        return image + x.transpose(1, 2).reshape(image.shape)


class DiffusionUNet(nn.Module):
    """A small noise predictor of latent diffusion: three levels, conditioned on the time and on the states of a text."""

    def __init__(self, widths=(64, 128, 256), context=128, time=256):
        super().__init__()
        a, b, c = widths
        self.time = nn.Sequential(nn.Linear(a, time), nn.SiLU(), nn.Linear(time, time))
        self.first, self.width = nn.Conv2d(4, a, 3, padding=1), a
        self.down = nn.ModuleList([Residual(a, a, time), Residual(a, b, time), Residual(b, c, time)])
        self.attend = nn.ModuleList(CrossBlock(w, context) for w in widths)
        self.shrink = nn.ModuleList(nn.Conv2d(w, w, 3, 2, 1) for w in (a, b))
        self.up = nn.ModuleList([Residual(2 * c, c, time), Residual(c + b, b, time), Residual(b + a, a, time)])
        self.last = nn.Sequential(nn.GroupNorm(32, a), nn.SiLU(), nn.Conv2d(a, 4, 3, padding=1))

    def forward(self, sample, timestep, context):
        rates = torch.exp(torch.arange(self.width // 2) * (-9.21 / (self.width // 2)))
        angle = timestep[:, None].float() * rates
        time = self.time(torch.cat([angle.cos(), angle.sin()], -1))
        x, kept = self.first(sample), []
        for level, (block, attend) in enumerate(zip(self.down, self.attend)):
            x = attend(block(x, time), context)
            kept.append(x)
            if level < 2:
                x = self.shrink[level](x)
        for level, block in enumerate(self.up):
            x = block(torch.cat([x, kept[2 - level]], 1), time)
            if level < 2:
                x = nn.functional.interpolate(x, scale_factor=2.0, mode="nearest")
        return self.last(x)


@network("diffusion_unet", "dense")
def diffusion_unet():
    return Spec(DiffusionUNet().eval(), (torch.randn(2, 4, 32, 32), torch.tensor([501, 501]), torch.randn(2, 77, 128)),
                ("sample", "timestep", "context"), ("noise",))


@network("segformer", "dense")
def segformer():
    inner = transformers.SegformerForSemanticSegmentation(transformers.SegformerConfig(num_labels=20))
    return Spec(settle(Call(inner, lambda net, image: net(image).logits)), (torch.randn(1, 3, 256, 256),), outputs=("logits",))


class TextDetector(nn.Module):
    """Differentiable binarisation (DBNet): a ResNet-18, a feature pyramid, and a probability for each pixel."""

    def __init__(self):
        super().__init__()
        backbone = torchvision.models.resnet18(weights=None)
        self.stem = nn.Sequential(backbone.conv1, backbone.bn1, backbone.relu, backbone.maxpool)
        self.stages = nn.ModuleList([backbone.layer1, backbone.layer2, backbone.layer3, backbone.layer4])
        self.side = nn.ModuleList(nn.Conv2d(c, 128, 1) for c in (64, 128, 256, 512))
        self.smooth = nn.ModuleList(nn.Conv2d(128, 32, 3, padding=1) for _ in range(4))
        self.head = nn.Sequential(norm_relu(128, 32), nn.ConvTranspose2d(32, 32, 2, 2), nn.BatchNorm2d(32), nn.ReLU(), nn.ConvTranspose2d(32, 1, 2, 2))

    def forward(self, image):
        x, levels = self.stem(image), []
        for stage in self.stages:
            x = stage(x)
            levels.append(x)
        levels = [side(level) for side, level in zip(self.side, levels)]
        for i in (2, 1, 0):
            levels[i] = levels[i] + nn.functional.interpolate(levels[i + 1], scale_factor=2.0, mode="nearest")
        wide = [nn.functional.interpolate(smooth(level), scale_factor=2.0**i, mode="nearest") if i else smooth(level)
                for i, (smooth, level) in enumerate(zip(self.smooth, levels))]
        return self.head(torch.cat(wide, 1)).sigmoid()


@network("text_detector", "dense")
def text_detector():
    images = [torch.rand(1, 3, h, w) for h, w in ((320, 320), (192, 448))]
    return Spec(calibrate(TextDetector(), images[0]), (images[0],), ("image",), ("probability",),
                axes(image="- - height width", probability="- - height width"), [(image,) for image in images])


class TextReader(nn.Module):
    """CRNN: convolutions that reduce a line of text to a row of features, two bidirectional LSTMs, a class for each column."""

    def __init__(self, classes=6000):
        super().__init__()
        self.columns = nn.Sequential(norm_relu(3, 64), nn.MaxPool2d(2), norm_relu(64, 128), nn.MaxPool2d(2), norm_relu(128, 256), norm_relu(256, 256),
                                     nn.MaxPool2d((2, 1)), norm_relu(256, 256), nn.MaxPool2d((2, 1)), nn.Conv2d(256, 256, 2, padding=0), nn.ReLU())
        self.rows = nn.LSTM(256, 128, 2, bidirectional=True, batch_first=True)
        self.head = nn.Linear(256, classes)

    def forward(self, image):
        columns = self.columns(image).squeeze(2).transpose(1, 2)
        return self.head(self.rows(columns)[0]).log_softmax(-1)


@network("text_reader", "dense")
def text_reader():
    images = [torch.rand(1, 3, 32, width) for width in (160, 320)]
    return Spec(calibrate(TextReader(), images[0]), (images[0],), ("image",), ("classes",), axes(image="- - - width", classes="- columns -"),
                [(image,) for image in images])
