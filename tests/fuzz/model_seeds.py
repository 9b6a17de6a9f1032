"""The models that mutate_models.py damages: small ones of different kinds."""
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

F = TensorProto.FLOAT


def info(name, shape, kind=F):
    return helper.make_tensor_value_info(name, kind, shape)


def constant(name, array):
    return numpy_helper.from_array(np.asarray(array), name)


def weights(name, *shape):
    values = np.random.default_rng(len(name) + sum(shape)).standard_normal(shape, dtype=np.float32)
    return constant(name, values)


def made(nodes, inputs, outputs, initializers=(), opset=17, functions=()):
    graph = helper.make_graph(nodes, "seed", inputs, outputs, list(initializers))
    imports = [helper.make_opsetid("", opset)] + ([helper.make_opsetid("local", 1)] if functions else [])
    return helper.make_model(graph, opset_imports=imports, ir_version=9, functions=list(functions))


def image_seed():
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], name="conv", pads=[1, 1, 1, 1], strides=[2, 2]),
        helper.make_node("BatchNormalization", ["c", "s", "t", "m", "v"], ["n"], epsilon=1e-3),
        helper.make_node("Clip", ["n", "low", "high"], ["r"]),
        helper.make_node("MaxPool", ["r"], ["p"], kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1),
        helper.make_node("Conv", ["p", "d"], ["e"], group=8, kernel_shape=[3, 3], auto_pad="SAME_UPPER"),
        helper.make_node("Concat", ["p", "e"], ["j"], axis=1),
        helper.make_node("Resize", ["j", "", "scales"], ["u"], mode="linear"),
        helper.make_node("GlobalAveragePool", ["u"], ["g"]),
        helper.make_node("Flatten", ["g"], ["f"]),
        helper.make_node("Gemm", ["f", "fc", "fb"], ["y"], transB=1, alpha=0.5),
    ]
    held = [weights("w", 8, 3, 3, 3), weights("b", 8), weights("d", 8, 1, 3, 3), weights("fc", 5, 16), weights("fb", 5)]
    held += [weights("s", 8), weights("t", 8), weights("m", 8), constant("v", np.ones(8, np.float32))]
    held += [constant("low", np.float32(0)), constant("high", np.float32(6)), constant("scales", np.float32([1, 1, 2, 2]))]
    return made(nodes, [info("x", [1, 3, 16, 16])], [info("y", [1, 5])], held)


def tokens_seed():
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["h"]),
        helper.make_node("LayerNormalization", ["h", "g", "b"], ["n"], axis=-1),
        helper.make_node("MatMul", ["n", "wq"], ["q"]),
        helper.make_node("Split", ["q", "parts"], ["q0", "q1", "q2"], axis=2),
        helper.make_node("Transpose", ["q1"], ["k"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["q0", "k"], ["a"]),
        helper.make_node("Mul", ["a", "scale"], ["as"]),
        helper.make_node("Softmax", ["as"], ["p"], axis=-1),
        helper.make_node("MatMul", ["p", "q2"], ["o"]),
        helper.make_node("Add", ["o", "h"], ["r"]),
        helper.make_node("Shape", ["r"], ["dims"]),
        helper.make_node("ConstantOfShape", ["dims"], ["zeros"], value=constant("", np.float32([1]))),
        helper.make_node("Sub", ["r", "zeros"], ["s"]),
        helper.make_node("ReduceMean", ["s"], ["mean"], axes=[1], keepdims=0),
        helper.make_node("TopK", ["mean", "count"], ["top", "at"], axis=1),
    ]
    held = [weights("table", 11, 8), weights("g", 8), weights("b", 8), weights("wq", 8, 24)]
    held += [constant("parts", np.int64([8, 8, 8])), constant("scale", np.float32(0.35)), constant("count", np.int64([3]))]
    return made(nodes, [info("ids", [1, 4], TensorProto.INT64)], [info("top", [1, 3]), info("at", [1, 3], TensorProto.INT64)], held)


