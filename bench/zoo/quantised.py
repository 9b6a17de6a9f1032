"""Networks in 8 and 4 bits and in half precision, made by the tools of ONNX Runtime from exported ones."""
import os

import torch
import torchvision

from language import causal, llama
from spec import NETWORKS, Spec, calibrate, export_torchscript, network, settle

SHAPE = (1, 3, 224, 224)


def vision(model):
    return Spec(calibrate(getattr(torchvision.models, model)(weights=None), torch.randn(4, *SHAPE[1:])), (torch.randn(SHAPE),), outputs=("logits",))


def static(name, model, activations, per_channel, form="QDQ"):
    """Static quantisation with ranges from four random images."""
    @network(name, "quantised")
    def build():
        base = vision(model)

        def write(path):
            import onnxruntime.quantization as q
            from onnxruntime.quantization.shape_inference import quant_pre_process

            class Images(q.CalibrationDataReader):
                left = [torch.randn(SHAPE).numpy() for _ in range(4)]

                def get_next(self):
                    return {"input": self.left.pop()} if self.left else None

            export_torchscript(base, path + ".f32")
            quant_pre_process(path + ".f32", path + ".prepared")
            q.quantize_static(path + ".prepared", path, Images(), quant_format=getattr(q.QuantFormat, form), per_channel=per_channel,
                              activation_type=getattr(q.QuantType, activations), weight_type=q.QuantType.QInt8)
            os.remove(path + ".f32"), os.remove(path + ".prepared")
        return Spec(args=base.args, inputs=base.inputs, write=write, kind="int8")


static("resnet18_qdq_s8s8", "resnet18", "QInt8", False)
static("resnet18_qdq_s8s8_channels", "resnet18", "QInt8", True)
static("resnet18_qdq_u8s8_channels", "resnet18", "QUInt8", True)
static("mobilenet_v2_qdq_u8s8", "mobilenet_v2", "QUInt8", False)
static("mobilenet_v2_qdq_u8s8_channels", "mobilenet_v2", "QUInt8", True)
static("resnet18_qoperator", "resnet18", "QUInt8", True, "QOperator")


def derived(name, make, convert, kind):
    """A network that `convert(from_path, to_path)` creates from the export of another one."""
    @network(name, "quantised")
    def build():
        base = make()

        def write(path):
            export_torchscript(base, path + ".base")
            convert(path + ".base", path)
            os.remove(path + ".base")
        return Spec(args=base.args, inputs=base.inputs, cases=base.cases, write=write, kind=kind)


def dynamic_int8(source, to):
    import onnxruntime.quantization as q
    q.quantize_dynamic(source, to, weight_type=q.QuantType.QInt8)


def four_bits(form):
    def convert(source, to):
        import onnx
        import onnx.version_converter
        from onnxruntime.quantization import QuantFormat
        from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

        model = onnx.load(source)
        if form == "QDQ":
            model = onnx.version_converter.convert_version(model, 21)  # the first opset with int4
        quantizer = MatMulNBitsQuantizer(model, block_size=32, is_symmetric=True, quant_format=getattr(QuantFormat, form), op_types_to_quantize=("MatMul",))
        quantizer.process()
        quantizer.model.save_model_to_file(to)
    return convert


def saved_by_onnxruntime(source, to):
    """The graph after ONNX Runtime's own optimisations, with its fused operators."""
    import onnxruntime as ort
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = to
    ort.InferenceSession(source, options, providers=["CPUExecutionProvider"])


def fused_transformer(kind):
    def convert(source, to):
        from onnxruntime.transformers import optimizer
        optimizer.optimize_model(source, model_type=kind, num_heads=4, hidden_size=256, opt_level=0).save_model_to_file(to)
    return convert


derived("bert_int8", lambda: NETWORKS["bert"][1](), dynamic_int8, "int8")
derived("llama_matmulnbits", lambda: causal(llama, False, [(32, 0)]), four_bits("QOperator"), "int8")
derived("llama_int4_qdq", lambda: causal(llama, False, [(32, 0)]), four_bits("QDQ"), "int8")
derived("gpt2_fused", lambda: NETWORKS["gpt2"][1](), fused_transformer("gpt2"), "f32")
derived("resnet18_saved", lambda: vision("resnet18"), saved_by_onnxruntime, "f32")


@network("resnet50_fp16", "quantised")
def resnet50_fp16():
    """Half precision throughout, as torch exports a network after .half()."""
    base = vision("resnet50")
    return Spec(base.module.half(), (base.args[0].half(),), outputs=("logits",), exporters=("torchscript",), kind="f16")
