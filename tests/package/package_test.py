#!/usr/bin/env python3
"""Tests what `cmake --install` installs, and that programs outside the tree can be built with it.

usage: package_test.py CHECK... --source FOLDER --build FOLDER --config NAME --libdir NAME

The programs and CMake projects are those of doc/install.md, as written. CHECK is the name of a function below. Needs the
Python package onnx, which writes the model that the programs compile.
"""
import argparse
import ctypes
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import helper, numpy_helper

FIRST = 2 + 12 - 5  # the first output of the model for an input of ones


class Failure(Exception):
    pass


def expect(true, text):
    if not true:
        raise Failure(text)


def run(words, code=0, **options):
    """Runs a command, checks its exit code, and returns what it prints."""
    words = [str(word) for word in words]
    done = subprocess.run(words, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=3600, **options)
    expect(done.returncode == code, f"{' '.join(words)}: expected exit code {code}, got {done.returncode}:\n{done.stdout[-6000:]}")
    return done.stdout


class Package:
    """The build under test, and a folder for one check."""

    def __init__(self, options, work):
        self.source, self.build, self.config = options.source, options.build, options.config
        self.libdir, self.work = options.libdir, work
        header = (self.source / "include/kilter/version.h").read_text()
        self.version = re.search(r'KILTER_VERSION_STRING "(.*)"', header).group(1)
        self.soversion = ".".join(self.version.split(".")[:2 if self.version.startswith("0.") else 1])
        self.page = (self.source / "doc/install.md").read_text()

    def install(self, *components, prefix="prefix"):
        """Installs components into a new folder, and returns the folder."""
        folder = self.work / prefix
        for words in [["--component", name] for name in components] or [[]]:
            run(["cmake", "--install", self.build, "--prefix", folder, *words])
        return folder

    def block(self, language, holding):
        """Returns the only block of the page in this language with this text."""
        blocks = [text for text in re.findall(rf"^```{language}\n(.*?)^```$", self.page, re.S | re.M) if holding in text]
        expect(len(blocks) == 1, f"doc/install.md: expected one block of {language} with '{holding}', found {len(blocks)}")
        return blocks[0]

    def project(self, name, cmake=None):
        """Returns a new folder with the programs of the page and, if it is named, the CMake project with this text."""
        folder = self.work / name
        folder.mkdir()
        (folder / "compile.cpp").write_text(self.block("cpp", "kilter::Network::load"))
        (folder / "run.c").write_text(self.block("c", "kilter_program_load"))
        if cmake:
            (folder / "CMakeLists.txt").write_text(self.block("cmake", cmake))
        return folder

    def check_programs(self, folder):
        """Runs both programs: the values, and the error of a file that is missing."""
        model, compiled = self.work / "model.onnx", self.work / "model.kilter"
        write_model(model)
        for words in ([folder / "compile", model, compiled], [folder / "run", compiled]):
            said = run(words)
            expect(said == f"y starts with {FIRST}\n", f"{words[0].name}: expected 'y starts with {FIRST}', got '{said}'")
        missing = self.work / "missing.kilter"
        for words in ([folder / "compile", missing, compiled], [folder / "run", missing]):
            said = run(words, code=1)
            expect("missing.kilter" in said, f"{words[0].name}: expected an error that names missing.kilter, got '{said}'")


def write_model(path):
    """Writes y = x * weights + bias with small integers, so that every order of the sums gives the same values."""
    weights = np.array([[2, 1], [12, 1], [0, 1]], np.float32)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Add", ["p", "b"], ["y"])], "two_outputs",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, 3])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1, 2])],
        [numpy_helper.from_array(weights, "w"), numpy_helper.from_array(np.array([-5, 7], np.float32), "b")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)


