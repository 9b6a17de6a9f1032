"""Networks with open image sizes."""
import torch

from dense import segmenter
from detect import detections, torchvision_detector, yolo
from spec import Spec, axes, network

SIZES = ((320, 320), (256, 384), (416, 416), (480, 352), (512, 512))


@network("yolo_sizes", "sizes")
def yolo_sizes():
    return Spec(yolo("raw"), (torch.rand(1, 3, 320, 320),), ("image",), ("boxes", "scores"),
                axes(image="- - height width", boxes="- boxes -", scores="- boxes -"), [(torch.rand(1, 3, *size),) for size in SIZES])


@network("lraspp_sizes", "sizes")
def lraspp_sizes():
    return Spec(segmenter("lraspp_mobilenet_v3_large"), (torch.randn(1, 3, 320, 320),), ("image",), ("mask",),
                axes(image="- - height width", mask="- - height width"), [(torch.randn(1, 3, *size),) for size in SIZES])


def detector_sizes(name, model, results):
    @network(name, "sizes")
    def build():
        names = ("boxes", "labels", "scores", *results)
        inner = torchvision_detector(model, 224, 20.0, min_size=224, max_size=448)
        cases = [(torch.rand(3, *size),) for size in ((224, 224), (240, 320), (300, 260))]
        return Spec(detections(inner, names), cases[0], ("image",), names, axes(image="- height width", **{n: "found" for n in names}), cases, exporters=("torchscript",))


detector_sizes("fasterrcnn_sizes", "fasterrcnn_resnet50_fpn", ())
detector_sizes("maskrcnn_sizes", "maskrcnn_resnet50_fpn", ("masks",))
