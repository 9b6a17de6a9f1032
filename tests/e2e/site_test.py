#!/usr/bin/env python3
"""Builds the documentation site and checks it: every link has a target, nothing is loaded from the network, and the
reference pages have every command, function and class.

    site_test.py KILTER SOURCE
"""

import html.parser
import json
import os
import re
import subprocess
import sys
import tempfile
import urllib.parse

KILTER, SOURCE = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])


class Page(html.parser.HTMLParser):
    """The links, loaded files and anchors of a page."""

    def __init__(self, path):
        super().__init__()
        self.links, self.loads, self.anchors = [], [], set()
        with open(path, encoding="utf-8") as file:
            self.feed(file.read())

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        if given.get("id"):
            self.anchors.add(given["id"])
        if tag == "a" and given.get("href") is not None:
            self.links.append(given["href"])
        if tag == "link" and given.get("rel") != "canonical" and given.get("href"):
            self.loads.append(given["href"])
        if given.get("src"):
            self.loads.append(given["src"])


def check_page(path, root, pages):
    wrong = []
    page = pages[path]
    for load in page.loads:
        if re.match(r"(https?:)?//", load):
            wrong.append(f"{path} loads {load}")
    for link in page.links + page.loads:
        target, _, anchor = link.partition("#")
        if re.match(r"[a-z]+:|//|data:", link):
            continue
        at = os.path.normpath(os.path.join(os.path.dirname(path), urllib.parse.unquote(target))) if target else path
        if link in (".", "..") or target.startswith("/"):
            continue  # of the page for errors, which is served from the root
        if os.path.isdir(os.path.join(root, at)):
            at = os.path.join(at, "index.html")
        if not os.path.exists(os.path.join(root, at)):
            wrong.append(f"{path}: {link} leads nowhere")
        elif anchor and at in pages and urllib.parse.unquote(anchor) not in pages[at].anchors and not anchor.startswith("__"):
            wrong.append(f"{path}: {link}: there is no such place on the page")
    return wrong


def text_of(root, name):
    with open(os.path.join(root, name), encoding="utf-8") as file:
        return file.read()


def commands_of(table):
    for command in table["commands"]:
        yield command["name"]
        yield from commands_of(command)


def check_reference(root):
    table = json.loads(subprocess.run([KILTER, "help", "--json", "-"], check=True, capture_output=True, text=True).stdout)
    page = text_of(root, "reference/command_line.html")
    missing = [name for name in commands_of(table) if f">{name}<" not in page]
    for header in ("runtime", "compiler"):
        declared = re.findall(r"\b(kilter_\w+)\(", open(f"{SOURCE}/include/kilter/{header}.h").read())
        page = text_of(root, f"reference/{header}.html")
        missing += [name for name in set(declared) if name not in page]
    page = text_of(root, "reference/python.html")
    missing += [name for name in ("kilter.compile", "kilter.Network", "kilter.tune", "kilter.Profile") if f'id="{name}"' not in page]
    assert not missing, f"the reference pages lack {missing}"


def main():
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([sys.executable, f"{SOURCE}/scripts/site/build.py", KILTER, f"{folder}/site"], capture_output=True,
                              text=True, timeout=600)
        assert done.returncode == 0, done.stdout + done.stderr
        root = f"{folder}/site/html"
        names = [os.path.relpath(os.path.join(at, f), root) for at, _, files in os.walk(root) for f in files if f.endswith(".html")]
        pages = {name: Page(os.path.join(root, name)) for name in names}
        wrong = [fault for name in names for fault in check_page(name, root, pages)]
        assert not wrong, "\n".join(wrong)
        check_reference(root)
        print(f"site: {len(names)} pages are fine")


main()
