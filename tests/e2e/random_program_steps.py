"""The steps that random programs consist of (random_program.py). A step takes a Body, adds nodes to it and returns a value, or
raises Undrawable if it does not fit the values at hand."""
import numpy as np
from onnx import helper, numpy_helper

from random_program_body import BOOL, F32, I64, Body, Value, need

MOST_DEPTH = 3  # graphs inside graphs
MOST_TRIPS = 4
MOST_RANK = 4


def whole(b):
    """An integer scalar that depends on shapes or data."""
    made = b.any("tensor", lambda v: v.type == I64 and v.dims == [])
    return b.node("Min", [b.node("Abs", [made], I64, []), b.integer(MOST_TRIPS)], I64, [])


# --- steps on tensors ---


def unary(b):
    x = b.any(fits=lambda v: v.type in (F32, I64))
    if x.type == I64:
        return b.node(b.pick(["Neg", "Abs", "Sign"]), [x], I64, x.dims)
    op = b.pick(["Neg", "Abs", "Relu", "Floor", "Tanh", "Sigmoid", "Erf"])
    return b.node(op, [x], F32, x.dims, exact=x.exact and op in ("Neg", "Abs", "Relu", "Floor"))


def tamed(b, x):
    """Keeps values small in loops."""
    if x.type == F32:
        return b.node("Clip", [x, b.constant(np.float32(-64)), b.constant(np.float32(64))], F32, x.dims)
    return b.node("Mod", [x, b.integer(b.pick([7, 101]))], I64, x.dims) if x.type == I64 else x


def binary(b):
    x = b.tensor(fits=lambda v: v.type in (F32, I64))
    y = b.tensor(x.type, lambda v: v.dims == x.dims or v.dims == [] or (b.chance(0.3) and v.dims == x.dims[1:]))
    pair = [x, y] if b.chance(0.5) else [y, x]
    return tamed(b, b.node(b.pick(["Add", "Sub", "Max", "Min"]), pair, x.type, x.dims))


def scaled(b):
    x = b.any(fits=lambda v: v.type in (F32, I64))
    by = b.integer(b.pick([0, 2, -3])) if x.type == I64 else b.constant(np.float32(b.pick([0.5, -0.5, 0])))
    return tamed(b, b.node("Mul", [x, by], x.type, x.dims))


def compared(b):
    x = b.tensor(fits=lambda v: v.type in (F32, I64) and v.exact)
    y = b.tensor(x.type, lambda v: v.exact and v.dims in (x.dims, []))
    return b.node(b.pick(["Greater", "Less", "Equal", "GreaterOrEqual"]), [x, y], BOOL, x.dims)


def logic(b):
    x = b.tensor(BOOL)
    if b.chance(0.4):
        return b.node("Not", [x], BOOL, x.dims)
    return b.node(b.pick(["And", "Or", "Xor"]), [x, b.tensor(BOOL, lambda v: v.dims in (x.dims, []))], BOOL, x.dims)


def where(b):
    x = b.tensor()
    need(x.type != BOOL)
    return b.node("Where", [b.tensor(BOOL, lambda v: v.dims in (x.dims, [])), x, b.tensor(x.type, lambda v: v.dims in (x.dims, []))],
                  x.type, x.dims)


def cast(b):
    x = b.any()
    to = b.pick([F32, I64, BOOL])
    need(to != x.type and x.exact)
    return b.node("Cast", [x], to, x.dims, to=to)


def size(b):
    return b.node("Size", [b.any()], I64, [])


def length(b):
    return b.node("SequenceLength", [b.any("sequence")], I64, [])


def extent(b):
    x = b.tensor(fits=lambda v: v.rank > 0)
    return b.node("Gather", [b.node("Shape", [x], I64, [x.rank]), b.integer(b.between(-x.rank, x.rank - 1))], I64, [])


def total(b):
    x = b.any(fits=lambda v: v.type in (F32, I64))
    return tamed(b, b.node("ReduceSum", [x], x.type, [], exact=x.type == I64, keepdims=0))


def reduced(b):
    x = b.tensor(F32, lambda v: v.rank > 0)
    axis, keep = b.between(0, x.rank - 1), b.between(0, 1)
    dims = x.dims[:axis] + [1] * keep + x.dims[axis + 1:]
    return b.node("ReduceSum", [x, b.ints([axis])], F32, dims, exact=False, keepdims=keep)


