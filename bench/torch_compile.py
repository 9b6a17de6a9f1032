"""Compares torch.compile(backend="kilter") with eager PyTorch and inductor (freezing), interleaved; prints one table.

usage: torch_compile.py [--threads 2] [--seconds 10] [--batch 1] [--no-inductor] [NAME ...]

Networks come from torchvision, timm and transformers, with seeded random weights, fp32, at their usual sizes (images of
224 x 224, 128 tokens). Each round runs every backend for a slice, in random order, until the seconds are spent. A time
is the median of the slices' medians; a ratio is that of Kilter's slice over the other's in each round, with its 95 %
interval. The first call includes capture and compilation; inductor's cache on disk is not used. Inductor needs a C++
compiler.
"""
import os
import statistics
import tempfile
import time

import peers
import torch

try:
    import kilter.torch
except ImportError as missing:
    peers.refuse(f"{missing}; install Kilter's package, or put build/python into PYTHONPATH")

LANGUAGE = {"bert_base": ("BertConfig", "BertModel", {}), "gpt2": ("GPT2Config", "GPT2Model", {"use_cache": False}),
            "distilbert": ("DistilBertConfig", "DistilBertModel", {}), "roberta": ("RobertaConfig", "RobertaModel", {})}
TIMM = {"timm_vit": "vit_tiny_patch16_224", "timm_convnext": "convnext_atto", "deit": "deit_tiny_patch16_224"}
TORCHVISION = ["resnet18", "resnet34", "resnet50", "mobilenet_v2", "mobilenet_v3_large", "vit_b_16", "convnext_tiny",
               "swin_t", "efficientnet_b0", "regnet_y_400mf", "densenet121"]
USUAL = ["resnet18", "resnet50", "mobilenet_v2", "vit_b_16", "convnext_tiny", "timm_vit", "timm_convnext",
         "bert_base", "gpt2"]
NAMES = [*TORCHVISION, *TIMM, *LANGUAGE]


def network_of(name, batch):
    """Returns a network with seeded weights, and its inputs."""
    torch.manual_seed(0)
    if name in LANGUAGE:
        import transformers
        config, model, options = LANGUAGE[name]
        built = getattr(transformers, model)(getattr(transformers, config)(**options))
        return built.eval(), (torch.randint(0, 30000, (batch, 128)),)
    if name in TIMM:
        import timm
        built = timm.create_model(TIMM[name], pretrained=False)
    else:
        import torchvision
        built = torchvision.models.get_model(name, weights=None)
    for weight in built.parameters():
        if weight.dim() > 1 and not weight.any():  # torchvision's ViT head; zeros would make all results equal
            torch.nn.init.normal_(weight, std=0.02)
    return built.eval(), (torch.randn(batch, 3, 224, 224),)


def first_of(result):
    """Returns the first tensor of a network's result."""
    return result if isinstance(result, torch.Tensor) else result[0]


def compiled_by(backend, model, threads):
    if backend == "eager":
        return model
    torch._dynamo.reset()
    if backend == "kilter":
        return torch.compile(model, backend=kilter.torch.backend, options={"threads": threads, "fallback": False})
    return torch.compile(model, backend="inductor", options={"freezing": True})


def measure(args, name):
    """Returns the slices' times by backend, first-call seconds, and Kilter's largest difference from eager."""
    model, inputs = network_of(name, args.batch)
    runners, first, results = {}, {}, {}
    for backend in ["eager", *([] if args.no_inductor else ["inductor"]), "kilter"]:
        run = compiled_by(backend, model, args.threads)
        start = time.perf_counter()
        results[backend] = first_of(run(*inputs))
        first[backend] = time.perf_counter() - start
        runners[backend] = lambda run=run: peers.timed(lambda: run(*inputs))
    wanted = results["eager"]
    off = float((results["kilter"] - wanted).abs().max() / wanted.abs().max().clamp_min(1e-30))
    return peers.interleave(runners, args.seconds), first, off


def print_table(args):
    print(f"{peers.cpu_text(args.threads)}; torch {torch.__version__}; {time.strftime('%Y-%m-%d')}; fp32, "
          f"batch {args.batch}; median ms; interleaved slices of {peers.SLICE} s; first call in s")
    print(f"\n| network, {args.threads} thread{'s' if args.threads > 1 else ''} | eager | inductor | Kilter | "
          f"Kilter / eager (95 %) | Kilter / inductor (95 %) | first call: inductor | Kilter | difference from eager |")
    print("|---|---|---|---|---|---|---|---|---|")
    ratios = {"eager": [], "inductor": []}
    for name in args.names:
        slices, first, off = measure(args, name)
        ms = {key: f"{statistics.median(values):.2f}" for key, values in slices.items()}
        over = {key: peers.paired_ratio(slices["kilter"], slices[key]) for key in slices if key != "kilter"}
        for key, ratio in over.items():
            ratios[key].append(ratio["value"])
        text = {key: peers.ratio_text(ratio, 2) for key, ratio in over.items()}
        inductor = f"{first['inductor']:.1f}" if "inductor" in first else "-"
        print(f"| {name} | {ms['eager']} | {ms.get('inductor', '-')} | {ms['kilter']} | {text['eager']} | "
              f"{text.get('inductor', '-')} | {inductor} | {first['kilter']:.1f} | {off:.1e} |", flush=True)
    means = {key: f"{statistics.geometric_mean(values):.3f}" if values else "-" for key, values in ratios.items()}
    print(f"| geometric mean | | | | {means['eager']} | {means['inductor']} | | | |\n", flush=True)


def main():
    parser = peers.Parser(__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", default=USUAL)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--no-inductor", action="store_true")
    args = parser.parse_args()
    for name in args.names:
        if name not in NAMES:
            peers.refuse(f"no network '{name}'; legal values are {', '.join(NAMES)}")
    peers.keep_to_cpus(args.threads)
    torch.set_num_threads(args.threads)
    with tempfile.TemporaryDirectory(prefix="kilter-inductor-") as cache, torch.inference_mode():
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = cache
        print_table(args)


if __name__ == "__main__":
    main()
