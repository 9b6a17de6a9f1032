"""The speed set and the networks that tests compare: their sources and the shapes they run with.

The graphs in bench/models have no weights; fill_weights() generates them, seeded. The other networks come inside PyPI wheels
and are downloaded by name into models/ of the working folder. NAME.FORM, such as resnet50.u8s8, is a network of the speed set
that onnxruntime.quantization has quantised; FORMS has the forms.
"""
import os
import pathlib
import shutil
import subprocess
import sys
import zipfile
import zlib

import numpy as np
import onnx

HERE = pathlib.Path(__file__).resolve().parent
EXPORTED = ["resnet18", "resnet50", "vgg16", "mobilenet_v1", "mobilenet_v2", "squeezenet1_1", "inception_v3", "densenet121",
            "efficientnet_b0", "centernet_dla34", "deit_tiny", "bert_base_128"]
WHEELS = {
    "rapidocr-onnxruntime": {
        "ppocr_det": "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx",
        "ppocr_cls": "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
        "ppocr_rec": "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx",
    },
    "silero-vad": {
        "silero_openvino_16k": "silero_vad/data/silero_vad_openvino_16k.onnx",
        "silero_16k_sequence": "silero_vad/data/silero_vad_16k_sequence.onnx",
    },
}
SHAPES = {
    "ppocr_det": {"x": (1, 3, 640, 640)},
    "ppocr_cls": {"x": (1, 3, 48, 192)},
    "ppocr_rec": {"x": (1, 3, 48, 320)},
    "silero_16k_sequence": {"input": (3, 576)},
}
SPEED_SET = EXPORTED + ["ppocr_det", "ppocr_cls", "ppocr_rec"]
FORMS = {  # format, type of activations, weights per channel; the weights are i8
    "u8s8": ("QDQ", "QUInt8", False),
    "u8s8c": ("QDQ", "QUInt8", True),
    "s8s8": ("QDQ", "QInt8", False),
    "s8s8c": ("QDQ", "QInt8", True),
    "qop": ("QOperator", "QUInt8", True),
    "dynamic": None,
}
QUANTISED_SET = [f"{name}.{form}" for name in ("resnet18", "resnet50", "mobilenet_v2", "squeezenet1_1", "inception_v3")
                 for form in ("u8s8", "s8s8c", "qop")] + ["bert_base_128.u8s8", "bert_base_128.s8s8c", "bert_base_128.dynamic"]


def all_names():
    return EXPORTED + [member for members in WHEELS.values() for member in members]


def base_of(name):
    """Returns the network that NAME.FORM quantises, or None for networks that are not quantised."""
    base, _, form = name.rpartition(".")
    return base if form in FORMS and base in EXPORTED else None


def weight_values(tensor):
    """Returns He-scaled normal values for matrices and filters, values near 1 for 1-D scales, small ones for biases; seeded by the name."""
    rng = np.random.Generator(np.random.PCG64(zlib.crc32(tensor.name.encode())))
    dims = tuple(tensor.dims)
    x = rng.standard_normal(dims, dtype=np.float32)
    if len(dims) == 1:
        return x * np.float32(0.05) + np.float32(tensor.name.endswith(("weight", "running_var")))
    fan_in = dims[0] if len(dims) == 2 else int(np.prod(dims[1:]))
    return x * np.float32((1.0 / max(fan_in, 1)) ** 0.5)


def fill_weights(name, folder):
    """Copies bench/models/NAME.onnx to `folder` with its external weights next to it. Returns the path."""
    target = folder / f"{name}.onnx"
    if target.exists():
        return target
    model = onnx.load(HERE / "models" / f"{name}.onnx", load_external_data=False)
    with open(folder / f"{name}.weights", "wb") as out:
        for tensor in model.graph.initializer:
            entries = {e.key: e.value for e in tensor.external_data}
            if entries:
                out.seek(int(entries["offset"]))
                out.write(weight_values(tensor).tobytes())
    shutil.copy(HERE / "models" / f"{name}.onnx", target)
    return target


