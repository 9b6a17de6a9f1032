#!/usr/bin/env python3
"""Prints the last output of each failed test of a run. usage: failed_tests.py JUNIT_XML [LINES, default 8]"""
import sys
import xml.etree.ElementTree as xml

lines = int(sys.argv[2]) if len(sys.argv) > 2 else 8
for case in xml.parse(sys.argv[1]).iter("testcase"):
    if case.find("failure") is None:
        continue
    said = [line for line in (case.findtext("system-out") or "").splitlines() if line.strip()]
    print(f"{case.get('name')} failed after {float(case.get('time')):.0f} s:")
    print("\n".join(f"  {line[:400]}" for line in said[-lines:]) or "  it printed nothing")
