#!/usr/bin/env python3
"""Tests C libraries of networks (kilter compile -o NAME.so, .a, .o, --cmake): C and C++ programs without Kilter are
linked to them, and their results must be bitwise identical to those of `kilter run`.

    library_test.py KILTER MODELS PART...      PART: forms, networks, emulated, errors, sanitizers, page
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import made_models

KILTER, MODELS = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
REC = "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx"
CROSS, EMULATOR = "aarch64-linux-gnu-gcc", ["qemu-aarch64", "-L", "/usr/aarch64-linux-gnu"]

# Reads the inputs from files, runs the network on aligned and unaligned memory, and writes the outputs.
PROGRAM = r"""
#include "NAME.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *memory(size_t bytes, int odd) {
  void *block = NULL;
  if (posix_memalign(&block, 64, bytes + 64) != 0) exit(3);
  return (char *)block + odd;
}

int main(int argc, char **argv) {
  const int odd = atoi(argv[2]);
  (void)argc;
  NAME_net *net = NAME_create(WEIGHTS atoi(argv[1]));
  if (net == NULL) {
    fprintf(stderr, "%s\n", NAME_error());
    return 1;
  }
LOAD
  for (int i = 0; i < 3; ++i) {
    if (NAME_run(net, CALL) != 0) {
      fprintf(stderr, "%s\n", NAME_error());
      return 2;
    }
  }
STORE
  NAME_free(net);
  return 0;
}
"""
CXX_PROGRAM = r"""
#include <cstdio>
#include <exception>
#include <utility>
#include <vector>
#include "NAME.h"
int main() {
  try {
    NAME_network first(WEIGHTS2);
    NAME_network net(std::move(first));
    std::vector<float> input(NAME_UPPER_INPUT_ELEMENTS), output(NAME_UPPER_OUTPUT_ELEMENTS);
    net.run(input.data(), output.data());
    std::printf("%g\n", static_cast<double>(output[0]));
    try {
      net.run(nullptr, output.data());
    } catch (const std::exception &e) {
      std::printf("%s\n", e.what());
    }
  } catch (const std::exception &e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
"""


def run(*command, expect=0, **options):
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, **options)
    assert done.returncode == expect, f"{' '.join(command)}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def kilter(*words, expect=0, **options):
    return run(KILTER, *words, expect=expect, **options)


class Case:
    """A network, its inputs, and what `kilter run` computes for them."""

    def __init__(self, model, name, inputs, *options):
        self.model, self.name, self.inputs, self.options = model, name, inputs, list(options)
        self.files = []
        for port, array in inputs.items():
            np.save(f"{name}.{port}.npy", array)
            array.tofile(f"{name}.{port}.bin")
            self.files += ["--input", f"{port}={name}.{port}.npy"]

    def expected(self, folder, *options):
        kilter("run", self.model, *self.files, *self.options, *options, "--output", folder)
        return {os.path.splitext(file)[0]: np.load(os.path.join(folder, file)) for file in os.listdir(folder)}

    def compile(self, output, *options):
        return kilter("compile", self.model, *self.files, *self.options, *options, "-o", output)


def arguments(header, name):
    """The inputs and outputs in the order of the generated function: C type and name."""
    text = open(header).read()
    given = re.search(rf"int {name}_run\({name}_net \*net(.*?)\);", text, re.S).group(1)
    found = re.findall(r", (const )?(\w+) \*(\w+)", given)
    return [(kind, port) for const, kind, port in found if const], [(kind, port) for const, kind, port in found if not const]


def driver(name, folder, weights=""):
    inputs, outputs = arguments(os.path.join(folder, f"{name}.h"), name)
    load, store = [], []
    for kind, port in inputs + outputs:
        load.append(f"  const size_t {port}_bytes = {name.upper()}_{port.upper()}_ELEMENTS * sizeof({kind});")
        load.append(f"  {kind} *{port} = memory({port}_bytes, odd);")
    for _, port in inputs:
        load.append(f'  FILE *{port}_file = fopen("{name}.{port}.bin", "rb");')
        load.append(f"  if (fread({port}, 1, {port}_bytes, {port}_file) != {port}_bytes) return 3;")
        load.append(f"  fclose({port}_file);")
    for _, port in outputs:
        store.append(f'  FILE *{port}_file = fopen("{name}.{port}.out", "wb");')
        store.append(f"  if (fwrite({port}, 1, {port}_bytes, {port}_file) != {port}_bytes) return 3;")
        store.append(f"  fclose({port}_file);")
    text = PROGRAM.replace("WEIGHTS", f'"{weights}",' if weights else "").replace("LOAD", "\n".join(load))
    text = text.replace("STORE", "\n".join(store)).replace("CALL", ", ".join(port for _, port in inputs + outputs))
    with open(f"{name}_main.c", "w") as out:
        out.write(text.replace("NAME", name))
    return f"{name}_main.c", [port for _, port in outputs]


def check(case, program, outputs, expected, runner=()):
    for threads in ("1", "2", "0"):
        for odd in ("0", "4"):
            run(*runner, program, threads, odd)
            for port, (label, want) in zip(outputs, expected.items(), strict=True):
                got = np.fromfile(f"{case.name}.{port}.out", want.dtype).reshape(want.shape)
                assert got.tobytes() == want.tobytes(), f"{case.name}: {label} differs with {threads} threads"


def small_net():
    """A convolution, a product and an embedding, with an input of each kind."""
    rng = np.random.default_rng(3)
    initial = {
        "w": rng.standard_normal((24, 8, 3, 3), dtype=np.float32),
        "table": rng.standard_normal((16, 24), dtype=np.float32),
        "m": rng.standard_normal((24, 10), dtype=np.float32),
    }
    nodes = [
        helper.make_node("Conv", ["input", "w"], ["c"], name="conv", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("GlobalAveragePool", ["r"], ["g"]),
        helper.make_node("Flatten", ["g"], ["f"]),
        helper.make_node("Gather", ["table", "class"], ["e"], name="words"),
        helper.make_node("Add", ["f", "e"], ["s"]),
        helper.make_node("MatMul", ["s", "m"], ["output"], name="product"),
    ]
    return made_models.model(
        nodes,
        [made_models.value("input", [1, 8, 20, 20]), made_models.value("class", [1], TensorProto.INT64)],
        [made_models.value("output", [1, 10])],
        [numpy_helper.from_array(array, name) for name, array in initial.items()],
    )


def small_case(name="small", word=5):
    onnx.save(small_net(), "small.onnx")
    image = np.random.default_rng(1).standard_normal((1, 8, 20, 20), dtype=np.float32)
    return Case("small.onnx", name, {"input": image, "class": np.array([word], np.int64)})


def inputs_of(case):
    """Renames the files of inputs to the library's names of the arguments."""
    for port in case.inputs:
        if port == "class":
            shutil.copy(f"{case.name}.class.bin", f"{case.name}.class_value.bin")


def test_forms():
    case = small_case()
    inputs_of(case)
    expected = case.expected("expected")
    os.makedirs("include")
    os.makedirs("elsewhere")
    text = case.compile("small.so", "--header", "include/small.h")
    assert re.fullmatch(r"small\.so: library of small \(weights \d+\.\d MB, kernels \d\.\d\d MB, the rest \d\.\d{3} MB\) for \S+ in [1-9]\d* ms, "
                        r"\d+\.\d MB; also written: include/small\.h\n", text), text
    main, outputs = driver("small", "include")
    flags = ["gcc", "-std=gnu11", "-Wall", "-Wextra", "-Werror", main, "-Iinclude", "-o"]
    run(*flags, "shared", "./small.so", "-Wl,-rpath,.")
    check(case, "./shared", outputs, expected)
    linked = run("ldd", "./small.so")
    assert not re.search("kilter|stdc|LLVM", linked), linked
    names = set(re.findall(r" T (\w+)", run("nm", "-D", "--defined-only", "small.so")))
    assert names == {"small_create", "small_run", "small_free", "small_error"}, names
    case.compile("libsmall.a")
    run(*flags, "static", "libsmall.a", "-pthread", "-static")
    check(case, "./static", outputs, expected)
    case.compile("small.o")
    run(*flags, "object", "small.o", "-pthread")
    check(case, "./object", outputs, expected)
    case.compile("elsewhere/small.so", "--weights", "file")
    assert os.path.getsize("elsewhere/small.weights") > 0
    main, outputs = driver("small", "elsewhere", "elsewhere/small.weights")
    os.remove("small.h")
    run("gcc", main, "-Ielsewhere", "-o", "apart", "elsewhere/small.so", "-Wl,-rpath,elsewhere")
    check(case, "./apart", outputs, expected)
    damage_weights("elsewhere/small.weights")


def damage_weights(file):
    data = bytearray(open(file, "rb").read())
    for wrong, text in [
        (bytes([data[0] ^ 1]) + data[1:], f"{file}: this file does not contain the weights of 'made'; copy the file "
         "again or compile the network again"),
        (data[:-64], f"{file} is {len(data) - 64} bytes; the weights of 'made' are {len(data)}"),
        (None, f"{file}: No such file or directory"),
    ]:
        os.remove(file)
        if wrong is not None:
            with open(file, "wb") as out:
                out.write(wrong)
        got = run("./apart", "1", "0", expect=1)
        assert got == text + "\n", got


def test_networks():
    """Real networks; the program of C++ runs one of them; a CMake project builds the sources."""
    rng = np.random.default_rng(2)
    resnet = Case("zoo:resnet18", "resnet", {"input": rng.standard_normal((1, 3, 224, 224), dtype=np.float32)})
    rec = Case(os.path.join(MODELS, REC), "rec", {"x": rng.standard_normal((1, 3, 48, 320), dtype=np.float32)})
    for case in (resnet, rec):
        expected = case.expected(f"{case.name}.expected")
        case.compile(f"{case.name}/", "--cmake", "--name", case.name)
        main, outputs = driver(case.name, case.name)
        with open("CMakeLists.txt", "w") as out:
            out.write(f"cmake_minimum_required(VERSION 3.16)\nproject(use C)\nadd_subdirectory({case.name})\n"
                      f"add_executable(use {main})\ntarget_link_libraries(use PRIVATE {case.name})\n")
        run("cmake", "-S", ".", "-B", f"{case.name}.build", "-DCMAKE_BUILD_TYPE=Release")
        run("cmake", "--build", f"{case.name}.build")
        check(case, f"{case.name}.build/use", outputs, expected)
    with open("main.cpp", "w") as out:
        out.write(CXX_PROGRAM.replace("WEIGHTS2", "2").replace("NAME_UPPER", "RESNET").replace("NAME", "resnet"))
    run("g++", "-std=c++17", "-Wall", "-Wextra", "-Werror", "main.cpp", "-Iresnet", "resnet.build/resnet/libresnet.a",
        "-pthread", "-o", "cxx")
    text = run("./cxx")
    assert text.endswith("'resnet18': input 'input' is a null pointer; expected 602112 bytes\n"), text
    # A compiled file can also become a library, with the same code.
    resnet.compile("resnet.kilter")
    kilter("compile", "resnet.kilter", "-o", "again/", "--cmake", "--name", "resnet")
    assert open("again/resnet.c").read() == open("resnet/resnet.c").read()


def test_emulated():
    """Libraries for AArch64, and code that the processor cannot run."""
    case = small_case()
    inputs_of(case)
    if shutil.which(CROSS) is None or shutil.which(EMULATOR[0]) is None:
        print(f"library: skipped: no {CROSS} or {EMULATOR[0]}; ./test installs them")
        sys.exit(77)
    case.compile("small.so", "--target", "neoverse-n1")
    main, outputs = driver("small", ".")
    run(CROSS, main, "-o", "shared", "./small.so", "-Wl,-rpath,.")
    run(*EMULATOR, "./shared", "2", "4")
    got = np.fromfile("small.output.out", np.float32)
    want = case.expected("expected")["output"].ravel()
    assert np.allclose(got, want, rtol=1e-4, atol=1e-4), (got, want)
    case.compile("sve.so", "--target", "neoverse-v1", "--name", "small")
    run(CROSS, main, "-o", "sve", "./sve.so", "-Wl,-rpath,.")
    text = run("qemu-aarch64", "-cpu", "cortex-a57", "-L", "/usr/aarch64-linux-gnu", "./sve", "1", "0", expect=1)
    assert re.fullmatch(r"'made' was compiled for target neoverse-v1 and needs CPU features that this machine lacks: .*sve.*; "
                        r"compile it for this machine\n", text), text
    if shutil.which("qemu-x86_64") is not None and os.uname().machine == "x86_64":
        case.compile("v4.so", "--target", "znver4", "--name", "small")
        run("gcc", main, "-o", "v4", "./v4.so", "-Wl,-rpath,.")
        text = run("qemu-x86_64", "./v4", "1", "0", expect=1)
        assert "needs CPU features that this machine lacks: " in text and "avx512f" in text, text


def loop_net():
    body = helper.make_graph([helper.make_node("Identity", ["c"], ["d"]), helper.make_node("Add", ["v", "v"], ["w"])], "body",
                             [made_models.value("i", [], TensorProto.INT64), made_models.value("c", [], TensorProto.BOOL),
                              made_models.value("v")],
                             [made_models.value("d", [], TensorProto.BOOL), made_models.value("w")])
    return made_models.model([helper.make_node("Loop", ["n", "", "x"], ["y"], body=body)],
                             [made_models.value("n", [], TensorProto.INT64), made_models.value("x")],
                             [made_models.value("y")])


def top_k_net():
    k = numpy_helper.from_array(np.array([3], np.int64), "k")
    return made_models.model([helper.make_node("TopK", ["x", "k"], ["v", "i"])], [made_models.value("x")],
                             [made_models.value("v", [1, 3]), made_models.value("i", [1, 3], TensorProto.INT64)], [k])


def no_weights():
    """A library with --weights file, of a network without weights."""
    onnx.save(made_models.softmaxes(5), "soft.onnx")
    case = Case("soft.onnx", "soft", {"v0": np.random.default_rng(4).standard_normal((1, 8), dtype=np.float32)})
    expected = case.expected("soft.expected")
    case.compile("soft.so", "--weights", "file")
    main, outputs = driver("soft", ".", "soft.weights")
    run("gcc", main, "-o", "soft", "./soft.so", "-Wl,-rpath,.")
    check(case, "./soft", outputs, expected)


def odd_names():
    """Names of tensors that are macros, types or functions, or that differ only in case; and no weights in a file."""
    names = ["x", "X", "errno", "EOF", "uint8_t", "inputs", "instance_run", "net", "odd_run", "für", "int", "1st", "a b"]
    nodes = [helper.make_node("Relu", [name], [f"{name}.out"]) for name in names]
    onnx.save(made_models.model(nodes, [made_models.value(name, [1, i + 1]) for i, name in enumerate(names)],
                                [made_models.value(f"{name}.out", [1, i + 1]) for i, name in enumerate(names)]), "odd.onnx")
    kilter("compile", "odd.onnx", "-o", "odd.so", "--weights", "file")
    sizes = re.findall(r"#define (\w+_ELEMENTS) (\d+)", open("odd.h").read())
    assert len(sizes) == len({name for name, _ in sizes}) == 2 * len(names), sizes
    no_weights()
    inputs, outputs = arguments("odd.h", "odd")
    arrays = "".join(f"static float a{i}[16];" for i in range(2 * len(names)))
    with open("odd.cpp", "w") as out:
        out.write(f'#include <cerrno>\n#include <cstdio>\n#include "odd.h"\n{arrays}\nint main() {{\n  odd_network net("odd.weights");\n'
                  f"  net.run({', '.join(f'a{i}' for i in range(len(inputs) + len(outputs)))});\n}}\n")
    run("g++", "-std=c++11", "-Wall", "-Wextra", "-Werror", "odd.cpp", "./odd.so", "-Wl,-rpath,.", "-o", "odd")
    run("./odd")
    if shutil.which(CROSS) is not None and os.uname().machine == "x86_64":
        kilter("compile", "odd.onnx", "-o", "odd_sources", "--cmake")
        text = run(CROSS, "-Wa,-I,odd_sources", "-Iodd_sources", "-c", "odd_sources/odd_sources.c", expect=1)
        assert "the kernels are for 64-bit x86-64 Linux: use a C compiler for it" in text, text


def test_errors():
    case = small_case(word=5)
    inputs_of(case)
    onnx.save(loop_net(), "loop.onnx")
    onnx.save(top_k_net(), "topk.onnx")
    os.makedirs("project")
    with open("project/CMakeLists.txt", "w") as out:
        out.write("project(mine)\n")
    page = "write a compiled file, and load it with libkilter_runtime (doc/install.md)"
    for words, text in [
        (["small.onnx", "-o", "x.so", "--name", "for"], "--name 'for': expected a C identifier that is not a keyword: a letter, "
         "then up to 99 letters, digits and single '_'"),
        (["small.onnx", "-o", "pool.so"], "a library cannot be called 'pool', which is a name of the C library or of the "
         "runtime part; give another name with --name"),
        (["small.onnx", "-o", "x.so", "--header", "x.so"], "x.so: two files of the library would have this name"),
        (["small.onnx", "-o", "x.so", "--header", "here/"], "here/: a folder; expected the name of a file"),
        (["small.onnx", "-o", "x.so", "--header", "nowhere/x.h"], "cannot write file 'nowhere/x.h': No such file or directory"),
        (["small.onnx", "-o", "project", "--cmake"], "project/CMakeLists.txt: exists and does not belong to a library that "
         "Kilter generated; give another folder"),
        (["small.onnx", "-o", "x.so", "--cc", "true"], "the C compiler 'true' did not write x.so"),
        (["small.onnx", "-o", "x.so", "--cc", "gcc -m32 -include /dev/null"], "failed with status"),
        (["small.onnx", "-o", "x.so", "--cc", "nocc -m64"], "C compiler 'nocc -m64': there is no such program"),
        (["small.onnx", "-o", "x.kilter", "--header", "x.h"], "x.kilter: expected a name that ends in .so (shared library), "
         ".a (static library) or .o (object file)"),
        (["small.onnx", "-o", "folder", "--cmake", "--header", "x.h"], "--header cannot be used with --cmake; the header "
         "in the folder is folder.h"),
        (["small.onnx", "-o", "x.so", "--weights", "inline"], "--weights: inline"),
        (["loop.onnx", "-o", "x.so"], "has control flow, sequences, strings or shapes that depend on data; "
         f"a library cannot contain these: {page}"),
        (["topk.onnx", "-o", "x.so"], "'made' has operators whose code is in libkilter_runtime: TopK; a library without "
         "Kilter cannot contain them"),
        (["small.onnx", "-o", "missing/x.so"], "missing"),
        (["small.onnx", "-o", "x.so", "--cc", "false"], "failed"),
    ]:
        got = subprocess.run([KILTER, "compile", *words], capture_output=True, text=True, timeout=300)
        assert got.returncode != 0 and text in got.stderr, (words, got.returncode, got.stderr)
    assert not os.path.exists("x.so") and not os.path.exists("x.h")
    assert open("project/CMakeLists.txt").read() == "project(mine)\n"
    odd_names()
    interrupted()
    # The library's own errors.
    case.compile("small.so")
    main, _ = driver("small", ".")
    run("gcc", main, "-o", "shared", "./small.so", "-Wl,-rpath,.")
    assert run("./shared", "1025", "0", expect=1) == ("1025 threads are not legal; expected 1 to 1024, or 0 for as many as "
                                                      "there are CPUs\n")
    np.array([16], np.int64).tofile("small.class_value.bin")
    assert run("./shared", "1", "0", expect=2) == ("'words': element 0 of the indices is 16; legal values are -16 to 15\n")


def interrupted():
    """Ctrl-C while the C compiler runs: both end, and no file is left."""
    os.makedirs("temporary", exist_ok=True)
    here = os.getcwd()
    with open("slow_cc", "w") as out:
        out.write(f"#!/bin/sh\ntouch {here}/started\nexec sleep 300\n")
    os.chmod("slow_cc", 0o755)
    child = subprocess.Popen([KILTER, "compile", "small.onnx", "-o", "slow.so", "--cc", f"{here}/slow_cc"],
                             start_new_session=True, stderr=subprocess.PIPE, env={**os.environ, "TMPDIR": f"{here}/temporary"})
    end = time.monotonic() + 60
    while not os.path.exists("started") and time.monotonic() < end:
        time.sleep(0.02)
    assert os.listdir("temporary"), "the library is built in a folder of its own"
    os.killpg(child.pid, signal.SIGINT)
    child.communicate(timeout=60)
    assert child.returncode == 130, child.returncode
    assert not os.listdir("temporary") and not os.path.exists("slow.so") and not os.path.exists("slow.h")


# Many threads, each with an instance; one instance used by two threads; a child of fork().
STRESS = r"""
#include "small.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static float image[SMALL_INPUT_ELEMENTS], first[SMALL_OUTPUT_ELEMENTS];
static const int64_t word = 5;
static small_net *shared;

static void *own(void *threads) {
  float scores[SMALL_OUTPUT_ELEMENTS];
  small_net *net = small_create(*(int *)threads);
  if (net == NULL) abort();
  for (int i = 0; i < 50; ++i) {
    if (small_run(net, image, &word, scores) != 0 || memcmp(scores, first, sizeof first) != 0) abort();
  }
  small_free(net);
  return NULL;
}

static void *contend(void *unused) {
  float scores[SMALL_OUTPUT_ELEMENTS];
  (void)unused;
  for (int i = 0; i < 200; ++i) {
    if (small_run(shared, image, &word, scores) != 0 && strstr(small_error(), "is already running in another thread") == NULL)
      abort();
  }
  return NULL;
}

int main(void) {
  pthread_t t[32];
  int threads[32];
  for (int i = 0; i < SMALL_INPUT_ELEMENTS; ++i) image[i] = (float)(i % 17) / 17;
  shared = small_create(3);
  if (shared == NULL || small_run(shared, image, &word, first) != 0) return 1;
  for (int i = 0; i < 32; ++i) threads[i] = 1 + i % 3;
  for (int i = 0; i < 32; ++i) pthread_create(&t[i], NULL, own, &threads[i]);
  for (int i = 0; i < 32; ++i) pthread_join(t[i], NULL);
  for (int i = 0; i < 4; ++i) pthread_create(&t[i], NULL, contend, NULL);
  for (int i = 0; i < 4; ++i) pthread_join(t[i], NULL);
  const pid_t child = fork();
  if (child == 0) {
    float scores[SMALL_OUTPUT_ELEMENTS];
    const int bad = small_run(shared, image, &word, scores) != 0 || memcmp(scores, first, sizeof first) != 0;
    small_free(shared);
    _exit(bad);
  }
  int status = 1;
  if (waitpid(child, &status, 0) != child || status != 0) return 2;
  small_free(shared);
  small_free(NULL);
  if (small_run(NULL, image, &word, first) == 0) return 3;
  puts("fine");
  return 0;
}
"""


def test_sanitizers():
    case = small_case()
    case.compile("small/", "--cmake")
    with open("stress.c", "w") as out:
        out.write(STRESS)
    for kind in ("address,undefined", "thread"):
        run("gcc", "-std=gnu11", "-g", "-O1", f"-fsanitize={kind}", "-fno-sanitize-recover=all", "-Wall", "-Wextra", "-Werror",
            "-Wa,-I,small", "-Ismall", "stress.c", "small/small.c", "-pthread", "-o", "stress")
        assert run("./stress").endswith("fine\n"), kind
    for compiler in (["gcc", "-std=c11", "-pedantic"], ["clang", "-std=gnu11"]):
        if shutil.which(compiler[0]) is not None:
            run(*compiler, "-O2", "-Wall", "-Wextra", "-Wshadow", "-Wconversion", "-Wno-sign-conversion", "-Werror", "-Wa,-I,small",
                "-Ismall", "-c", "small/small.c", "-o", "small.o")


def test_page():
    """The commands and programs of doc/libraries.md."""
    page = os.path.join(os.path.dirname(__file__), "../../doc/libraries.md")
    os.makedirs("bin")
    os.symlink(KILTER, "bin/kilter")
    path = {**os.environ, "PATH": f"{os.getcwd()}/bin:{os.environ['PATH']}"}
    files = {"c": "main.c", "cpp": "main.cpp", "cmake": "CMakeLists.txt"}
    printed = []
    for kind, text in re.findall(r"^```(\w+)\n(.*?)^```$", open(page).read(), re.S | re.M):
        if kind in files:
            with open(files[kind], "w") as out:
                out.write(text)
        if kind == "sh":
            printed.append(run("sh", "-e", "-c", text, env=path))
        if kind == "cpp":
            printed.append(run("sh", "-e", "-c", "c++ -std=c++17 main.cpp ./squeezenet.so -Wl,-rpath,. -o cxx && ./cxx"))
    scores = re.findall(r"score of class 0: (\S+)", "".join(printed))
    assert len(scores) == 3 and len(set(scores)) == 1, printed


def main():
    for part in sys.argv[3:]:
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            globals()[f"test_{part}"]()
            print(f"library: {part}: fine")
            os.chdir("/")


main()