def fetch_wheel(package, folder):
    """Downloads a wheel by name and unpacks its models."""
    marker = folder / f"{package}.done"
    if marker.exists():
        return
    wheels = folder / "wheels"
    subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check", "--no-deps", "-d", wheels, package],
                   check=True)
    wheel = next(wheels.glob(package.replace("-", "_") + "-*.whl"))
    with zipfile.ZipFile(wheel) as archive:
        for member in WHEELS[package].values():
            archive.extract(member, folder)
    marker.write_text("")


def quantise(name, folder):
    """Writes NAME.FORM.onnx to `folder`, with ranges from two random inputs. Returns the path."""
    target = folder / f"{name}.onnx"
    if target.exists():
        return target
    import onnxruntime.quantization as q
    from onnxruntime.quantization.shape_inference import quant_pre_process

    base, _, form = name.rpartition(".")
    source, prepared = fill_weights(base, folder), folder / f"{name}.prepared"
    quant_pre_process(onnx.load(source), prepared, skip_symbolic_shape=True)  # which would need sympy; all shapes are static
    if form == "dynamic":
        q.quantize_dynamic(prepared, target, weight_type=q.QuantType.QInt8)
    else:
        class Samples(q.CalibrationDataReader):
            left = [seeded_inputs(peer_session(source, 1).get_inputs(), {}, seed) for seed in (2, 3)]

            def get_next(self):
                return self.left.pop() if self.left else None

        file_format, activations, per_channel = FORMS[form]
        q.quantize_static(prepared, target, Samples(), quant_format=q.QuantFormat[file_format], per_channel=per_channel,
                          activation_type=q.QuantType[activations], weight_type=q.QuantType.QInt8)
    prepared.unlink()
    return target


def path_of(name, folder="models"):
    """Returns the path of a network's ONNX file, which is generated or downloaded if it does not exist yet."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    if name in EXPORTED:
        return fill_weights(name, folder)
    if base_of(name):
        return quantise(name, folder)
    for package, members in WHEELS.items():
        if name in members:
            fetch_wheel(package, folder)
            return folder / members[name]
    raise SystemExit(f"no network '{name}'; legal values are {', '.join(all_names())}")


def seeded_inputs(session_inputs, shapes, seed=1):
    """Returns inputs for a network: floats N(0,1), integers 0..99."""
    rng = np.random.default_rng(seed)
    feeds = {}
    for port in session_inputs:
        shape = shapes.get(port.name) or tuple(port.shape)
        if "float" in port.type:
            feeds[port.name] = rng.standard_normal(shape).astype(np.float32)
        else:
            feeds[port.name] = rng.integers(0, 100, shape).astype(np.int64 if "int64" in port.type else np.int32)
    return feeds


def runs_here(kilter, target):
    """Whether this machine runs the code that `kilter` generates for a target of `kilter targets`, or for "native"."""
    listed = subprocess.run([kilter, "targets"], capture_output=True, text=True, check=True).stdout.splitlines()
    return target == "native" or any(line.split()[:1] == [target] and "does not run here" not in line for line in listed)


def input_options(shapes):
    """Returns the options that give `kilter` the shapes."""
    return [word for name, shape in shapes.items() for word in ("--input", f"{name}={'x'.join(map(str, shape))}")]


def openvino_network(path, shapes, threads, as_shipped=False):
    """Returns OpenVINO's compiled network on the CPU, in fp32 or, as shipped, in the precision that it chooses (bf16 where the
    processor has instructions for it). `shapes` has the inputs whose shapes are not static."""
    import openvino as ov

    core = ov.Core()
    model = core.read_model(path)
    model.reshape({port.any_name: list(shapes.get(port.any_name) or [d.get_length() for d in port.partial_shape]) for port in model.inputs})
    options = {"INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1}
    if not as_shipped:
        options["INFERENCE_PRECISION_HINT"] = "f32"
    return core.compile_model(model, "CPU", options)


def peer_session(path, threads):
    """Returns an ONNX Runtime session on the CPU with this many threads."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    return ort.InferenceSession(os.fspath(path), options, providers=["CPUExecutionProvider"])


if __name__ == "__main__":  # networks.py FOLDER NAME...: generates or downloads these
    for wanted in sys.argv[2:]:
        print(path_of(wanted, sys.argv[1]))
