"""Korch's package of Python beside onnxruntime's and OpenVINO's.

    tests/bench/python.sh call        # what a call costs: four inputs, two outputs, work that is nothing
    tests/bench/python.sh memory      # what a session holds beyond weights and work
    tests/bench/python.sh latency     # the same runs through the session and by korch-run
    tests/bench/python.sh first       # from nothing to the first answer of an ONNX file, and again from the cache

The package is built from this tree and installed into the benches' virtual environment under build/.  Contestants take turns;
a figure is the median over rounds.  Markdown on stdout, words on stderr."""

import argparse
import os
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "peers")]


def arguments():
    p = argparse.ArgumentParser(prog="tests/bench/python.sh", description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("what", choices=["call", "memory", "latency", "first"])
    p.add_argument("names", nargs="*", help="models of korch-make-model, NAME or NAME_small, or FILE.onnx")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--budget", type=float, default=0, help="seconds of tuning for each plan of latency and memory")
    p.add_argument("--clock", choices=["wall", "cpu"], default="wall", help="of latency; cpu: one thread, on shared machines")
    return p.parse_intermixed_args()


def main():
    import setting

    a = arguments()
    setting.enter()
    os.makedirs(setting.OUT, exist_ok=True)
    __import__(f"bench_{a.what}").main(a)


main()