def product(b):
    x = b.tensor(F32, lambda v: v.rank > 0 and isinstance(v.dims[-1], int) and v.dims[-1] > 0)
    columns = b.pick([1, 4, 16])
    return tamed(b, b.node("MatMul", [x, b.numbers([x.dims[-1], columns])], F32, x.dims[:-1] + [columns], exact=False))


def softmax(b):
    x = b.tensor(F32, lambda v: v.rank > 0)
    return b.node("Softmax", [x], F32, x.dims, exact=False, axis=-1)


def summed_up(b):
    x = b.tensor(I64, lambda v: v.rank > 0)
    return tamed(b, b.node("CumSum", [x, b.integer(b.between(0, x.rank - 1))], I64, x.dims, reverse=b.between(0, 1)))


# --- steps on shapes ---


def flat(b):
    x = b.any()
    return b.node("Reshape", [x, b.ints([-1])], x.type, [b.dim()])


def swapped(b):
    """Reshape to a shape computed from that of the operand."""
    x = b.tensor(fits=lambda v: v.rank >= 2)
    shape = b.node("Shape", [x], I64, [x.rank])
    order = b.rng.permutation(x.rank).tolist()
    parts = [b.node("Gather", [shape, b.ints([i])], I64, [1]) for i in order]
    return b.node("Reshape", [x, b.node("Concat", parts, I64, [x.rank], axis=0)], x.type, [x.dims[i] for i in order], allowzero=1)


def joined_axes(b):
    x = b.tensor(fits=lambda v: v.rank >= 2)
    shape = b.node("Shape", [x], I64, [x.rank])
    first = b.node("Slice", [shape, b.ints([0]), b.ints([2])], I64, [2])
    rest = b.node("Slice", [shape, b.ints([2]), b.ints([1 << 40])], I64, [x.rank - 2])
    shape = b.node("Concat", [b.node("ReduceProd", [first], I64, [1], keepdims=1), rest], I64, [x.rank - 1], axis=0)
    return b.node("Reshape", [x, shape], x.type, [b.dim()] + x.dims[2:], allowzero=1)


def transpose(b):
    x = b.tensor(fits=lambda v: v.rank >= 2)
    order = b.rng.permutation(x.rank).tolist()
    return b.node("Transpose", [x], x.type, [x.dims[i] for i in order], perm=order)


def unsqueeze(b):
    x = b.tensor(fits=lambda v: v.rank < MOST_RANK)
    axis = b.between(0, x.rank)
    return b.node("Unsqueeze", [x, b.ints([axis])], x.type, x.dims[:axis] + [1] + x.dims[axis:])


def concat(b):
    x = b.tensor(fits=lambda v: v.rank > 0)
    axis = b.between(0, x.rank - 1)
    y = b.tensor(x.type, lambda v: v.rank == x.rank and all(d == e for i, (d, e) in enumerate(zip(v.dims, x.dims)) if i != axis))
    known = isinstance(x.dims[axis], int) and isinstance(y.dims[axis], int)
    dims = list(x.dims)
    dims[axis] = x.dims[axis] + y.dims[axis] if known else b.dim()
    return b.node("Concat", [x, y], x.type, dims, axis=axis)


def slice_(b):
    x = b.tensor(fits=lambda v: v.rank > 0)
    axis = b.between(0, x.rank - 1)
    step = b.pick([1, 1, 2, -1])
    start, end = (b.between(0, 2), b.pick([3, -1, 1 << 40])) if step > 0 else (-1, -(1 << 40))
    dims = list(x.dims)
    dims[axis] = b.dim()
    end = b.node("Unsqueeze", [whole(b), b.ints([0])], I64, [1]) if step > 0 and b.chance(0.4) else b.ints([end])
    return b.node("Slice", [x, b.ints([start]), end, b.ints([axis]), b.ints([step])], x.type, dims)


def filled(b):
    x = b.tensor()
    value = numpy_helper.from_array(np.array([b.pick([0, 1, -2])], np.float32 if b.chance(0.5) else np.int64))
    return b.node("ConstantOfShape", [b.node("Shape", [x], I64, [x.rank])], value.data_type, x.dims, value=value)


def expanded(b):
    x, y = b.tensor(fits=lambda v: v.rank == 0), b.tensor()
    return b.node("Expand", [x, b.node("Shape", [y], I64, [y.rank])], x.type, y.dims)