def moves_seed():
    nodes = [
        helper.make_node("Pad", ["x", "pads", "fill"], ["p"], mode="constant"),
        helper.make_node("Slice", ["p", "begin", "end", "axes", "steps"], ["s"]),
        helper.make_node("Tile", ["s", "times"], ["t"]),
        helper.make_node("Reshape", ["t", "shape"], ["r"]),
        helper.make_node("Unsqueeze", ["r", "axis"], ["u"]),
        helper.make_node("Expand", ["u", "wide"], ["e"]),
        helper.make_node("Squeeze", ["e", "axis"], ["q"]),
        helper.make_node("Where", ["mask", "q", "fill"], ["w"]),
        helper.make_node("CumSum", ["w", "zero"], ["c"]),
        helper.make_node("GatherElements", ["c", "index"], ["g"], axis=0),
        helper.make_node("Range", ["zero32", "six", "one32"], ["steps32"]),
        helper.make_node("Add", ["g", "steps32"], ["y"]),
    ]
    held = [constant("pads", np.int64([0, 1, 0, 1])), constant("fill", np.float32(0)), constant("begin", np.int64([0]))]
    held += [constant("end", np.int64([6])), constant("axes", np.int64([1])), constant("steps", np.int64([2]))]
    held += [constant("times", np.int64([1, 2])), constant("shape", np.int64([2, -1])), constant("axis", np.int64([0]))]
    held += [constant("wide", np.int64([1, 2, 6])), constant("mask", np.array([[True, False] * 3] * 2))]
    held += [constant("zero", np.int64(0)), constant("index", np.zeros((2, 6), np.int64)), constant("zero32", np.float32(0))]
    held += [constant("six", np.float32(6)), constant("one32", np.float32(1))]
    return made(nodes, [info("x", [2, 4])], [info("y", [2, 6])], held)


def recurrent_seed():
    nodes = [
        helper.make_node("LSTM", ["x", "w", "r", "b"], ["h", "last", ""], hidden_size=4, direction="bidirectional"),
        helper.make_node("Transpose", ["h"], ["t"], perm=[1, 0, 2, 3]),
        helper.make_node("ConvTranspose", ["t", "up"], ["u"], strides=[2, 2], output_padding=[1, 1]),
        helper.make_node("LRN", ["u"], ["l"], size=3),
        helper.make_node("ReduceSum", ["l"], ["y"], keepdims=0),
        helper.make_node("Sum", ["last", "last", "last"], ["z"]),
    ]
    held = [weights("w", 2, 16, 3), weights("r", 2, 16, 4), weights("b", 2, 32), weights("up", 5, 2, 3, 3)]
    return made(nodes, [info("x", [5, 1, 3])], [info("y", []), info("z", [2, 1, 4])], held)


def nested_seed():
    then = helper.make_graph([helper.make_node("Relu", ["x"], ["a"])], "then", [], [info("a", [2, 3])])
    other = helper.make_graph([helper.make_node("Neg", ["x"], ["a2"])], "else", [], [info("a2", [2, 3])])
    imports = [helper.make_opsetid("", 17)]
    body = [helper.make_node("Mul", ["p", "q"], ["t"]), helper.make_node("LeakyRelu", ["t"], ["o"])]
    body[1].attribute.append(onnx.AttributeProto(name="alpha", ref_attr_name="slope", type=onnx.AttributeProto.FLOAT))
    function = helper.make_function("local", "scaled", ["p", "q"], ["o"], body, imports, ["slope"])
    nodes = [
        helper.make_node("If", ["yes"], ["b"], then_branch=then, else_branch=other),
        helper.make_node("scaled", ["b", "k"], ["s"], domain="local", slope=0.25),
        helper.make_node("Constant", [], ["c"], value_floats=[1.0, 2.0, 3.0]),
        helper.make_node("Max", ["s", "c", "x"], ["m"]),
        helper.make_node("Cast", ["m"], ["half"], to=TensorProto.FLOAT16),
        helper.make_node("Cast", ["half"], ["y"], to=F),
    ]
    held = [constant("yes", np.array(True)), weights("k", 3)]
    return made(nodes, [info("x", [2, 3])], [info("y", [2, 3])], held, functions=[function])


