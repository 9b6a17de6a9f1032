#!/usr/bin/env python3
"""Checks the order of the tree: includes against links, libraries against doc/map.md, and the sizes of files and functions.

usage: scripts/check_order.py [ROOT]

Includes: a file of src/ includes only files of its own library and of the libraries that it links to, directly or not,
according to src/CMakeLists.txt. Programs without the compiler (tools/worker, tools/agent, tools/broker) include only
files of libraries that they link to. Only src/codegen/ and its tests include files of a back end's folder, or LLVM's.
Order: a library links only to libraries above it in src/CMakeLists.txt and in doc/map.md, and the map names every folder.
Names: outside src/ops/ and src/onnx/ only the patterns of passes (passes/match.h) compare operators by name.
Sizes: at most 600 lines per source file and 80 lines per function body.
Exit codes: 0 fine, 1 something is wrong (each fault is reported with file and line), 2 usage.
"""
import dataclasses
import pathlib
import re
import subprocess
import sys

FILE_LINES, FUNCTION_LINES = 600, 80
# Folders that only the shared libraries contain.
SHARED_ALONE = ("src/exec/c_abi", "src/api/c_abi")
SIZED = (".cpp", ".h", ".py", ".js", ".sh")


@dataclasses.dataclass
class Library:
    name: str
    folders: list
    links: list
    where: str


def commands(file):
    """Returns the CMake commands of a file: name, words, line."""
    text = re.sub(r"(?m)^\s*#.*$", "", file.read_text())
    for match in re.finditer(r"(?ms)^\s*(\w+)\((.*?)\)\s*$", text):
        yield match.group(1), match.group(2).split(), text.count("\n", 0, match.start(1)) + 1


def of_keyword(words, keyword, keywords):
    """Returns the words after a keyword, up to the next keyword."""
    if keyword not in words:
        return []
    rest = words[words.index(keyword) + 1:]
    return rest[:next((i for i, word in enumerate(rest) if word in keywords), len(rest))]


def libraries(root, folder=pathlib.PurePosixPath("src")):
    """Returns the libraries in the order of their definition."""
    file = root / folder / "CMakeLists.txt"
    found = {}
    for name, words, line in commands(file):
        where = f"{folder}/CMakeLists.txt:{line}"
        if name == "add_subdirectory":
            found.update(libraries(root, folder / words[0]))
        elif name == "kilter_library":
            folders = [str(folder / f) for f in of_keyword(words, "FOLDERS", {"LINKS"})]
            found[words[0]] = Library(words[0], folders, of_keyword(words, "LINKS", {"FOLDERS"}), where)
        elif name == "add_library" and folder != pathlib.PurePosixPath("src") and words[1] == "STATIC":
            below = [str(p.relative_to(root)) for p in sorted((root / folder).iterdir()) if p.is_dir() and any(p.glob("*.cpp"))]
            found[words[0]] = Library(words[0], [str(folder), *below], [], where)
        elif name == "target_link_libraries" and words[0] in found:
            found[words[0]].links += [w for w in words[1:] if w not in ("PUBLIC", "PRIVATE", "INTERFACE")]
    return found


def closure(name, all_libraries):
    """Returns a library and all that it links to."""
    reached, open_names = set(), [name]
    while open_names:
        name = open_names.pop()
        if name in all_libraries and name not in reached:
            reached.add(name)
            open_names += all_libraries[name].links
    return reached


def include_lines(file):
    for number, line in enumerate(file.read_text().splitlines(), 1):
        if match := re.match(r'#include "([^"]+/)[^"/]+"', line):
            yield number, match.group(1)[:-1], line


def bad_includes(root, all_libraries, programs):
    """`programs`: folders outside src/, each with the libraries whose closures it may include."""
    library_of = {folder: library.name for library in all_libraries.values() for folder in library.folders}
    own = {folder: (name,) for folder, name in library_of.items()}
    for folder, names in [*own.items(), *programs.items()]:
        name, allowed = names[0], set().union(*(closure(name, all_libraries) for name in names))
        for file in sorted([*(root / folder).glob("*.h"), *(root / folder).glob("*.cpp")]):
            for number, included, line in include_lines(file):
                needed = library_of.get(f"src/{included}")
                if needed and needed not in allowed:
                    yield f"{file.relative_to(root)}:{number}: {line}: {name} does not link to {needed}; legal values are {', '.join(sorted(allowed))}"


def sources(folder):
    return sorted(f for f in folder.rglob("*") if f.suffix in (".h", ".cpp"))


def bad_backend_includes(root):
    for file in sorted(f for top in ("src", "tools", "tests", "examples") for f in sources(root / top)):
        name = str(file.relative_to(root))
        if name.startswith(("src/codegen/", "tests/codegen/")):
            continue
        for number, line in enumerate(file.read_text().splitlines(), 1):
            if re.match(r'#include (<llvm|"codegen/[a-z_0-9]+/)', line):
                yield f"{name}:{number}: {line}: only src/codegen/ includes files of a back end; others use codegen/backend.h"


