kilter_fuzz(program SOURCES fuzz_program.cpp LINK kilter_vm kilter_onnx kilter_onnx_pb)
