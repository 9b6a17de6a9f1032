#!/usr/bin/env python3
"""Builds the documentation site: the pages of the repository under their own paths, and reference pages generated from
the command table, the public headers and the Python package. Fails if a link is broken.

usage: build.py KILTER OUT     KILTER: the program; OUT: folder, which is replaced

Needs MkDocs and its plugins, which ./test installs, and no network.
"""
import html
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

SOURCE = pathlib.Path(__file__).resolve().parents[2]
ROOTS = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "LICENSE", "doc", "examples/serve/README.md")
LINK = re.compile(r"\]\(([^)#\s]+)(#[^)\s]*)?\)")


def copy(path, pages):
    """Copies a file of the repository, or writes a page that lists a folder."""
    source, target = SOURCE / path, pages / path
    if target.exists():
        return
    if source.is_dir():
        target.mkdir(parents=True, exist_ok=True)
        listed = sorted(p.name for p in source.iterdir() if p.is_file() and not p.name.startswith("."))
        if not (target / "index.md").exists() and not (source / "README.md").exists():
            lines = "".join(f"- [{name}]({name})\n" for name in listed)
            (target / "index.md").write_text(f"# {path}\n\n{lines}")
            for name in listed:
                copy(f"{path}/{name}", pages)
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)


def links_of(page):
    """Returns the links of a page outside its code blocks."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.S | re.M)
    return [(match.group(1), match.group(2) or "") for match in LINK.finditer(text)]


def follow(pages):
    """Copies every file that a page links to, until none is missing. Links to folders become links to their pages."""
    done = set()
    while todo := [p for p in sorted(pages.rglob("*.md")) if p not in done]:
        for page in todo:
            done.add(page)
            for link, _ in links_of(page):
                if re.match(r"[a-z]+:", link):
                    continue
                target = os.path.relpath((page.parent / link).resolve(), pages.resolve())
                if target.startswith("..") or not (SOURCE / target).exists():
                    continue  # MkDocs reports it
                copy(target, pages)
                if (SOURCE / target).is_dir():
                    index = "README.md" if (SOURCE / target / "README.md").exists() else "index.md"
                    copy(f"{target}/{index}", pages) if index == "README.md" else None
                    page.write_text(page.read_text().replace(f"]({link})", f"]({link.rstrip('/')}/{index})"))


def option_row(option):
    names = ", ".join(f"`{name}`" for name in option["names"])
    value = f" `{option['value']}`" if option.get("value") and not option["by_position"] else ""
    notes = ["required"] if option.get("required") else []
    if option.get("default"):
        notes.append(f"default: {option['default']}")
    if option.get("legal"):
        notes.append("one of " + ", ".join(option["legal"]))
    text = html.escape(option["help"], quote=False).replace("|", "\\|")
    return f"| {names}{value} | {text}{' (' + '; '.join(notes) + ')' if notes else ''} |\n"


def command_section(command, level):
    text = f"{'#' * level} {command['name']}\n\n{command.get('summary', '')}.\n\n"
    for example in command.get("examples", []):
        text += f"{example['what']}:\n\n```sh\n{example['command']}\n```\n\n"
    groups = {}
    for option in command.get("options", []):
        groups.setdefault(option.get("group", "Options"), []).append(option)
    for group, options in groups.items():
        text += f"**{group}**\n\n| option | |\n|---|---|\n" + "".join(option_row(o) for o in options) + "\n"
    if command.get("notes"):
        text += command["notes"] + "\n\n"
    return text + "".join(command_section(c, min(level + 1, 5)) for c in command.get("commands", []))


def command_page(kilter):
    table = json.loads(subprocess.run([kilter, "help", "--json", "-"], check=True, capture_output=True, text=True).stdout)
    intro = "# Command line\n\nGenerated from the table of commands; `kilter help COMMAND` prints the same.\n\n"
    return intro + "".join(command_section(c, 2) for c in table["commands"])


def sections(text):
    """Splits a header into blocks: a comment, and the declarations up to the next comment at the start of a line."""
    blocks, comment, code = [], [], []
    inside = False
    for line in text.splitlines():
        starts = line.startswith("/*") or line.startswith("//")
        if (starts or inside) and not (code and not starts and not inside):
            if code and any(c.strip() for c in code):
                blocks.append((comment, code))
                comment, code = [], []
            comment.append(line)
            inside = (inside or line.startswith("/*")) and "*/" not in line
        else:
            code.append(line)
    blocks.append((comment, code))
    return blocks


def plain(comment):
    """Returns the text of a comment. Its indented lines are code."""
    lines = [re.sub(r"^(/\*\*?|\*/| \*/?|///?<?|//)", "", line).replace("*/", "") for line in comment]
    lines = [line[1:] if line.startswith(" ") else line for line in lines]
    return "\n".join("    " + line if line.startswith("  ") else line for line in lines).strip("\n")


def header_page(name, title):
    text = f"# {title}\n\n`#include <kilter/{name}>`\n\n"
    for comment, code in sections((SOURCE / "include/kilter" / name).read_text()):
        body = [c for c in code if not re.match(r"\s*#(ifndef|define KILTER_\w*_H_|endif|ifdef|pragma|include|else)", c)]
        body = "\n".join(body).strip("\n")
        if comment:
            text += plain(comment) + "\n\n"
        if re.sub(r'(extern "C" \{|\}|namespace kilter \{|//.*|/\*.*)', "", body).strip():
            text += f"```{'c' if name != 'kilter.h' else 'cpp'}\n{body}\n```\n\n"
    return text


def tutorial_page(notebook):
    """Returns a notebook as a page. Its title is its first sentence, up to a colon if there is one."""
    text = ""
    for cell in json.loads(notebook.read_text())["cells"]:
        source = "".join(cell["source"])
        text += f"```python\n{source}\n```\n\n" if cell["cell_type"] == "code" else f"{source}\n\n"
    name = f"{notebook.stem}.ipynb"
    return text + f"The page is the notebook [{name}](../examples/notebooks/{name}).\n"


def python_page():
    names = ["kilter", "kilter.errors", "kilter.graph", "kilter.onnxruntime"]
    return "# Python\n\n[The guide](../doc/python.md) has examples.\n\n" + "".join(f"::: {name}\n\n" for name in names)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    kilter, out = os.path.abspath(sys.argv[1]), pathlib.Path(sys.argv[2]).resolve()
    shutil.rmtree(out, ignore_errors=True)
    pages = out / "pages"
    pages.mkdir(parents=True)
    for root in ROOTS:
        source = SOURCE / root
        for path in sorted(source.rglob("*.md")) if source.is_dir() else [source]:
            copy(str(path.relative_to(SOURCE)), pages)
    follow(pages)
    reference = pages / "reference"
    reference.mkdir()
    (reference / "command_line.md").write_text(command_page(kilter))
    for name, title in (("kilter.h", "C++"), ("runtime.h", "C: the runtime"), ("compiler.h", "C: the compiler")):
        (reference / name.replace(".h", ".md")).write_text(header_page(name, title))
    (reference / "python.md").write_text(python_page())
    tutorials = pages / "tutorials"
    tutorials.mkdir()
    for notebook in sorted((SOURCE / "examples/notebooks").glob("*.ipynb")):
        copy(f"examples/notebooks/{notebook.name}", pages)
        (tutorials / f"{notebook.stem}.md").write_text(tutorial_page(notebook))
    shutil.copyfile(SOURCE / "scripts/site/mkdocs.yml", out / "mkdocs.yml")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", str(out / "mkdocs.yml"), "-d", str(out / "html")]
    with open(out / "mkdocs.yml", "a") as config:
        config.write("docs_dir: pages\n")
    environment = {**os.environ, "PYTHONPATH": str(SOURCE / "python"), "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit("\n".join(line for line in done.stderr.splitlines() if not line.startswith("INFO")))
    print(f"site: {len(list((out / 'html').rglob('*.html')))} pages in {out / 'html'}")


if __name__ == "__main__":
    main()