def made_of_counts(b):
    """ConstantOfShape or Expand with a shape that depends on data."""
    count = b.node("Unsqueeze", [whole(b), b.ints([0])], I64, [1])
    if b.chance(0.5):
        return b.node("ConstantOfShape", [count], F32, [b.dim()])
    x = b.tensor(fits=lambda v: v.rank == 0)
    return b.node("Expand", [x, count], x.type, [b.dim()])


def padded(b):
    x = b.tensor(F32, lambda v: v.rank > 0)
    pads = [b.between(0, 1) for _ in range(2 * x.rank)]
    dims = [d if pads[i] + pads[i + x.rank] == 0 else d + pads[i] + pads[i + x.rank] if isinstance(d, int) else b.dim()
            for i, d in enumerate(x.dims)]
    return b.node("Pad", [x, b.ints(pads)], F32, dims)


# --- steps whose shapes depend on data ---


def non_zero(b):
    x = b.tensor(fits=lambda v: v.rank > 0 and v.exact)
    return b.node("NonZero", [x], I64, [x.rank, b.dim()])


def compress(b):
    x = b.tensor(fits=lambda v: v.rank > 0)
    axis = b.between(0, x.rank - 1)
    mask = b.tensor(BOOL, lambda v: v.dims == [x.dims[axis]])
    dims = list(x.dims)
    dims[axis] = b.dim()
    return b.node("Compress", [x, mask], x.type, dims, axis=axis)


def picked(b):
    """The elements above a number, as exporters write it: NonZero, Transpose, GatherND."""
    x = b.tensor(F32, lambda v: v.rank > 0 and v.exact)
    mask = b.node("Greater", [x, b.constant(np.float32(0.25))], BOOL, x.dims)
    found = b.dim()
    rows = b.node("Transpose", [b.node("NonZero", [mask], I64, [x.rank, found])], I64, [found, x.rank])
    return b.node("GatherND", [x, rows], F32, [found])


def unique(b):
    x = b.tensor(fits=lambda v: v.rank == 1 and v.exact and v.type != BOOL)
    return b.node("Unique", [x], x.type, [b.dim()], sorted=1)


def steps_to(b):
    return b.node("Range", [b.integer(b.between(-1, 1)), whole(b), b.integer(b.between(1, 2))], I64, [b.dim()])


def top(b):
    x = b.tensor(F32, lambda v: v.rank > 0 and v.exact)
    axis = b.between(0, x.rank - 1)
    at = b.node("Gather", [b.node("Shape", [x], I64, [x.rank]), b.ints([axis])], I64, [1])
    count = b.node("Min", [at, b.ints([2])], I64, [1])
    dims = list(x.dims)
    dims[axis] = b.dim()
    values = Value(b.program.fresh("v"), "tensor", F32, dims)
    places = Value(b.program.fresh("v"), "tensor", I64, dims)
    b.raw("TopK", [x, count], [values, places], axis=axis)  # equal values make the places ambiguous
    return b.add(values)


def suppressed(b):
    boxes = b.tensor(F32, lambda v: v.rank == 2 and v.dims[1] == 4 and v.exact)
    count = boxes.dims[0]
    one = b.node("Unsqueeze", [boxes, b.ints([0])], F32, [1, count, 4])
    shape = b.node("Concat", [b.ints([1, 1]), b.node("Slice", [b.node("Shape", [boxes], I64, [2]), b.ints([0]), b.ints([1])], I64, [1])],
                   I64, [3], axis=0)
    scores = b.node("Expand", [b.constant(np.float32([[[0.5]]])), shape], F32, [1, 1, count])
    return b.node("NonMaxSuppression", [one, scores, b.ints([2]), b.constant(np.float32([0.5]))], I64, [b.dim(), 3])


# --- steps on sequences and optionals ---


def sequence_of(b):
    x = b.tensor()
    others = [v for v in b.visible() if v.kind == "tensor" and v.type == x.type and v.rank == x.rank]
    parts = [x] + [b.pick(others) for _ in range(b.between(0, 2))]
    dims = [d if all(p.dims[i] == d for p in parts) else None for i, d in enumerate(x.dims)]
    return b.sequence("SequenceConstruct", parts, x.type, dims, len(parts), all(p.exact for p in parts))


def sequence_empty(b):
    x = b.tensor()
    return b.sequence("SequenceEmpty", [], x.type, x.dims, 0, x.exact, dtype=x.type)


def merged(q, x):
    return [d if d == e else None for d, e in zip(q.dims, x.dims)]


