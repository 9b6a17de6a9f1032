"""Prints what a model is: inputs, outputs, producer, properties."""
import onnxruntime as rt


def describe(arg):
    dims = "x".join("?" if d is None else str(d) for d in arg.shape)
    return f"{arg.name}: {arg.type} {dims}"


def main(models):
    lines = []
    for name in ("perceptron.onnx", "text_encoder.onnx", "detector.onnx", "with_default.onnx", "half.onnx"):
        session = rt.InferenceSession(str(models / name))
        meta = session.get_modelmeta()
        lines.append(f"{name}: {meta.graph_name}, by {meta.producer_name}, {meta.domain} version {meta.version}, "
                     f"{meta.description}, {meta.graph_description}")
        lines += [f"  {key} = {value}" for key, value in sorted(meta.custom_metadata_map.items())]
        lines += ["  in " + describe(i) for i in session.get_inputs()]
        lines += ["  out " + describe(o) for o in session.get_outputs()]
        lines += ["  default " + describe(o) for o in session.get_overridable_initializers()]
        lines.append("  " + str(session.get_inputs()[0]))
    labels = rt.InferenceSession(str(models / "perceptron.onnx")).get_modelmeta().custom_metadata_map["classes"]
    return {"lines": lines, "labels": labels.split(",")}