def expected_files(package):
    """Returns the files of each component."""
    lib, config = package.libdir, package.config
    full, short = package.version, package.soversion
    cmake = [f"{lib}/cmake/kilter/{name}.cmake" for name in
             ("kilter-config", "kilter-config-version", "kilter-kilter", f"kilter-kilter-{config}", "kilter-runtime",
              f"kilter-runtime-{config}")]
    return {
        "runtime": [f"{lib}/libkilter_runtime.so.{full}", f"{lib}/libkilter_runtime.so.{short}",
                    "share/doc/kilter-runtime/copyright"],
        "dev": [*cmake, *(f"include/kilter/{name}.h" for name in ("compiler", "kilter", "runtime", "version")),
                *(f"{lib}/{name}" for name in ("libkilter.so", f"libkilter.so.{short}", f"libkilter.so.{full}",
                                               "libkilter_runtime.so", "pkgconfig/kilter.pc", "pkgconfig/kilter-runtime.pc")),
                "share/doc/kilter-dev/copyright"],
        "tools": ["bin/kilter", "bin/kilter-agent", "bin/kilter-broker", "bin/kilter-worker", "share/doc/kilter-tools/copyright"],
        "python_runtime": ["kilter_runtime/libkilter_runtime.so"],
    }


def files_below(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir())


def components(package):
    """Each component has exactly its files; without a component, all but those of the wheels are installed."""
    expected = expected_files(package)
    expected[""] = [name for component in ("runtime", "dev", "tools") for name in expected[component]]
    for component, names in expected.items():
        prefix = package.install(*filter(None, [component]), prefix=f"of_{component}")
        found = files_below(prefix)
        expect(found == sorted(names), f"component '{component}': files that are missing {sorted(set(names) - set(found))}, "
                                       f"and that do not belong there {sorted(set(found) - set(names))}")


def cmake(package):
    """A CMake project finds the package, and gets an error that says what to do if a part is missing."""
    prefix = package.install("runtime", "dev")
    project = package.project("project", "find_package(kilter")
    configure = ["cmake", "-S", project, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release"]
    run([*configure, "-B", project / "build", f"-DCMAKE_PREFIX_PATH={prefix}", "-DCMAKE_CXX_VISIBILITY_PRESET=hidden"])
    run(["cmake", "--build", project / "build"])
    package.check_programs(project / "build")

    text = (project / "CMakeLists.txt").read_text()
    without_runtime = package.install("dev", prefix="dev")
    major, minor = package.version.split(".")[:2]
    for place, wanted, error in (
            (prefix, f"kilter {major}.{int(minor) + 1} REQUIRED", "version: " + package.version),
            (prefix, "kilter REQUIRED COMPONENTS compiler", "has no component 'compiler'; its components are kilter and runtime"),
            (without_runtime, "kilter REQUIRED COMPONENTS runtime", "install Kilter's component runtime")):
        other = package.work / f"wrong {len(list(package.work.iterdir()))}"
        other.mkdir()
        (other / "CMakeLists.txt").write_text(text.replace("kilter 0.1 REQUIRED", wanted))
        said = run(["cmake", "-S", other, "-B", other / "build", "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={place}"], code=1)
        expect(error in " ".join(said.split()), f"find_package({wanted}): expected '{error}', got:\n{said}")
    (other / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.25)\nproject(parts C CXX)\nfind_package(kilter REQUIRED OPTIONAL_COMPONENTS runtime)\n"
        "message(STATUS \"found ${kilter_kilter_FOUND} ${kilter_runtime_FOUND}\")\n")
    said = run(["cmake", "-S", other, "-B", other / "parts", "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={without_runtime}"])
    expect("found TRUE FALSE" in said, f"an optional component that is missing: expected 'found TRUE FALSE', got:\n{said}")


def build_with_pkg_config(package, prefix):
    """Builds both programs with the commands of the page, and returns their folder."""
    project = package.project("by_hand")
    commands = package.block("sh", "pkg-config --cflags").splitlines()
    environment = {**os.environ, "PKG_CONFIG_PATH": str(prefix / package.libdir / "pkgconfig")}
    for command in commands:
        run(["sh", "-c", f"{command} -Wl,-rpath,{prefix / package.libdir}"], cwd=project, env=environment)
    return project


def pkg_config(package):
    package.check_programs(build_with_pkg_config(package, package.install("runtime", "dev")))