def insert(b):
    q = b.any("sequence")
    x = b.tensor(q.type, lambda v: v.rank == q.rank)
    at = b.pick([None, b.integer(0), b.integer(-1 if q.least else 0), b.node("SequenceLength", [q], I64, [])])
    return b.sequence("SequenceInsert", [q, x] + ([at] if at else []), q.type, merged(q, x), q.least + 1, q.exact and x.exact)


def erase(b):
    q = b.any("sequence", lambda v: v.least > 0)
    at = b.pick([None, b.integer(0), b.integer(-1)])
    return b.sequence("SequenceErase", [q] + ([at] if at else []), q.type, q.dims, q.least - 1, q.exact)


def element(b):
    q = b.any("sequence", lambda v: v.least > 0)
    at = b.integer(b.between(-q.least, q.least - 1))
    return b.node("SequenceAt", [q, at], q.type, [b.dim() if d is None else d for d in q.dims], exact=q.exact)


def split(b):
    x = b.tensor(fits=lambda v: v.rank > 0)
    axis = b.between(0, x.rank - 1)
    use = b.between(0, 2)
    dims = list(x.dims)
    if use == 0:
        dims[axis] = 1
        return b.sequence("SplitToSequence", [x], x.type, dims, 0, x.exact, axis=axis)
    if use == 1:
        del dims[axis]
        return b.sequence("SplitToSequence", [x], x.type, dims, 0, x.exact, axis=axis, keepdims=0)
    dims[axis] = None
    return b.sequence("SplitToSequence", [x, b.integer(b.between(1, 3))], x.type, dims, 0, x.exact, axis=axis)


def join(b):
    q = b.any("sequence", lambda v: v.least > 0)
    if b.chance(0.4):
        need(None not in q.dims and q.rank < MOST_RANK)
        axis = b.between(0, q.rank)
        return b.node("ConcatFromSequence", [q], q.type, q.dims[:axis] + [b.dim()] + q.dims[axis:], exact=q.exact, axis=axis, new_axis=1)
    need(q.rank > 0)
    axis = b.between(0, q.rank - 1)
    need(all(d is not None for i, d in enumerate(q.dims) if i != axis))
    return b.node("ConcatFromSequence", [q], q.type, q.dims[:axis] + [b.dim()] + q.dims[axis + 1:], exact=q.exact, axis=axis)


def optional(b):
    x = b.tensor()
    made = Value(b.program.fresh("p"), "optional", x.type, x.dims, x.exact)
    b.raw("Optional", [x], [made])
    return b.add(made)


def unpacked(b):
    """The content of an optional, or another value if it is absent."""
    need(b.depth < MOST_DEPTH)
    p = b.any("optional")
    other = b.tensor(p.type)
    has = b.node("OptionalHasElement", [p], BOOL, [])
    some, none = Body(b.program, b), Body(b.program, b)
    first = [some.node("OptionalGetElement", [p], p.type, p.dims, exact=p.exact)]
    return branches(b, has, (some, first), (none, [none.out(other)]))[0]


# --- steps with graphs inside ---


def statements(b, least, most):
    for _ in range(b.between(least, most)):
        b.step(STEPS)


def branches(b, condition, some, none):
    """Adds an If with these two bodies, each with its outputs."""
    outputs = []
    for x, y in zip(some[1], none[1]):
        dims = None
        if x.rank is not None and x.rank == y.rank:
            dims = [d if d == e and d not in some[0].names | none[0].names else b.dim() for d, e in zip(x.dims, y.dims)]
        if x.kind == "sequence":
            dims = [d if d == e and d not in some[0].names | none[0].names else None for d, e in zip(x.dims, y.dims)]
        outputs.append(Value(b.program.fresh("v"), x.kind, x.type, dims, x.exact and y.exact, min(x.least, y.least)))
    graphs = [body.graph(b.program.fresh("g"), [], made) for body, made in (some, none)]
    b.raw("If", [condition], outputs, then_branch=graphs[0], else_branch=graphs[1])
    return [b.add(v) for v in outputs]


def scalar_condition(b):
    if b.chance(0.3):  # known from shapes, or a constant
        x = b.tensor(fits=lambda v: v.rank > 0)
        many = b.node("Gather", [b.node("Shape", [x], I64, [x.rank]), b.integer(0)], I64, [])
        return b.node("Greater", [many, b.integer(b.between(0, 3))], BOOL, [])
    return b.any("tensor", lambda v: v.type == BOOL and v.dims == [])


