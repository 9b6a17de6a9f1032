"""OrtValues: from arrays, their properties, updates in place, runs on them, and DLPack."""
import numpy as np
import onnxruntime as ort


def facts(value):
    return [value.shape(), value.data_type(), value.element_type(), value.device_name(), value.is_tensor(),
            value.has_value(), value.tensor_size_in_bytes()]


def main(models):
    session = ort.InferenceSession(str(models / "text_encoder.onnx"))
    ids = ort.OrtValue.ortvalue_from_numpy(np.array([[1, 5, 9, 2]], dtype=np.int64))
    mask = ort.OrtValue.ortvalue_from_numpy(np.ones((1, 4), dtype=np.int64))
    first = session.run_with_ort_values(["pooled"], {"input_ids": ids, "attention_mask": mask})[0]
    mask.update_inplace(np.array([[1, 1, 0, 0]], dtype=np.int64))
    both = session.run_with_ort_values(None, {"input_ids": ids, "attention_mask": mask})
    plain = session.run(["pooled"], {"input_ids": ids, "attention_mask": mask.numpy()})[0]
    empty = ort.OrtValue.ortvalue_from_shape_and_type([2, 3], np.float16)
    # An array of numpy() ends with its value, so those that outlive it are copied.
    return {"facts": [facts(v) for v in (ids, mask, first, empty, *both)], "first": first.numpy().copy(),
            "both": [v.numpy().copy() for v in both], "plain": plain, "dlpack": np.from_dlpack(first).copy(),
            "back": ort.OrtValue.from_dlpack(np.arange(3.0)).numpy().copy(), "array": np.array(ids)}
