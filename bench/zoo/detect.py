"""Detectors, most with their post-processing (selection of boxes, non-maximum suppression) in the network."""
import torch
import torchvision
import transformers
from torch import nn

from spec import Call, Spec, calibrate, network, settle

#: name: constructor, edge of the image, scale of the class scores, more results, more arguments
TORCHVISION = {
    "fasterrcnn_mobilenet": ("fasterrcnn_mobilenet_v3_large_320_fpn", 320, 20.0, (), {}),
    "fasterrcnn_resnet50": ("fasterrcnn_resnet50_fpn", 224, 20.0, (), {"min_size": 224, "max_size": 224}),
    "maskrcnn_resnet50": ("maskrcnn_resnet50_fpn", 224, 20.0, ("masks",), {"min_size": 224, "max_size": 224}),
    "keypointrcnn_resnet50": ("keypointrcnn_resnet50_fpn", 224, 20.0, ("keypoints",), {"min_size": 224, "max_size": 224}),
    "retinanet_resnet50": ("retinanet_resnet50_fpn", 256, 2.0, (), {"min_size": 256, "max_size": 256}),
    "ssd300_vgg16": ("ssd300_vgg16", 300, 2.0, (), {}),
    "ssdlite_mobilenet": ("ssdlite320_mobilenet_v3_large", 320, 2.0, (), {}),
    "fcos_resnet50": ("fcos_resnet50_fpn", 256, 2.0, (), {"min_size": 256, "max_size": 256}),
}


def decisive(module, scale):
    """Class scores of random weights that pass the thresholds, and that differ enough to have one order."""
    with torch.no_grad():
        for name, part in module.named_modules():
            scores = "cls_score" in name or "cls_logits" in name or "classification_head" in name
            if scores and getattr(part, "weight", None) is not None and part.weight.dim() > 1:
                part.weight.normal_(0, scale * 0.01)
                if getattr(part, "bias", None) is not None:
                    part.bias.normal_(-2 if "classification" in name else 0, 0.5)
    return module


def torchvision_detector(model, size, scale, **more):
    inner = getattr(torchvision.models.detection, model)(weights=None, weights_backbone=None, **more)
    return decisive(calibrate(inner, [torch.rand(3, size, size)]), scale)


def detections(inner, names):
    """A module that returns these results for one image."""
    def run(net, image):
        found = net([image])[0]  # once: the exporter would write the whole network again for each call
        return tuple(found[key] for key in names)
    return Call(inner, run).eval()


def add_torchvision(name, model, size, scale, results, more):
    @network(name, "detect")
    def build():
        names = ("boxes", "labels", "scores", *results)
        inner = torchvision_detector(model, size, scale, **more)
        # torch.export refuses these networks: they branch on data
        return Spec(detections(inner, names), (torch.rand(3, size, size),), ("image",), names, exporters=("torchscript",))


for each, row in TORCHVISION.items():
    add_torchvision(each, *row)


def norm_silu(inputs, outputs, kernel=1, stride=1):
    return nn.Sequential(nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False), nn.BatchNorm2d(outputs), nn.SiLU())


