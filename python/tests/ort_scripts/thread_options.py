"""The same model with several settings of threads and optimisation; results agree."""
import numpy as np
import onnxruntime as ort

LEVELS = [ort.GraphOptimizationLevel.ORT_DISABLE_ALL, ort.GraphOptimizationLevel.ORT_ENABLE_BASIC,
          ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED, ort.GraphOptimizationLevel.ORT_ENABLE_ALL]


def open_session(path, threads, level):
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
    options.graph_optimization_level = level
    options.log_severity_level = 3
    options.enable_cpu_mem_arena = False
    options.enable_mem_pattern = False
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return ort.InferenceSession(str(path), options)


def main(models):
    x = np.random.default_rng(1).random((1, 3, 64, 64), dtype=np.float32)
    results = []
    for threads, level in [(1, LEVELS[0]), (2, LEVELS[1]), (1, LEVELS[2]), (2, LEVELS[3])]:
        session = open_session(models / "resnet.onnx", threads, level)
        used = session.get_session_options()
        assert used.intra_op_num_threads == threads and used.graph_optimization_level == level
        results.append(session.run(None, {session.get_inputs()[0].name: x})[0])
    return {"results": results, "levels": [str(level) for level in LEVELS], "numbers": [int(level) for level in LEVELS]}
