#!/usr/bin/env python3
"""The solver against HiGHS on instance files (tests/solver), one thread each, CPU seconds.

usage: solver_vs_highs.py KORCH_OPT LIMIT_S FORM FILE.txt[.gz]...
FORM: plain  rows "a kernel needs a maker of each input" alone
      cover  with one row a primitive: some kernel computes it (no alternatives in these files)
Needs the package highspy.
"""
import gzip
import resource
import subprocess
import sys

import highspy


def read(path):
    op = gzip.open if path.endswith(".gz") else open
    given, wanted, kernels, prims = set(), [], [], []
    with op(path, "rt") as f:
        for line in f:
            w = line.split()
            if not w or w[0] == "#":
                continue
            if w[0] == "input":
                given.add(int(w[1]))
            elif w[0] == "output":
                wanted.append(int(w[1]))
            elif w[0] == "p":
                prims.append(int(w[1]))
            elif w[0] == "k":
                v = list(map(int, w[1:]))
                lists, i = [], 1
                for _ in range(3):
                    lists.append(v[i + 1:i + 1 + v[i]])
                    i += 1 + v[i]
                kernels.append((v[0], *lists))
    return given, wanted, kernels, prims


def highs(path, form, limit):
    given, wanted, kernels, prims = read(path)
    makers, readers, members = {}, {}, {}
    for k, (_, reads, makes, inside) in enumerate(kernels):
        for t in makes:
            makers.setdefault(t, []).append(k)
        for t in reads:
            readers.setdefault(t, []).append(k)
        for v in inside:
            members.setdefault(v, []).append(k)
    inf = highspy.kHighsInf
    h = highspy.Highs()
    h.silent()
    h.setOptionValue("threads", 1)
    h.setOptionValue("time_limit", float(limit))
    h.setOptionValue("mip_rel_gap", 0.0)
    for cost, *_ in kernels:
        h.addVar(0, 1)
        h.changeColCost(h.getNumCol() - 1, cost)
    made = {t: len(kernels) + i for i, t in enumerate(makers)}  # y_t: tensor t is made
    for _ in made:
        h.addVar(0, 1)
    for k in range(len(kernels)):
        h.changeColIntegrality(k, highspy.HighsVarType.kInteger)
    for t, ks in makers.items():
        h.addRow(0, inf, len(ks) + 1, ks + [made[t]], [1.0] * len(ks) + [-1.0])
        for k in readers.get(t, []) if t not in given else []:
            h.addRow(0, inf, 2, [made[t], k], [1.0, -1.0])
    for t in wanted:
        h.changeColBounds(made[t], 1, 1)
    for ks in members.values() if form == "cover" else []:
        h.addRow(1, inf, len(ks), ks, [1.0] * len(ks))
    before = resource.getrusage(resource.RUSAGE_SELF)
    h.run()
    after = resource.getrusage(resource.RUSAGE_SELF)
    info = h.getInfo()
    proved = h.getModelStatus() == highspy.HighsModelStatus.kOptimal
    return after.ru_utime - before.ru_utime, proved, info.objective_function_value, info.mip_gap


def ours(opt, path):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    out = subprocess.run(["sh", "-c", 'case $2 in *.gz) gzip -dc "$2";; *) cat "$2";; esac | "$1" orchestrate -',
                          "-", opt, path], capture_output=True, text=True, check=True).stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime, out.strip().splitlines()[-1]


def main():
    opt, limit, form = sys.argv[1:4]
    for path in sys.argv[4:]:
        t, line = ours(opt, path)
        th, proved, value, gap = highs(path, form, limit)
        print(f"{path}: korch {t:.2f} s ({line}); highs {form} {th:.1f} s, "
              f"{'proved' if proved else f'stopped at gap {100 * gap:.1f} %'} {value:.0f}; "
              f"ratio {'' if proved else '> '}{th / t:.0f}", flush=True)


main()
