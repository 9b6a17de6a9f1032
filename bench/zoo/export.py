"""Exports networks of torchvision, timm and transformers, with random weights from a seed, to ONNX files for compare.py.

usage: export.py [--folder bench/models/zoo] [--seconds 240] [--memory 14] [--list] [NAME | FAMILY ...]

Without names: all networks. A name may end in .torchscript or .dynamo for one exporter. Writes NAME.torchscript.onnx and
NAME.dynamo.onnx (the exporters of torch.onnx.export with dynamo=False and True), or NAME.onnx for a network that is not
exported by torch; NAME.0.npz, NAME.1.npz ... with the inputs of each case; NAME.json with the family, the kind of numbers
and the opset; NAME.failed with what an exporter refuses. Keeps files that exist. No weights are downloaded.

Needs the packages of install_torch in scripts/setup.sh, onnxscript (for the exporter dynamo) and onnxruntime (for the
quantised networks), and up to 14 GB of memory. Each network is exported in a process of its own, within the limits of
memory (GB) and time.
"""
import argparse
import contextlib
import json
import os
import pathlib
import resource
import signal
import sys
import time
import warnings

HERE = pathlib.Path(__file__).resolve().parent
EXPORTERS = ("torchscript", "dynamo")


def refuse(text):
    """Prints one line on standard error and exits with 2."""
    print(f"export.py: {text}", file=sys.stderr)
    sys.exit(2)


def load_networks():
    """Returns the table of networks. Imports torch, torchvision, timm and transformers, once for all children."""
    warnings.filterwarnings("ignore")
    try:
        import spec
        import audio, classify, dense, detect, language, quantised, sizes  # noqa: F401  they register their networks
    except ImportError as error:
        refuse(f"{error}; expected the packages of install_torch in scripts/setup.sh")
    return spec


def chosen(networks, families, words):
    """Returns {name: exporters} for the words of the command line."""
    wanted = {}
    for word in words or list(networks):
        base, _, exporter = word.rpartition(".")
        if exporter in EXPORTERS and base in networks:
            wanted.setdefault(base, set()).add(exporter)
        elif word in networks:
            wanted[word] = set(EXPORTERS)
        elif word in families:
            wanted.update({name: set(EXPORTERS) for name, (family, _) in networks.items() if family == word})
        else:
            refuse(f"no network or family '{word}'; legal values are the families {', '.join(families)} and the networks {', '.join(networks)}")
    return wanted


@contextlib.contextmanager
def quiet():
    """Drops what Python and C++ code prints: exporters print whole graphs."""
    sys.stdout.flush(), sys.stderr.flush()
    kept, nowhere = [os.dup(1), os.dup(2)], os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1), os.dup2(nowhere, 2)
    try:
        yield
    finally:
        sys.stdout.flush(), sys.stderr.flush()
        for number, descriptor in enumerate(kept, 1):
            os.dup2(descriptor, number), os.close(descriptor)
        os.close(nowhere)


def attempt(name, how, path, write):
    """Writes one file, completely or not at all, and reports the outcome."""
    begin, partial = time.monotonic(), path.with_suffix(".partial")
    try:
        with quiet():
            write(str(partial))
    except Exception as error:
        text = " ".join(f"{type(error).__name__}: {error}".split())
        with open(path.parent / f"{name}.failed", "a", encoding="utf-8") as failed:
            failed.write(f"{how}: {text[:1000]}\n")
        for left in (partial, pathlib.Path(f"{partial}.data")):
            left.unlink(missing_ok=True)
        print(f"{name} {how}: failed: {text[:200]}", flush=True)
        return
    partial.rename(path)
    print(f"{name} {how}: {path.stat().st_size / 2**20:.1f} MiB in {time.monotonic() - begin:.0f} s", flush=True)


def make(spec, name, exporters, folder):
    """Writes the files of one network, in this process."""
    import numpy as np
    import torch

    torch.manual_seed(0)
    np.random.seed(0)
    torch.set_num_threads(1)
    family, builder = spec.NETWORKS[name]
    (folder / f"{name}.failed").unlink(missing_ok=True)
    with quiet():
        made = builder()
    for number, arrays in enumerate(spec.case_arrays(made)):
        np.savez(folder / f"{name}.{number}.npz", **arrays)
    (folder / f"{name}.json").write_text(json.dumps({"family": family, "kind": made.kind, "cases": len(made.cases or [()]), "exporters": made.exporters}))
    with torch.no_grad():
        if made.write is not None:
            attempt(name, "written", folder / f"{name}.onnx", made.write)
            return
        for how in made.exporters:
            path = folder / f"{name}.{how}.onnx"
            if how not in exporters or path.exists():
                continue
            made.module.eval()  # the TorchScript exporter leaves inner modules in training mode
            attempt(name, how, path, lambda to, how=how: getattr(spec, f"export_{how}")(made, to))


def complete(name, exporters, folder):
    """Whether all files of a network exist, or have failed."""
    facts = folder / f"{name}.json"
    if not facts.exists():
        return False
    if (folder / f"{name}.onnx").exists():
        return True
    exporters = exporters & set(json.loads(facts.read_text())["exporters"])
    failed = folder / f"{name}.failed"
    text = failed.read_text(encoding="utf-8") if failed.exists() else ""
    return all((folder / f"{name}.{how}.onnx").exists() or f"{how}:" in text for how in exporters)


def in_child(args, work):
    """Runs `work` in a forked process within the limits. Returns "" or how the process ended."""
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_AS, (args.memory * 10**9,) * 2)
        signal.alarm(args.seconds)
        status = 1
        try:
            work()
            status = 0
        except Exception as error:
            print(f"{type(error).__name__}: {' '.join(str(error).split())[:300]}", flush=True)
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        return f"took more than {args.seconds} s" if number == signal.SIGALRM else f"ended by {signal.Signals(number).name}"
    return "" if status == 0 else f"ended with status {os.WEXITSTATUS(status)}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.error = lambda message: refuse(f"{message}; --help describes the options")
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--folder", type=pathlib.Path, default=HERE.parent / "models" / "zoo")
    parser.add_argument("--seconds", type=int, default=240, help="limit for one network")
    parser.add_argument("--memory", type=int, default=14, help="limit for one network, in GB of address space")
    parser.add_argument("--list", action="store_true", help="print families and names")
    args = parser.parse_args()
    sys.path.insert(0, str(HERE))
    spec = load_networks()
    if args.list:
        print("\n".join(f"{family} {name}" for name, (family, _) in spec.NETWORKS.items()))
        return
    args.folder.mkdir(parents=True, exist_ok=True)
    for name, exporters in chosen(spec.NETWORKS, spec.FAMILIES, args.names).items():
        if complete(name, exporters, args.folder):
            continue
        ended = in_child(args, lambda name=name, exporters=exporters: make(spec, name, exporters, args.folder))
        if ended:
            print(f"{name}: {ended}", flush=True)
            with open(args.folder / f"{name}.failed", "a", encoding="utf-8") as failed:
                failed.write("".join(f"{how}: {ended}\n" for how in sorted(exporters)))


if __name__ == "__main__":
    main()
