# 64 MiB in one block is far more than a file of 64 KiB can ask for: sizes in the file are checked before memory is taken.
kilter_fuzz(onnx SOURCES fuzz_onnx.cpp fuzz_onnx_seeds.cpp LINK kilter_onnx kilter_onnx_pb
            INSTRUMENT kilter_ops kilter_graph kilter_base ARGS -malloc_limit_mb=64)