def if_(b):
    need(b.depth < MOST_DEPTH)
    condition = scalar_condition(b)
    bodies = [Body(b.program, b), Body(b.program, b)]
    for body in bodies:
        statements(body, 0, 3)
    pairs = []
    for _ in range(b.between(1, 3)):
        x = bodies[0].any(bodies[0].pick(["tensor", "tensor", "sequence"]))
        same_rank = x.kind == "sequence" or b.chance(0.7)
        y = bodies[1].any(x.kind, lambda v: v.type == x.type and (not same_rank or v.rank == x.rank))
        pairs.append((x, y))
    outputs = [[body.out(pair[i]) for pair in pairs] for i, body in enumerate(bodies)]
    for made in outputs:
        need(len({v.name for v in made}) == len(made))
    return branches(b, condition, (bodies[0], outputs[0]), (bodies[1], outputs[1]))[-1]


def as_state(body, value):
    """An input of a loop's body for a value whose sizes may change from iteration to iteration."""
    dims = [body.dim() if value.kind == "tensor" else None for _ in value.dims]
    return body.add(Value(body.program.fresh("s"), value.kind, value.type, dims, False if value.type == F32 else True, 0))


def next_state(body, state):
    """The value of the state that an iteration passes on."""
    fits = lambda v: v.type == state.type and v.rank == state.rank  # noqa: E731
    new = body.any(state.kind, fits)
    if state.kind == "tensor" and new.type != BOOL:
        new = tamed(body, new)
    return body.out(new)


def trip_count(b):
    use = b.between(0, 3)
    if use == 0:
        return b.integer(b.between(0, MOST_TRIPS))
    return whole(b)


def going_on(body, counter, go):
    use = body.between(0, 4)
    if use <= 1:
        return body.out(go)
    if use == 2:
        return body.out(body.node("Less", [counter, body.integer(body.between(0, 3))], BOOL, []))
    data = body.any("tensor", lambda v: v.type == BOOL and v.dims == [])
    return body.out(body.node("Or", [data, body.node("Less", [counter, body.integer(1)], BOOL, [])], BOOL, []))


def loop(b):
    need(b.depth < MOST_DEPTH)
    body = Body(b.program, b)
    counter = body.add(Value(b.program.fresh("i"), "tensor", I64, []))
    go = body.add(Value(b.program.fresh("go"), "tensor", BOOL, []))
    starts = [b.any(b.pick(["tensor", "tensor", "sequence"]), lambda v: v.dims is not None) for _ in range(b.between(0, 3))]
    states = [as_state(body, v) for v in starts]
    statements(body, 1, 4)
    ends = [next_state(body, s) for s in states]
    stacked = []
    for _ in range(b.between(0 if states else 1, 2)):
        x = body.any("tensor", lambda v: v.dims is not None and body.fixed(v.dims) and v.rank < MOST_RANK)
        stacked.append(body.out(x))
    count = trip_count(b)
    if b.chance(0.15):  # no count: the condition ends it
        end = body.out(body.node("Less", [counter, count], BOOL, []))
        count = None
    else:
        end = going_on(body, counter, go)
    start = None if b.chance(0.6) else b.any("tensor", lambda v: v.type == BOOL and v.dims == [])
    made = [end] + ends + stacked
    need(len({v.name for v in made}) == len(made))
    outputs = [Value(b.program.fresh("v"), s.kind, s.type, [b.dim() if s.kind == "tensor" else None for _ in s.dims],
                     e.exact and v.exact, 0) for s, e, v in zip(states, ends, starts)]
    trips = b.dim()
    # If there are no iterations, sizes that the body's output does not declare as numbers are 0.
    outputs += [Value(b.program.fresh("v"), "tensor", v.type, [trips] + [d if isinstance(d, int) else b.dim() for d in v.dims], v.exact)
                for v in stacked]
    graph = body.graph(b.program.fresh("g"), [counter, go] + states, made)
    b.raw("Loop", [count, start] + starts, outputs, body=graph)
    for v in outputs:
        b.add(v)
    return outputs[-1]