def moved(package):
    """An installation works in another folder, and nothing in it names the old folder or the build folder."""
    before = package.install(prefix="before")
    for name in files_below(before):
        text = (before / name).read_bytes()
        if b"\x7fELF" == text[:4]:
            text = run(["readelf", "-d", before / name]).encode()
        for folder in (before, package.build, package.source):
            expect(str(folder).encode() not in text, f"{name} names the folder {folder}")
    after = package.work / "other folder" / "after"
    after.parent.mkdir()
    shutil.move(before, after)
    project = package.project("project", "find_package(kilter")
    run(["cmake", "-S", project, "-B", project / "build", "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={after}"])
    run(["cmake", "--build", project / "build"])
    package.check_programs(project / "build")
    said = run([after / "bin/kilter", "run", package.work / "model.onnx"])
    expect("y: f32[1x2]" in said, f"kilter run: expected an output y of 2 floats, got '{said}'")
    shutil.move(after, package.work / "after")  # a compiler's options cannot contain a blank here
    package.check_programs(build_with_pkg_config(package, package.work / "after"))


def c_interface(package):
    """The program of doc/c_interface.md builds with the command of the page, compiles, runs and profiles."""
    package.page = (package.source / "doc/c_interface.md").read_text()
    prefix = package.install("runtime", "dev")
    (package.work / "compile_and_run.c").write_text(package.block("c", "kilter_compile("))
    build, start = package.block("sh", "pkg-config").splitlines()
    environment = {**os.environ, "PKG_CONFIG_PATH": str(prefix / package.libdir / "pkgconfig")}
    strict = "-Wall -Wextra -Werror -pedantic"
    run(["sh", "-c", f"{build} {strict} -Wl,-rpath,{prefix / package.libdir}"], cwd=package.work, env=environment)
    write_model(package.work / "model.onnx")
    said = run(["sh", "-c", start], cwd=package.work)
    for text in (f"output starts with {FIRST}\n", " ms of ", "MatMul"):
        expect(text in said, f"compile_and_run: expected '{text}', got '{said}'")
    header = "#include <kilter/compiler.h>\nint main(void) { return kilter_option_count() == 0; }\n"
    for compiler, standard in (("cc", "c99"), ("c++", "c++17")):  # in both languages, and the libraries are found
        (package.work / "header.c").write_text(header)
        language = "c" if compiler == "cc" else "c++"
        run(["sh", "-c", f"{compiler} -std={standard} {strict} -x {language} header.c -o header $(pkg-config --cflags --libs kilter) "
             f"-Wl,-rpath,{prefix / package.libdir} && ./header"], cwd=package.work, env=environment)


def version(package):
    """All places that state the version agree, and a build in which they differ is refused."""
    prefix = package.install()
    library = ctypes.CDLL(str(prefix / package.libdir / f"libkilter_runtime.so.{package.soversion}"))
    library.kilter_runtime_version.restype = ctypes.c_char_p
    environment = {**os.environ, "PKG_CONFIG_PATH": str(prefix / package.libdir / "pkgconfig")}
    header = (prefix / "include/kilter/version.h").read_text()
    parts = [re.search(rf"KILTER_VERSION_{part} (\d+)$", header, re.M).group(1) for part in ("MAJOR", "MINOR", "PATCH")]
    found = {
        "CMakeLists.txt": re.search(r"project\(kilter VERSION ([0-9.]+)", (package.source / "CMakeLists.txt").read_text()).group(1),
        "the numbers in version.h": ".".join(parts),
        "kilter --version": run([prefix / "bin/kilter", "--version"]).split()[1],
        "kilter_runtime_version()": library.kilter_runtime_version().decode(),
        "kilter.pc": run(["pkg-config", "--modversion", "kilter"], env=environment).strip(),
        "kilter-runtime.pc": run(["pkg-config", "--modversion", "kilter-runtime"], env=environment).strip(),
    }
    wrong = {place: text for place, text in found.items() if text != package.version}
    expect(not wrong, f"KILTER_VERSION_STRING is {package.version}, but other places state other versions: {wrong}")
    changed = header.replace(package.version, "2.3.4")
    for part, number in (("MAJOR", 2), ("MINOR", 3), ("PATCH", 4)):
        changed = re.sub(rf"(?m)_{part} \d+$", f"_{part} {number}", changed)
    expect("2 SameMajorVersion" in rules_of(package, "2.3.4", changed), "2.3.4 should have the SOVERSION 2")
    for part, found in ((f"MINOR {parts[1]}", "MINOR 99"), (f'"{package.version}"', '"9.9.9"')):
        said = " ".join(rules_of(package, package.version, header.replace(part, found), code=1).split())
        for text in (f"{part}' for version {package.version} of CMakeLists.txt, found", f"{found}'; change both files together"):
            expect(text in said, f"a header with {found}: expected an error with '{text}', got:\n{said}")