class CrossStage(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first = norm_silu(width, width)
        self.inner = nn.Sequential(norm_silu(width // 2, width // 2, 3), norm_silu(width // 2, width // 2, 3))
        self.last = norm_silu(width + width // 2, width)

    def forward(self, x):
        a, b = self.first(x).chunk(2, 1)
        return self.last(torch.cat([a, b, b + self.inner(b)], 1))


class PyramidPool(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first, self.last, self.pool = norm_silu(width, width // 2), norm_silu(2 * width, width), nn.MaxPool2d(5, 1, 2)

    def forward(self, x):
        levels = [self.first(x)]
        for _ in range(3):
            levels.append(self.pool(levels[-1]))
        return self.last(torch.cat(levels, 1))


class Yolo(nn.Module):
    """A small one-stage detector with anchor-free heads. `end`: "raw" (all boxes), "topk" (the 50 best), "nms"."""

    def __init__(self, end, classes=20):
        super().__init__()
        self.end = end
        self.stem = nn.Sequential(norm_silu(3, 16, 3, 2), norm_silu(16, 32, 3, 2), CrossStage(32), norm_silu(32, 64, 3, 2), CrossStage(64))
        self.middle = nn.Sequential(norm_silu(64, 128, 3, 2), CrossStage(128))
        self.deep = nn.Sequential(norm_silu(128, 256, 3, 2), CrossStage(256), PyramidPool(256))
        self.merge = nn.Sequential(norm_silu(384, 128), norm_silu(128, 128, 3))
        self.heads = nn.ModuleList(nn.Sequential(norm_silu(c, 64, 3), nn.Conv2d(64, 4 + classes, 1)) for c in (128, 256))

    def decode(self, y, stride):
        rows, columns = torch.meshgrid(torch.arange(y.shape[2], dtype=torch.float32), torch.arange(y.shape[3], dtype=torch.float32), indexing="ij")
        centre = (torch.stack([columns, rows], -1) + 0.5).reshape(1, -1, 2) * stride
        y = y.flatten(2).transpose(1, 2)
        reach = nn.functional.softplus(y[..., :4]) * stride * 2
        return torch.cat([centre - reach[..., :2], centre + reach[..., 2:]], -1), (y[..., 4:] * 3).sigmoid()

    def forward(self, image):
        middle = self.middle(self.stem(image))
        deep = self.deep(middle)
        fine = self.merge(torch.cat([middle, nn.functional.interpolate(deep, scale_factor=2.0, mode="nearest")], 1))
        found = [self.decode(head(x), stride) for head, x, stride in zip(self.heads, (fine, deep), (16.0, 32.0))]
        boxes, scores = (torch.cat(part, 1) for part in zip(*found))
        if self.end == "raw":
            return boxes, scores
        best, label = scores.max(-1)
        if self.end == "topk":
            value, place = best.topk(50, 1)
            return torch.gather(boxes, 1, place.unsqueeze(-1).expand(-1, -1, 4)), value, torch.gather(label, 1, place)
        apart = boxes[0] + label[0].unsqueeze(1).to(boxes.dtype) * 4096  # boxes of different classes do not overlap
        kept = torchvision.ops.nms(apart, best[0], 0.5)[:100]
        return boxes[0][kept], best[0][kept], label[0][kept]


def yolo(end):
    raw = calibrate(Yolo("raw"), torch.rand(1, 3, 320, 320))
    if end == "raw":
        return raw
    other = Yolo(end)
    other.load_state_dict(raw.state_dict())
    return other.eval()


@network("yolo_topk", "detect")
def yolo_topk():
    return Spec(yolo("topk"), (torch.rand(1, 3, 320, 320),), ("image",), ("boxes", "scores", "labels"))


@network("yolo_nms", "detect")
def yolo_nms():
    return Spec(yolo("nms"), (torch.rand(1, 3, 320, 320),), ("image",), ("boxes", "scores", "labels"))


@network("yolo_nms_last", "detect")
def yolo_nms_last():
    """NonMaxSuppression as the last node: only an output depends on data."""
    image = torch.rand(1, 3, 320, 320)

    def write(path):
        import onnx
        from onnx import TensorProto, helper

        torch.onnx.export(yolo("raw"), (image,), path, dynamo=False, opset_version=17, input_names=["image"], output_names=["boxes", "scores"])
        model = onnx.load(path)
        limits = {"most": (TensorProto.INT64, 20), "overlap": (TensorProto.FLOAT, 0.5), "least": (TensorProto.FLOAT, 0.3)}
        model.graph.initializer.extend(helper.make_tensor(name, kind, [1], [value]) for name, (kind, value) in limits.items())
        model.graph.node.extend([helper.make_node("Transpose", ["scores"], ["by_class"], perm=[0, 2, 1]),
                                 helper.make_node("NonMaxSuppression", ["boxes", "by_class", *limits], ["selected"])])
        model.graph.output.append(helper.make_tensor_value_info("selected", TensorProto.INT64, [None, 3]))
        onnx.save(model, path)

    return Spec(args=(image,), inputs=("image",), write=write)


@network("detr", "detect")
def detr():
    backbone = transformers.ResNetConfig(hidden_sizes=[64, 128, 256, 512], depths=[2, 2, 2, 2], layer_type="basic", out_features=["stage4"])
    config = transformers.DetrConfig(use_timm_backbone=False, backbone=None, backbone_config=backbone, encoder_layers=3, decoder_layers=3, d_model=128,
                                     encoder_ffn_dim=512, decoder_ffn_dim=512, num_queries=50)
    inner = settle(transformers.DetrForObjectDetection(config))

    def run(net, image):
        found = net(pixel_values=image, pixel_mask=torch.ones(image.shape[0], image.shape[2], image.shape[3], dtype=torch.int64))
        return found.logits, found.pred_boxes
    return Spec(Call(inner, run).eval(), (torch.randn(1, 3, 256, 256),), ("image",), ("logits", "boxes"))