def quantised_seed():
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "sx", "zx"], ["qx"]),
        helper.make_node("DequantizeLinear", ["qx", "sx", "zx"], ["dx"]),
        helper.make_node("DequantizeLinear", ["qw", "sw", "zw"], ["dw"], axis=0),
        helper.make_node("Conv", ["dx", "dw"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Einsum", ["c", "c"], ["e"], equation="nchw,nchw->nc"),
        helper.make_node("ArgMax", ["e"], ["at"], axis=1),
        helper.make_node("OneHot", ["at", "depth", "pair"], ["y"], axis=-1),
    ]
    held = [constant("sx", np.float32(0.1)), constant("zx", np.uint8(128)), constant("sw", np.float32([0.1] * 4))]
    held += [constant("zw", np.int8([0] * 4)), constant("qw", np.ones((4, 2, 3, 3), np.int8))]
    held += [constant("depth", np.int64(4)), constant("pair", np.float32([0, 1]))]
    return made(nodes, [info("x", [1, 2, 6, 6])], [info("y", [1, 1, 4])], held)


def graph(nodes, inputs, outputs, initializers=()):
    return helper.make_graph(nodes, "inner", inputs, outputs, list(initializers))


def sequence(name, kind=F):
    return helper.make_tensor_sequence_value_info(name, kind, ["p", 3])


def loop_seed():
    """A Loop whose end is decided by an If with a Scan inside, and whose body reads values of all levels."""
    summed = graph([helper.make_node("Add", ["sum", "row"], ["next"]), helper.make_node("Mul", ["next", "k"], ["scaled_row"])],
                   [info("sum", [3]), info("row", [3])], [info("next", [3]), info("scaled_row", [3])])
    then = graph([helper.make_node("Scan", ["zero", "state"], ["total", "rows"], body=summed, num_scan_inputs=1),
                  helper.make_node("Add", ["rows", "total"], ["a"])], [], [info("a", [2, 3])])
    other = graph([helper.make_node("Neg", ["state"], ["a2"])], [], [info("a2", [2, 3])])
    body = graph([
        helper.make_node("Less", ["i", "two"], ["early"]),
        helper.make_node("If", ["early"], ["chosen"], then_branch=then, else_branch=other),
        helper.make_node("ReduceSum", ["chosen"], ["all"], keepdims=0),
        helper.make_node("Less", ["all", "most"], ["on"]),
    ], [info("i", [], TensorProto.INT64), info("go", [], TensorProto.BOOL), info("state", [2, 3])],
        [info("on", [], TensorProto.BOOL), info("chosen", [2, 3]), info("all", [])])
    nodes = [helper.make_node("Loop", ["count", "", "x"], ["y", "sums"], body=body)]
    held = [weights("k", 3), constant("zero", np.zeros(3, np.float32)), constant("two", np.int64(2)), constant("most", np.float32(99))]
    return made(nodes, [info("x", [2, 3]), info("count", [], TensorProto.INT64)], [info("y", [2, 3]), info("sums", ["n"])], held)


def sequences_seed():
    mapped = graph([helper.make_node("Relu", ["part"], ["r"]), helper.make_node("Concat", ["r", "x"], ["longer"], axis=0)],
                   [info("part", ["p", 3])], [info("longer", ["q", 3])])
    body = graph([helper.make_node("Identity", ["go"], ["on"]), helper.make_node("SequenceInsert", ["list", "x", "i"], ["grown"])],
                 [info("i", [], TensorProto.INT64), info("go", [], TensorProto.BOOL), sequence("list")],
                 [info("on", [], TensorProto.BOOL), sequence("grown")])
    nodes = [
        helper.make_node("SplitToSequence", ["x", "one"], ["parts"], axis=0),
        helper.make_node("SequenceMap", ["parts"], ["longer_parts"], body=mapped),
        helper.make_node("SequenceErase", ["longer_parts", "zero"], ["rest"]),
        helper.make_node("Loop", ["three", "", "rest"], ["more"], body=body),
        helper.make_node("SequenceLength", ["more"], ["count"]),
        helper.make_node("ConcatFromSequence", ["more"], ["joined"], axis=0),
        helper.make_node("SequenceAt", ["more", "minus"], ["last"]),
        helper.make_node("Optional", ["last"], ["maybe"]),
        helper.make_node("OptionalHasElement", ["maybe"], ["has"]),
        helper.make_node("OptionalGetElement", ["maybe"], ["value"]),
        helper.make_node("SequenceEmpty", [], ["none"], dtype=1),
        helper.make_node("SequenceConstruct", ["value", "joined"], ["both"]),
    ]
    held = [constant("one", np.int64(1)), constant("zero", np.int64(0)), constant("three", np.int64(3)), constant("minus", np.int64(-1))]
    outputs = [info("joined", ["r", 3]), info("count", [], TensorProto.INT64), info("has", [], TensorProto.BOOL), sequence("both"), sequence("none")]
    return made(nodes, [info("x", [2, 3])], outputs, held, opset=18)


def data_seed():
    """Shapes that depend on data."""
    nodes = [
        helper.make_node("Greater", ["x", "half"], ["above"]),
        helper.make_node("NonZero", ["above"], ["where"]),
        helper.make_node("Transpose", ["where"], ["rows"]),
        helper.make_node("GatherND", ["x", "rows"], ["picked"]),
        helper.make_node("Shape", ["picked"], ["count"]),
        helper.make_node("Unsqueeze", ["picked", "axis"], ["column"]),
        helper.make_node("Concat", ["count", "axis"], ["shape"], axis=0),
        helper.make_node("Expand", ["half", "shape"], ["halves"]),
        helper.make_node("Mul", ["column", "halves"], ["y"]),
        helper.make_node("Compress", ["x", "mask"], ["z"], axis=1),
        helper.make_node("Unique", ["picked"], ["values", "first", "inverse", "counts"]),
        helper.make_node("ReduceSum", ["counts"], ["end"], keepdims=0),
        helper.make_node("Range", ["zero", "end", "step"], ["numbers"]),
        helper.make_node("NonMaxSuppression", ["boxes", "scores", "most", "iou"], ["kept"]),
    ]
    held = [constant("half", np.float32(0.5)), constant("axis", np.int64([1])), constant("mask", np.array([True, False, True]))]
    held += [constant("zero", np.int64(0)), constant("step", np.int64(2)), constant("most", np.int64([2])), constant("iou", np.float32([0.5]))]
    held += [weights("boxes", 1, 5, 4), weights("scores", 1, 2, 5)]
    i64 = TensorProto.INT64
    outputs = [info("y", ["n", "m"]), info("z", [2, "k"]), info("numbers", ["r"], i64), info("kept", ["b", 3], i64), info("inverse", ["n"], i64)]
    return made(nodes, [info("x", [2, 3])], outputs, held)


def sparse_seed():
    """Sparse tensors with positions and with coordinates."""
    def sparse(name, indices):
        return helper.make_sparse_tensor(constant(name, np.float32([1, 2])), constant("", np.int64(indices)), [2, 3])

    nodes = [helper.make_node("Constant", [], ["c"], sparse_value=sparse("", [[0, 1], [1, 2]])), helper.make_node("Sum", ["x", "w", "c", "d"], ["y"])]
    model = made(nodes, [info("x", [2, 3])], [info("y", [2, 3])], [weights("d", 2, 3)])
    model.graph.sparse_initializer.append(sparse("w", [1, 5]))
    return model


def map_info(name, key, kind, sequence=False):
    type_ = helper.make_map_type_proto(key, helper.make_tensor_type_proto(kind, None))
    return helper.make_value_info(name, helper.make_sequence_type_proto(type_) if sequence else type_)


def maps_seed():
    """Maps. Those that operators read are elements of sequences, so that the network runs without files."""
    ml = {"domain": "ai.onnx.ml"}
    nodes = [
        helper.make_node("ZipMap", ["x"], ["maps"], classlabels_int64s=[7, 2, 0], **ml),
        helper.make_node("ZipMap", ["x"], ["names"], classlabels_strings=["a", "c", "a"], **ml),
        helper.make_node("SequenceAt", ["maps", "zero"], ["table"]),
        helper.make_node("SequenceAt", ["names", "zero"], ["words"]),
        helper.make_node("DictVectorizer", ["words"], ["row"], string_vocabulary=["b", "a", "c"], **ml),
        helper.make_node("CastMap", ["table"], ["column"], cast_to="TO_STRING", map_form="SPARSE", max_map=8, **ml),
        helper.make_node("SequenceLength", ["names"], ["count"]),
    ]
    outputs = [map_info("maps", TensorProto.INT64, F, True), map_info("words", TensorProto.STRING, F), info("row", [1, 3]),
               info("column", [1, 8], TensorProto.STRING), info("count", [], TensorProto.INT64)]
    model = made(nodes, [info("x", [2, 3])], outputs, [constant("zero", np.int64(0))], opset=18)
    model.opset_import.append(helper.make_opsetid("ai.onnx.ml", 1))
    return model


SEEDS = [image_seed, tokens_seed, moves_seed, recurrent_seed, nested_seed, quantised_seed, loop_seed, sequences_seed, data_seed,
         sparse_seed, maps_seed]
