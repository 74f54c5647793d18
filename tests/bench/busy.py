#!/usr/bin/env python3
"""Several threads while another program keeps one of the cores busy, and on a quiet machine.

    tests/bench/busy.py [--bin build/bin] [--before DIR] [--threads 2] [--rounds 15] [--repeat 50] PLAN.korch...

Contestants take turns: the plan on one thread, on several, and by another build (--before) where one is named; each turn
is a korch-run of its own with --repeat runs, of which it says the median. First with nothing beside, then with a process
that spins on the last core. A round in which other programs had more than --foreign of the cores is void and run again,
up to --void times. Printed: medians over rounds, and ratios of the same rounds with their quartiles.
--first: for a machine that never is quiet (root's right). With nothing beside, contestants run before all other programs
(chrt -f); on the busy core they and the process that spins are one group of processes beside which others count little (its nice
value is -20). The share that others had then voids no round.
"""
import argparse
import json
import os
import resource
import statistics
import subprocess
import sys

TICK = os.sysconf("SC_CLK_TCK")


def busy_s():
    """CPU seconds that anybody had, of all cores."""
    with open("/proc/stat") as f:
        v = [int(x) for x in f.readline().split()[1:9]]
    return (sum(v) - v[3] - v[4]) / TICK


def elapsed_s():
    with open("/proc/uptime") as f:
        return float(f.read().split()[0])


def own_s():
    return sum(resource.getrusage(w).ru_utime + resource.getrusage(w).ru_stime
               for w in (resource.RUSAGE_CHILDREN, resource.RUSAGE_SELF))


def process_s(p):
    if p is None:
        return 0
    with open(f"/proc/{p.pid}/stat") as f:
        v = f.read().rsplit(")", 1)[1].split()
    return (int(v[11]) + int(v[12])) / TICK


def go_first():
    """All that this starts is a group of its own to the scheduler, which comes before others."""
    if os.getpid() != os.getsid(0):
        if os.getpid() == os.getpgrp():
            sys.exit("busy.py: --first: start it from a script, or by setsid")
        os.setsid()
    with open("/proc/self/autogroup", "w") as f:
        f.write("-20")


class Contestant:
    def __init__(self, name, folder, threads, prefix):
        self.name, self.folder, self.threads, self.prefix = name, folder, threads, prefix

    def run(self, plan, repeat):
        out = subprocess.run(self.prefix + [f"{self.folder}/korch-run", plan, "--threads", str(self.threads),
                                            "--repeat", str(repeat), "--warmup", "5", "--json", "--quiet"],
                             check=True, capture_output=True, text=True).stdout
        return json.loads(out)["median_ns"] / 1e6


def one_round(contestants, plan, a, hog):
    """Medians of each, and the share of the cores that strangers had meanwhile."""
    start = elapsed_s(), busy_s(), own_s(), process_s(hog)
    ms = [c.run(plan, a.repeat) for c in contestants]
    took = max(elapsed_s() - start[0], 0.01)
    foreign = (busy_s() - start[1]) - (own_s() - start[2]) - (process_s(hog) - start[3])
    return ms, foreign / took / os.cpu_count()


def quartiles(v):
    return statistics.quantiles(v, n=4) if len(v) > 1 else [v[0]] * 3


def contest(title, contestants, plan, a, hog):
    rounds, void, worst = [], 0, 0
    while len(rounds) < a.rounds:
        ms, foreign = one_round(contestants, plan, a, hog)
        if foreign > a.foreign and void < a.void and not a.first:
            void += 1
            continue
        worst = max(worst, foreign)
        rounds.append(ms)
    print(f"{os.path.basename(plan)}, {title}: {len(rounds)} rounds, {void} void, others had at most "
          f"{100 * worst:.0f} % of the cores", flush=True)
    for i, c in enumerate(contestants):
        line = f"  {c.name:24} {statistics.median(r[i] for r in rounds):8.3f} ms"
        for k, other in enumerate(contestants[:i]):
            q = quartiles([r[i] / r[k] for r in rounds])
            line += f"   {q[1]:.3f} ({q[0]:.3f} to {q[2]:.3f}) of {other.name}'s"
        print(line, flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("plans", nargs="+")
    p.add_argument("--bin", default="build/bin")
    p.add_argument("--before", help="programs of another build")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--rounds", type=int, default=15)
    p.add_argument("--repeat", type=int, default=50)
    p.add_argument("--foreign", type=float, default=0.05)
    p.add_argument("--void", type=int, default=200)
    p.add_argument("--first", action="store_true")
    p.add_argument("--only", choices=["quiet", "busy"])
    a = p.parse_args()
    if a.first:
        go_first()
    for plan in a.plans:
        for title in ("quiet", "busy"):
            if a.only and a.only != title:
                continue
            prefix = ["chrt", "-f", "1"] if a.first and title == "quiet" else []
            who = [Contestant("one thread", a.bin, 1, prefix)]
            if a.before:
                who.append(Contestant(f"{a.threads} threads, before", a.before, a.threads, prefix))
            who.append(Contestant(f"{a.threads} threads", a.bin, a.threads, prefix))
            hog = None
            if title == "busy":
                core = max(os.sched_getaffinity(0))
                hog = subprocess.Popen(["taskset", "-c", str(core), "sh", "-c", "while :; do :; done"])
            try:
                contest(f"core {core} busy" if hog else "nothing beside", who, plan, a, hog)
            finally:
                if hog:
                    hog.kill()
                    hog.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
