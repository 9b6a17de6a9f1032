"""Networks in threads, tasks, processes and sub-interpreters; Ctrl-C; and memory that calls must not keep."""
from __future__ import annotations

import asyncio
import gc
import os
import signal
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest

import kilter
from kilter.graph import Graph
from small_networks import Tensor, identity, model_bytes, product, raised_text

A = np.arange(6, dtype=np.float32).reshape(2, 3)

# --- threads and tasks ---


def test_ten_threads_on_one_network_and_on_a_pool():
    net, weights = product()
    feeds = [np.full((64, 64), i, np.float32) for i in range(10)]
    expected = [net(f).copy() for f in feeds]
    with net.pool(3) as pool:
        for run in (lambda f: net(f), lambda f: pool.run({"x": f})["y"], lambda f: pool.submit([f]).result()["y"]):
            wrong = []

            def work(i):
                for _ in range(50):
                    if not np.array_equal(run(feeds[i]), expected[i]):
                        wrong.append(i)

            threads = [threading.Thread(target=work, args=(i,)) for i in range(10)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert wrong == []
        for got, want in zip(pool.map([{"x": f} for f in feeds]), expected):
            np.testing.assert_array_equal(got["y"], want)


def test_a_pool_passes_on_errors_and_stays_usable():
    with identity().pool(2) as pool:
        for _ in range(5):
            assert raised_text(lambda: pool.submit([A[:1]]).result()) == "id: input 'x' must have shape 2x3, got 1x3"
            assert raised_text(lambda: pool.run([A[:1]])) == "id: input 'x' must have shape 2x3, got 1x3"
        np.testing.assert_array_equal(pool.run([A])["y"], A)


def test_async():
    net, weights = product()
    feeds = [np.full((64, 64), i, np.float32) for i in range(6)]

    async def main(run):
        return await asyncio.gather(*(run({"x": f}) for f in feeds))

    with net.pool(2) as pool:
        for run in (net.run_async, pool.run_async):
            for got, feed in zip(asyncio.run(main(run)), feeds):
                np.testing.assert_array_equal(got["y"], net(feed))


def in_child(work, seconds=30):
    """Runs work in a forked child; returns its exit code: 0 if work returned True, 1 if not, -14 if it took too
    long."""
    process = os.fork()
    if process == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(seconds)
        code = 1
        try:
            code = 0 if work() else 1
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_forked_children_run_and_compile():
    net, weights = product()
    x = np.eye(64, dtype=np.float32)
    expected = net(x)
    pool = net.pool(2)
    pool.submit([x]).result()
    assert in_child(lambda: np.array_equal(net(x), expected)) == 0
    assert in_child(lambda: np.array_equal(net.with_options(threads=1)(x), expected)) == 0
    assert in_child(lambda: np.array_equal(pool.submit([x]).result(20)["y"], expected)) == 0
    assert in_child(lambda: np.array_equal(next(pool.map([[x]]))["y"], expected)) == 0
    np.testing.assert_array_equal(net(x), expected)
    pool.close()


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_while_another_thread_runs_never_hangs():
    net, weights = product(256)
    x = np.eye(256, dtype=np.float32)
    expected = net(x).copy()
    done = threading.Event()

    def busy():
        while not done.is_set():
            net(x)

    def work():
        try:
            return np.array_equal(net(x), expected)
        except kilter.UsageError as error:
            return str(error) == "product: the network was in use when this process was forked; create another one here"

    thread = threading.Thread(target=busy)
    thread.start()
    codes = [in_child(work, 10) for _ in range(20)]
    done.set()
    thread.join()
    assert codes == [0] * 20


def run_python(code, *arguments, timeout=120):
    """Runs a program in another interpreter; returns its output and exit code."""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", textwrap.dedent(code), *arguments],
                          capture_output=True, text=True, timeout=timeout)
    return done.stdout + done.stderr, done.returncode


def test_spawned_processes():
    out, code = run_python("""
        import multiprocessing, numpy, kilter
        from kilter.graph import Graph

        def work(net):
            return net(numpy.ones(3, numpy.float32)).tolist()

        if __name__ == "__main__":
            import sys, types
            g = Graph("g")
            g.output(g.input("x", "f32", (3,)) + 1, "y")
            net = kilter.compile(g)
            print(work(net))
            with multiprocessing.get_context("fork").Pool(2) as pool:
                print(pool.map(work, [net, net]))
        """)
    assert (out, code) == ("[2.0, 2.0, 2.0]\n[[2.0, 2.0, 2.0], [2.0, 2.0, 2.0]]\n", 0)


def test_sub_interpreters_are_refused():
    pytest.importorskip("_xxsubinterpreters", reason="Python 3.11 and 3.12 have the module")
    out, code = run_python("""
        import sys, _xxsubinterpreters as sub
        other = sub.create()
        try:
            sub.run_string(other, f"import sys; sys.path[:] = {sys.path!r}\\nimport kilter")
        except sub.RunFailedError as error:
            print(error)
        import kilter
        print(len(kilter.targets()) > 0)
        """)
    assert code == 0, out
    assert "kilter works in the main interpreter only, not in sub-interpreters" in out and "ImportError" in out
    assert out.endswith("True\n")


# --- interrupts ---

INTERRUPTED = """
    import os, signal, sys, threading, time
    import numpy as np
    import kilter
    from kilter.graph import Graph

    g = Graph("loop")
    g.output(g.input("x", "f32", (64, 64)) @ np.eye(64, dtype=np.float32), "y")
    net = kilter.compile(g, threads=1)
    x = np.ones((64, 64), np.float32)
    net(x)

    def runs():
        while True:
            net(x)

    def compiles():
        while True:
            kilter.compile("zoo:densenet121", threads=1).conditions()

    def measures(measure):
        while True:
            measure(seconds=60)

    def kick():
        time.sleep(1)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=kick).start()
    begin = time.monotonic()
    try:
        WORK
    except KeyboardInterrupt:
        print("interrupted", time.monotonic() - begin < 20, np.array_equal(net(x), x))
    """


@pytest.mark.parametrize("work", ["runs()", "compiles()", "net.timer(x, number=10, "
                                                          "repeat=10**7)", "measures(net.bench)",
                                  "measures(net.profile)"])
def test_ctrl_c(work):
    out, code = run_python(INTERRUPTED.replace("WORK", work))
    assert (out, code) == ("interrupted True True\n", 0)


# --- memory ---


def resident_kib():
    with open("/proc/self/status", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS"))


def test_calls_leak_nothing():
    net, weights = product(threads=1)
    x, out = np.ones((64, 64), np.float32), np.empty((64, 64), np.float32)
    g = Graph()

    def refused():
        with pytest.raises(kilter.InputError):
            net(x[:3])

    for call, count in ((lambda: net(x), 10_000), (lambda: net(x, out=out), 10_000), (lambda: net(x.T), 10_000),
                        (lambda: net(Tensor(x)), 10_000), (refused, 2_000), (lambda: g.constant(x), 0)):
        for _ in range(count // 10):
            call()
        gc.collect()
        before = resident_kib()
        for _ in range(count):
            call()
        gc.collect()
        assert resident_kib() - before < 1024  # an array is 16 KiB: 64 of them


def test_networks_leak_nothing():
    data = model_bytes(2)

    def make():
        kilter.compile(data, threads=1)(A)

    for _ in range(30):
        make()
    gc.collect()
    before = resident_kib()
    for _ in range(150):
        make()
    gc.collect()
    assert resident_kib() - before < 150 * 64
    arrays = sys.getrefcount(A)
    identity()(A)
    gc.collect()
    assert sys.getrefcount(A) == arrays
