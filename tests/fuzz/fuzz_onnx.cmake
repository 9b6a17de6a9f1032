kilter_fuzz(onnx SOURCES fuzz_onnx.cpp fuzz_onnx_seeds.cpp model_mutator.cpp LINK kilter_vm kilter_onnx kilter_onnx_pb)