NAMES_FREE = ("src/ops/", "src/onnx/", "src/passes/match.h", "src/passes/rewrite.h")


def compared_names(root):
    """Yields comparisons of operators by name, which must use fields of OpDef or, in passes, passes/match.h instead."""
    for file in sources(root / "src"):
        name = str(file.relative_to(root))
        if name.startswith(NAMES_FREE):
            continue
        for number, line in enumerate(file.read_text().splitlines(), 1):
            if re.search(r"op->name (==|!=)|(==|!=) [a-z_.]*op->name", line):
                yield f"{name}:{number}: compares an operator's name; use or add a field of OpDef (graph/op_def.h)"
            elif not name.startswith("src/passes/") and re.search(r"\b(is_op|made_by)\(", line):
                yield f"{name}:{number}: looks for an operator by name outside src/passes/; use or add a field of OpDef"


def unplaced_folders(root, all_libraries):
    placed = {folder for library in all_libraries.values() for folder in library.folders}
    for file in sorted((root / "src").rglob("*.cpp")):
        folder = str(file.parent.relative_to(root))
        if folder not in placed and folder not in SHARED_ALONE:
            placed.add(folder)
            yield f"{folder}: no library has its files"


def bad_order(all_libraries):
    above = []
    for library in all_libraries.values():
        for link in library.links:
            if link in all_libraries and link not in above:
                yield f"{library.where}: {library.name} links to {link}, which is below it"
        above.append(library.name)


def bad_map(root, all_libraries):
    rows = {}
    for number, line in enumerate((root / "doc/map.md").read_text().splitlines(), 1):
        for folder in re.findall(r"`([a-z_0-9/]+)/`", line.split("|")[1] if line.startswith("| `") else ""):
            rows[folder] = number
            if not (root / folder).is_dir():
                yield f"doc/map.md:{number}: there is no folder {folder}/"
    for library in all_libraries.values():
        for folder in library.folders:
            if folder not in rows:
                yield f"doc/map.md: no row for {folder}/"
        for link in library.links:
            for other in all_libraries[link].folders if link in all_libraries else []:
                if rows.get(other, 0) > rows.get(library.folders[0], sys.maxsize):
                    yield f"doc/map.md:{rows[other]}: {other}/ is below {library.folders[0]}/, which links to it"


# Lines that end with a brace but do not open a function.
SCOPE = re.compile(r"\s*(?://|(?:(?:inline )?namespace|class|struct|union|enum|extern)\b)|.*= \{$")


def long_functions(file, name):
    """Finds bodies by indentation: from the brace of a declaration outside other bodies to the brace below its first line."""
    scope = True
    declared = closing = begin = None  # indentation of the declaration's first line and of the body; line of its brace
    for number, line in enumerate(file.read_text().splitlines(), 1):
        text = line.strip()
        indentation = len(line) - len(line.lstrip())
        if closing is not None:
            if indentation == closing and text.startswith("}"):
                if number - begin - 1 > FUNCTION_LINES:
                    yield f"{name}:{begin}: a body of {number - begin - 1} lines, expected {FUNCTION_LINES} or fewer; split it"
                closing = declared = None
            continue
        if declared is None and text and not text.startswith(("//", "#", "template", "}")):
            declared = indentation
            scope = SCOPE.match(line) is not None
        if text.endswith("{"):
            if not scope and not SCOPE.match(line):
                closing, begin = declared, number
            declared = None
        elif text.endswith((";", "}", ":")) or not text:
            declared = None


def bad_sizes(root):
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=root, capture_output=True, text=True, check=True)
    for name in listed.stdout.splitlines():
        file = root / name
        if file.suffix not in SIZED or not file.is_file():
            continue
        lines = file.read_text().count("\n")
        if lines > FILE_LINES:
            yield f"{name}: {lines} lines, expected {FILE_LINES} or fewer; split it"
        if file.suffix in (".cpp", ".h"):
            yield from long_functions(file, name)


def main():
    if len(sys.argv) > 2 or (len(sys.argv) == 2 and sys.argv[1].startswith("-")):
        print(__doc__, file=sys.stderr)
        return 2
    root = pathlib.Path(sys.argv[1] if len(sys.argv) == 2 else pathlib.Path(__file__).parent.parent).resolve()
    found = libraries(root)
    faults = [*bad_order(found), *unplaced_folders(root, found), *bad_includes(root, found, {"tools/worker": ("kilter_tune_run", "kilter_compile"), "tools/agent": ("kilter_fleet", "kilter_vm", "kilter_broker_client"), "tools/broker": ("kilter_broker",)}),
              *bad_backend_includes(root), *compared_names(root),
              *bad_map(root, found), *bad_sizes(root)]
    for fault in faults:
        print(fault, file=sys.stderr)
    if not faults:
        print(f"order: {len(found)} libraries of {sum(len(l.folders) for l in found.values())} folders include what they link to")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