def rules_of(package, version, header, code=0):
    """Configures a project of this version with a header of this text, and returns the output of CMake, which includes
    the number in the libraries' names and the compatibility rule."""
    folder = pathlib.Path(tempfile.mkdtemp(dir=package.work))
    (folder / "include/kilter").mkdir(parents=True)
    (folder / "include/kilter/version.h").write_text(header)
    (folder / "CMakeLists.txt").write_text(
        f"cmake_minimum_required(VERSION 3.25)\nproject(kilter VERSION {version} LANGUAGES NONE)\n"
        f"include({package.source}/cmake/Version.cmake)\nmessage(STATUS \"${{KILTER_SOVERSION}} ${{KILTER_COMPATIBILITY}}\")\n")
    return run(["cmake", "-S", folder, "-B", folder / "build", "-G", "Ninja"], code=code)


def debian(package):
    """cpack builds a Debian package of each component, with its files and dependencies. They can be installed here, and
    programs can be built with their contents."""
    run(["cpack", "-G", "DEB", "--config", package.build / "CPackConfig.cmake", "-B", package.work / "cpack",
         "-D", "CPACK_DEBIAN_COMPRESSION_TYPE=none"])  # which saves time
    root = package.work / "root"
    architecture = run(["dpkg", "--print-architecture"]).strip()
    needed = {"runtime": ["libc6", "libstdc++6"], "dev": [f"kilter-runtime (= {package.version})", "libllvm"],
              "tools": ["libllvm", "libsqlite3-0"]}
    files = []
    for component, names in needed.items():
        files.append(package.work / f"cpack/kilter-{component}_{package.version}_{architecture}.deb")
        run(["dpkg-deb", "-x", files[-1], package.work / f"of_{component}"])
        run(["dpkg-deb", "-x", files[-1], root])
        found = files_below(package.work / f"of_{component}/usr")
        expected = sorted(expected_files(package)[component])
        expect(found == expected, f"{files[-1].name}: expected the files {expected}, found {found}")
        depends = run(["dpkg-deb", "-f", files[-1], "Depends"])
        expect(all(name in depends for name in names), f"{files[-1].name}: expected {names} in its dependencies, got {depends}")
        expect(component != "runtime" or "llvm" not in depends, f"{files[-1].name} depends on LLVM: {depends}")
    said = run(["apt-get", "install", "--simulate", *files])
    expect(all(f"Inst kilter-{component} " in said for component in needed), f"apt-get would not install the packages:\n{said}")
    package.check_programs(build_with_pkg_config(package, root / "usr"))
    expect(run([root / "usr/bin/kilter", "--version"]).startswith("kilter "), "the program of kilter-tools does not run")


def symbols_report(package):
    """The check of exported symbols names those that appeared and those that vanished, and says how to accept them."""
    listed = (package.source / "tests/package/libkilter_runtime.symbols").read_text().split()
    changed = package.work / "changed.symbols"
    changed.write_text("\n".join([*listed[1:], "kilter_of_before"]))
    library = package.build / "src/libkilter_runtime.so"
    said = run([sys.executable, package.source / "tests/package/symbols_test.py", library, changed], code=1)
    for text in (f"appeared: {listed[0]}\n", "vanished: kilter_of_before\n", "--update"):
        expect(text in said, f"symbols_test.py: expected '{text}', got:\n{said}")


def subproject(package, *options):
    """Configures the page's project that includes Kilter, with this source instead of a fetched one."""
    project = package.project("project", "FetchContent_MakeAvailable")
    said = run(["cmake", "-S", project, "-B", project / "build", "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", *options,
                "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON", f"-DFETCHCONTENT_SOURCE_DIR_KILTER={package.source}"])
    return project / "build", said


