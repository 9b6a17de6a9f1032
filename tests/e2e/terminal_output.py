"""Reads the output of a program on a pseudo terminal, for the tests of this folder."""
import os


def rest_of(terminal):
    """Returns all bytes that are written to the terminal's other side until it is closed. `terminal`: of pty.openpty()."""
    out = b""
    while True:
        try:
            part = os.read(terminal, 65536)
        except OSError:  # the other side is closed
            return out
        if not part:
            return out
        out += part
