"""The networks that the peers run, as torch modules with seeded weights, and their graphs as plain data for runtimes without torch.

The layers are those of the ONNX files in bench/models: batch norms are folded into the preceding convolutions (every peer
gets the folded network), BERT has no pooler and no mask (all positions attend), and CenterNet-DLA34 has plain convolutions only.
"""
import torch
from torch import nn

NAMES = ["resnet18", "resnet50", "mobilenet_v2", "vgg16", "efficientnet_b0", "bert_base_128", "centernet_dla34"]
FOLDED = {"resnet18", "resnet50", "mobilenet_v2", "efficientnet_b0"}  # those with batch norms


def conv(channels_in, channels, window, stride=1):
    return nn.Conv2d(channels_in, channels, window, stride, window // 2)


def conv_relu(*sizes):
    return nn.Sequential(conv(*sizes), nn.ReLU())


class Block(nn.Module):
    """Two convolutions and a residual."""

    def __init__(self, channels_in, channels, stride):
        super().__init__()
        self.conv1, self.conv2 = conv(channels_in, channels, 3, stride), conv(channels, channels, 3)
        self.relu1, self.relu2 = nn.ReLU(), nn.ReLU()

    def forward(self, x, residual):
        return self.relu2(self.conv2(self.relu1(self.conv1(x))) + residual)


class Tree(nn.Module):
    """A level of DLA: two trees of half the depth, or two blocks, joined by a root. `children` are joined, too."""

    def __init__(self, depth, channels_in, channels, stride, root_channels=0, with_input=False):
        super().__init__()
        self.depth, self.with_input = depth, with_input
        root_channels += 2 * channels if depth == 1 else 0
        if with_input:
            root_channels += channels_in
        self.shrink = nn.MaxPool2d(stride, stride) if stride > 1 else nn.Identity()
        if depth == 1:
            self.project = conv(channels_in, channels, 1) if channels_in != channels else nn.Identity()
            self.tree1, self.tree2 = Block(channels_in, channels, stride), Block(channels, channels, 1)
            self.root = conv_relu(root_channels, channels, 1)
        else:
            self.tree1 = Tree(depth - 1, channels_in, channels, stride)
            self.tree2 = Tree(depth - 1, channels, channels, 1, root_channels + channels)

    def forward(self, x, children=()):
        small = self.shrink(x)
        children = [*children, small] if self.with_input else list(children)
        if self.depth > 1:
            first = self.tree1(x)
            return self.tree2(first, [*children, first])
        first = self.tree1(x, self.project(small))
        second = self.tree2(first, first)
        return self.root(torch.cat([second, first, *children], 1))


class CenterNet(nn.Module):
    """CenterNet on DLA-34: a chain of three upsamplings, three heads (80 classes, sizes, offsets)."""

    def __init__(self):
        super().__init__()
        self.base = nn.Sequential(conv_relu(3, 16, 7), conv_relu(16, 16, 3), conv_relu(16, 32, 3, 2))
        self.levels = nn.ModuleList([Tree(1, 32, 64, 2), Tree(2, 64, 128, 2, with_input=True), Tree(2, 128, 256, 2, with_input=True),
                                     Tree(1, 256, 512, 2, with_input=True)])
        widths = [512, 256, 128, 64]
        self.project = nn.ModuleList(conv_relu(a, b, 3) for a, b in zip(widths, widths[1:]))
        self.up = nn.ModuleList(nn.ConvTranspose2d(b, b, 4, 2, 1, groups=b, bias=False) for b in widths[1:])
        self.node = nn.ModuleList(conv_relu(b, b, 3) for b in widths[1:])
        self.heads = nn.ModuleList(nn.Sequential(conv(64, 256, 3), nn.ReLU(), conv(256, out, 1)) for out in (80, 2, 2))

    def forward(self, x):
        x = self.base(x)
        levels = []
        for level in self.levels:
            x = level(x)
            levels.append(x)
        for project, up, node, level in zip(self.project, self.up, self.node, levels[-2::-1]):
            x = node(up(project(x)) + level)
        return tuple(head(x) for head in self.heads)


def centernet():
    network = CenterNet()
    for module in network.modules():
        if isinstance(module, (nn.Conv2d, nn.ConvTranspose2d)):
            nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
            if module.bias is not None:
                nn.init.normal_(module.bias, 0, 0.05)
    return network


class Bert(nn.Module):
    """BERT-base: tokens in, hidden states out. It has no mask, and the sum of position and token-type embeddings is one constant."""

    def __init__(self):
        super().__init__()
        from transformers import BertConfig, BertModel
        bert = BertModel(BertConfig(attn_implementation="sdpa"), add_pooling_layer=False)
        parts = bert.embeddings
        self.words, self.norm, self.layers = parts.word_embeddings, parts.LayerNorm, bert.encoder.layer
        self.register_buffer("places", parts.position_embeddings.weight[:128] + parts.token_type_embeddings.weight[0])

    def forward(self, tokens):
        hidden = self.norm(self.words(tokens) + self.places)
        for layer in self.layers:
            hidden = layer(hidden, None)
            hidden = hidden[0] if isinstance(hidden, tuple) else hidden
        return hidden


def calibrate(network, x):
    """Sets batch norms to the statistics of one run, so that a network with random weights keeps its signal (and fits into fp16)."""
    def take(module, args):
        axes = [0, 2, 3]
        module.running_mean.copy_(args[0].mean(axes))
        module.running_var.copy_(args[0].var(axes) + 1e-5)
    hooks = [m.register_forward_pre_hook(take) for m in network.modules() if isinstance(m, nn.BatchNorm2d)]
    network(x)
    for hook in hooks:
        hook.remove()


def build(name):
    """Returns the network in fp32 on the CPU, and its inputs. Every call returns the same."""
    torch.manual_seed(1)
    with torch.no_grad():
        if name == "bert_base_128":
            return Bert().eval(), (torch.randint(0, 30522, (1, 128)),)
        if name == "centernet_dla34":
            return centernet().eval(), (torch.randn(1, 3, 608, 608),)
        import torchvision
        network = getattr(torchvision.models, name)(weights=None).eval()
        if name in FOLDED:
            from torch.fx.experimental.optimization import fuse
            calibrate(network, torch.randn(1, 3, 224, 224))
            network = fuse(network)
        return network, (torch.randn(1, 3, 224, 224),)


def outputs_of(result):
    return list(result) if isinstance(result, (tuple, list)) else [result]


def described(network, inputs):
    """Returns the exported graph as plain data: steps (name, operator, args, kwargs), weights by name, names of inputs and outputs."""
    with torch.no_grad():
        program = torch.export.export(network, inputs)
    signature = program.graph_signature
    weights = {}
    for node, target in {**signature.inputs_to_parameters, **signature.inputs_to_buffers,
                         **signature.inputs_to_lifted_tensor_constants}.items():
        value = program.state_dict[target] if target in program.state_dict else program.constants[target]
        weights[node] = value.detach().numpy()
    steps = []
    for node in program.graph.nodes:
        if node.op == "call_function":
            steps.append((node.name, getattr(node.target, "__name__", str(node.target)), plain(node.args), plain(node.kwargs)))
        elif node.op == "output":
            outputs = plain(node.args[0])
    return {"steps": steps, "weights": weights, "outputs": outputs, "inputs": list(signature.user_inputs),
            "values": [x.numpy() for x in inputs]}


def plain(value):
    """Converts the arguments of a step to types without torch. A step's result becomes ("step", name)."""
    if isinstance(value, torch.fx.Node):
        return ("step", value.name)
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return str(value)