def subdirectory(package):
    """Kilter as a part of another project: configures all of it, and checks from the build files, without building
    Kilter, that both targets are there, that the default build has only what the program links to, that nothing of
    Kilter's own (tests, installation, warnings, options) affects the project, and that the program finds its header."""
    build, _ = subproject(package)
    targets = {line.split(":")[0] for line in run(["ninja", "-C", build, "-t", "targets", "all"]).splitlines()}
    for target in ("kilter_runtime", "kilter_cxx", "kilter", "kilter-worker", "kilter-agent"):
        expect(target in targets, f"the targets of the project lack {target}")
    expect(not [name for name in targets if "tests/" in name or "examples/" in name or "python/" in name],
           "the project has targets of Kilter's tests, examples or Python package")
    made = run(["ninja", "-C", build, "-t", "commands", "all"])
    expect("libkilter_runtime.so" in made and "libkilter.so" not in made and "kilter_tool" not in made,
           "the default build should make the runtime library, and neither libkilter nor the programs")
    commands = json.loads((build / "compile_commands.json").read_text())
    expect(not [row["file"] for row in commands if "-Werror" in row["command"]], "a file is compiled with -Werror")
    own = next(row["command"] for row in commands if row["file"].endswith("run.c"))
    allowed = {f"-I{package.source}/include", "-O3", "-DNDEBUG", "-o", "-c"}
    extra = [word for word in own.split()[1:] if word.startswith("-") and word not in allowed]
    expect(not extra, f"options of Kilter reach the project: {extra}")
    expect("Total Tests: 0" in run(["ctest", "--test-dir", build, "-N"]), "Kilter's tests are among those of the project")
    run(["cmake", "--install", build, "--prefix", package.work / "prefix"])
    expect(not (package.work / "prefix").exists(), "Kilter is installed together with the project")
    run(["ninja", "-C", build, "CMakeFiles/run.dir/run.c.o"])


def subdirectory_build(package):
    """As a part of another project, Kilter builds, and the program runs."""
    build, _ = subproject(package)
    run(["nice", "ninja", "-C", build])
    model, compiled = package.work / "model.onnx", package.work / "model.kilter"
    write_model(model)
    run([package.build / "kilter", "compile", model, "-o", compiled])
    said = run([build / "run", compiled])
    expect(said == f"y starts with {FIRST}\n", f"run: expected 'y starts with {FIRST}', got '{said}'")


def serve(package):
    """The server of examples/serve is built outside the tree with an installed Kilter, and starts. Without its libraries,
    CMake names the packages."""
    prefix, build = package.install("runtime", "dev"), package.work / "build"
    configure = ["cmake", "-S", package.source / "examples/serve", "-B", build, "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={prefix}"]
    said = run(configure, code=1, env={**os.environ, "PKG_CONFIG_LIBDIR": str(package.work)})
    expect("libcpp-httplib-dev" in said, f"without cpp-httplib: expected the names of packages, got:\n{said}")
    run([*configure, "-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_CXX_FLAGS_DEBUG=-O0"])  # which saves time
    run(["ninja", "-C", build])
    said = run([build / "kilter-serve", "--version"])
    expect(said == f"kilter-serve {package.version}\n", f"kilter-serve --version: expected {package.version}, got '{said}'")
    said = run([build / "kilter-serve", "zoo:resnet17"], code=1)
    expect("resnet18" in said, f"kilter-serve zoo:resnet17: expected an error that names resnet18, got '{said}'")


CHECKS = (components, cmake, pkg_config, c_interface, moved, version, debian, symbols_report, subdirectory,
          subdirectory_build, serve)


def options_of(words, checks=()):
    """Reads the command line: the build under test, and the names of checks if there are some."""
    parser = argparse.ArgumentParser()
    if checks:
        parser.add_argument("checks", nargs="+", choices=[check.__name__ for check in checks])
    parser.add_argument("--source", type=pathlib.Path, required=True)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--config", required=True)
    parser.add_argument("--libdir", required=True)
    return parser.parse_args(words)


def main():
    options = options_of(sys.argv[1:], CHECKS)
    failed = 0
    for check in CHECKS:
        if check.__name__ not in options.checks:
            continue
        with tempfile.TemporaryDirectory() as work:
            try:
                check(Package(options, pathlib.Path(work)))
                print(f"{check.__name__}: passed")
            except Failure as failure:
                failed = 1
                print(f"{check.__name__}: FAILED: {failure}", file=sys.stderr)
    return failed


if __name__ == "__main__":
    sys.exit(main())