def scan(b):
    need(b.depth < MOST_DEPTH)
    body = Body(b.program, b)
    first = b.tensor(fits=lambda v: v.rank > 0)
    odd = b.chance(0.3)  # other axes and directions, which the reference evaluator lacks
    axis = b.between(0, first.rank - 1) if odd else 0
    inputs = [first] + [b.tensor(fits=lambda v: v.rank > axis and v.dims[axis] == first.dims[axis]) for _ in range(b.between(0, 1))]
    starts = [b.tensor() for _ in range(b.between(0, 2))]
    states = [body.add(Value(b.program.fresh("s"), "tensor", v.type, list(v.dims), False if v.type == F32 else True)) for v in starts]
    for v in inputs:
        body.add(Value(b.program.fresh("x"), "tensor", v.type, v.dims[:axis] + v.dims[axis + 1:], v.exact))
    parts = body.values[len(states):]
    statements(body, 1, 4)
    ends = []
    for s in states:
        new = body.tensor(s.type, lambda v, s=s: v.dims == s.dims)
        ends.append(body.out(tamed(body, new) if new.type != BOOL else new))
    stacked = [body.out(body.tensor(fits=lambda v: body.fixed(v.dims) and v.rank < MOST_RANK)) for _ in range(b.between(1, 2))]
    made = ends + stacked
    need(len({v.name for v in made}) == len(made))
    outputs = [Value(b.program.fresh("v"), "tensor", s.type, s.dims, e.exact and v.exact) for s, e, v in zip(states, ends, starts)]
    axes = [b.between(0, v.rank) if odd else 0 for v in stacked]
    for v, at in zip(stacked, axes):
        dims = [d if isinstance(d, int) else b.dim() for d in v.dims]  # see loop()
        outputs.append(Value(b.program.fresh("v"), "tensor", v.type, dims[:at] + [first.dims[axis]] + dims[at:], v.exact))
    attrs = {}
    if odd:
        attrs = {"scan_input_axes": [axis] * len(inputs), "scan_output_axes": [a - v.rank - 1 if b.chance(0.3) else a
                                                                               for a, v in zip(axes, stacked)],
                 "scan_input_directions": [b.between(0, 1) for _ in inputs],
                 "scan_output_directions": [b.between(0, 1) for _ in stacked]}
    graph = body.graph(b.program.fresh("g"), states + parts, made)
    b.raw("Scan", starts + inputs, outputs, body=graph, num_scan_inputs=len(inputs), **attrs)
    for v in outputs:
        b.add(v)
    return outputs[-1]


def mapped(b):
    need(b.depth < MOST_DEPTH and b.opset >= 17)
    q = b.any("sequence", lambda v: v.dims is not None)
    body = Body(b.program, b)
    x = body.add(Value(b.program.fresh("x"), "tensor", q.type, [body.dim() if d is None else d for d in q.dims], q.exact))
    others = [b.tensor()] if b.chance(0.4) else []
    given = [body.add(Value(b.program.fresh("x"), "tensor", v.type, v.dims, v.exact)) for v in others]
    statements(body, 1, 3)
    made = body.out(body.tensor())
    dims = [None if d in body.names else d for d in made.dims]
    graph = body.graph(b.program.fresh("g"), [x] + given, [made])
    return b.sequence("SequenceMap", [q] + others, made.type, dims, q.least, made.exact, body=graph)


def called(b):
    """A call of a function with an attribute, whose node may have graphs inside."""
    need(b.program.functions)
    function = b.pick(b.program.functions)
    x = b.tensor(F32)
    made = Value(b.program.fresh("v"), "tensor", F32, x.dims, False)
    b.nodes.append(helper.make_node(function.name, [x.name], [made.name], domain="local", name=b.program.fresh("call"),
                                    **({"slope": b.pick([0.25, 0.5])} if b.chance(0.8) else {})))
    return b.add(made)


STEPS = [(3, unary), (4, binary), (2, scaled), (3, compared), (1, logic), (2, where), (2, cast), (2, size), (1, length), (2, extent),
         (2, total), (1, reduced), (2, product), (1, softmax), (1, summed_up), (1, flat), (1, swapped), (1, joined_axes), (1, transpose),
         (1, unsqueeze), (2, concat), (2, slice_), (1, filled), (1, expanded), (1, made_of_counts), (1, padded), (1, non_zero),
         (2, compress), (1, picked), (1, unique), (2, steps_to), (1, top), (1, suppressed), (2, sequence_of), (1, sequence_empty),
         (3, insert), (1, erase), (2, element), (2, split), (2, join), (1, optional), (1, unpacked), (4, if_), (4, loop), (3, scan),
         (2, mapped), (2, called)]
