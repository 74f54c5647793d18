"""Korch beside the CPU peers, in one run, as the table of RESULTS.md.

    tests/bench/peers [NAME ...] [--models] [--blocks] [--trained] [--unseen] [--more] [--zoo] [--sized] [--threads 1] [--budget 600] [--rounds 5] [--repeat 5]
    tests/bench/peers --plans MODEL.onnx PLAN.korch ...     # ready plans, beside the peers
    tests/bench/peers --gain --trained                      # what fusion gains alone, no peers: one kernel an operator over full

NAME is a model of korch-make-model, one of trained.py or zoo.py, a block of blocks.py (part of its name), or FILE.onnx;
--models: all six (the default), --trained, --unseen, --more, --zoo, --sized: all of trained.py, its UNSEEN, all of more.py, of zoo.py, its SIZED, --blocks: all blocks.  Each is tuned four times over one
data folder: as it is, with Winograd off, with rewrites off, with fusion off (one kernel an operator); --columns 1 leaves
the three off; --gain takes the first and the last, and no peers.  Then all take turns, --rounds times, each in a process of its own pinned to the same cores, each turn of a
fifth of a second or --repeat runs, the longer; a figure is the median over rounds of its median, a ratio the median over
rounds of the ratio in the round.  Whole models are checked first: outputs beside those of ONNX Runtime
without its optimisations, largest error over largest magnitude.  Peers (ONNX Runtime, OpenVINO; --inductor for blocks: torch's
Inductor where PyPI's torch installs) run with all their optimisations.  --clock cpu reads the process's CPU
clock in place of the wall's: one thread only, for machines that are shared.  Everything lies under
build/peers; plans stay there and are made again with --fresh.  Markdown on stdout, words on stderr."""

import argparse
import json
import math
import os
import platform
import statistics
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import env  # noqa: E402

BIN = os.path.join(env.ROOT, "build", "bin")
OUT = os.path.join(env.ROOT, "build", "peers")
TRUST = os.path.join(OUT, "data", "sign.pub")  # of the daemon that signs them
CHILD = os.path.join(env.HERE, "child.py")
# must and aim of the issue, one thread
MODELS = {
    "candy": (1.7, 2.2), "segformer_b0": (1.6, 2.4), "yolov4": (1.3, 1.6), "efficientvit_b1": (1.05, 1.25),
    "efficientvit": (1.05, 1.3), "yolox_nano": (1.05, 1.3),
}
MUST = (0.9, 1.0)  # of models out of packages: trained.NAMES, UNSEEN
TURN_NS, MOST_RUNS = 2e8, 200  # of a contestant in a round
GEOMEAN = {1: (1.25, 1.65), 2: (None, 1.3)}
VARIANTS = {
    "korch": [], "Winograd off": ["--winograd", "off"], "rewrites off": ["--rewrites", "off"],
    "fusion off": ["--fusion", "operator"],
}


def say(*words):
    print(*words, file=sys.stderr, flush=True)


class Case:
    """What is compared: one file, or a block four times and once, whose difference counts."""

    def __init__(self, name, files, must=None, aim=None):
        self.name, self.files, self.must, self.aim = name, files, must, aim
        self.plans, self.times, self.note = {}, {}, ""
        self.error = "–"  # of the plan, where there is a test case
        self.is_block = len(files) > 1

    def of(self, times):
        return times[0] if len(times) == 1 else (times[0] - times[1]) / 3


def safe(name):
    return "".join(c if c.isalnum() else "_" for c in name)


def tune(case, variant, a):
    """The plans of a variant; None where korch-submit does not know its option."""
    if VARIANTS[variant] and VARIANTS[variant][0] not in a.submit_help:
        return None
    plans = []
    for k, f in enumerate(case.files):
        plan = os.path.join(OUT, f"{safe(case.name)}.{k}.{safe(variant)}.{a.threads}.korch")
        plans.append(plan)
        if os.path.exists(plan) and os.path.getmtime(plan) >= os.path.getmtime(f) and not a.fresh:
            continue
        say(f"tuning {os.path.basename(f)}: {variant}")
        r = subprocess.run([f"{BIN}/korch-submit", f, "-o", plan, "--data", OUT + "/data", "--budget", str(a.budget),
                            "--threads", str(a.threads), "--json", "--quiet"] + VARIANTS[variant],
                           capture_output=True, text=True)
        if r.returncode:
            raise RuntimeError(f"{case.name}, {variant}: {r.stderr.strip()}")
    return plans


def check(case):
    """Beside the model's test case; one is made for models that come without."""
    folder = os.path.dirname(case.files[0])
    if case.is_block or not os.path.isdir(folder + "/test_data_set_0"):
        return
    r = subprocess.run([f"{BIN}/korch-run", case.plans["korch"][0], "--check", folder + "/test_data_set_0", "--rel", "1e-3",
                        "--json", "--repeat", "1", "--trust", TRUST], capture_output=True, text=True)
    case.error = f"{json.loads(r.stdout)['max_rel']:.1e}" if r.returncode == 0 else "**wrong**"
    if r.returncode:
        case.note += f" {r.stderr.strip()};"


class Peer:
    """A peer's process, started once and asked for times."""

    def __init__(self, kind, path, a):
        self.p = subprocess.Popen(a.pin + [a.python, CHILD, kind, path, str(a.threads)], stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        line = self.p.stdout.readline()
        if not line:
            why = self.p.stderr.read().strip().split("\n")[-1]
            raise RuntimeError(f"{kind} cannot run {os.path.basename(path)}: {why}")
        self.version = json.loads(line)["version"]

    def time(self, repeat):
        self.p.stdin.write(f"{repeat}\n")
        self.p.stdin.flush()
        return json.loads(self.p.stdout.readline())

    def close(self):
        self.p.stdin.close()
        self.p.wait()


def time_plan(plan, repeat, a):
    out = subprocess.run(a.pin + [f"{BIN}/korch-run", plan, "--repeat", str(repeat), "--warmup", "2", "--threads",
                                  str(a.threads), "--json", "--trust", TRUST], check=True, capture_output=True, text=True).stdout
    return json.loads(out.strip().split("\n")[-1])


def start_peers(case, a):
    peers = {}
    for kind in a.peers:
        try:
            peers[kind] = [Peer(kind, f, a) for f in case.files]
            a.versions[kind] = peers[kind][0].version
        except RuntimeError as e:
            say(e)
            case.note += f" {e};"
    return peers


def runs_a_turn(case, peers, a):
    """As many as fill a turn, at least --repeat: the median of five runs of a millisecond is the weather's."""
    quick = [p.time(1)["median_ns"] for ps in peers.values() for p in ps]
    quick = min(quick or [time_plan(p, 3, a)["median_ns"] for p in case.plans["korch"]])
    return max(a.repeat, min(MOST_RUNS, int(TURN_NS / max(quick, 1))))


def measure(case, a):
    """case.times: contestant -> a time for each round."""
    peers = start_peers(case, a)
    key = "cpu_ns" if a.clock == "cpu" else "median_ns"
    repeat = runs_a_turn(case, peers, a)
    for _ in range(a.rounds):
        for kind, ps in peers.items():
            case.times.setdefault(kind, []).append(case.of([p.time(repeat)[key] for p in ps]))
        for variant, plans in case.plans.items():
            if plans:
                case.times.setdefault(variant, []).append(case.of([time_plan(p, repeat, a)[key] for p in plans]))
    for ps in peers.values():
        for p in ps:
            p.close()


def ratio(case, base, other):
    return statistics.median(b / o for b, o in zip(base, case.times[other]) if o > 0)


def cell(case, name):
    if name not in case.times:
        return "–"
    return f"{statistics.median(case.times[name]) / 1e6:.3f}"


def best_of(case, a):
    """The best peer's times: the peer of least median."""
    have = [k for k in a.peers if k in case.times]
    return case.times[min(have, key=lambda k: statistics.median(case.times[k]))]


def row(case, a):
    base = case.times.get("fusion off") if "/unfused" in case.name else best_of(case, a)
    ratios = {v: ratio(case, base, v) for v in VARIANTS if v in case.times}
    case.ratio = ratios["korch"]
    state = "" if case.must is None else " (missed)" if case.ratio < case.must else ""
    return [case.name] + [cell(case, p) for p in a.peers] + [cell(case, "korch"), f"**{case.ratio:.2f}**{state}"] + [
        f"{ratios[v]:.2f}" if v in ratios else "–" for v in list(VARIANTS)[1:]] + [
        str(case.must or "–"), str(case.aim or "–"), case.error]


def line(cells):
    print("| " + " | ".join(cells) + " |", flush=True)


def table(title, cases, a, bounds):
    print(f"\n### {title}, {a.threads} thread{'s' if a.threads > 1 else ''}, ms by the {a.clock} clock\n")
    heads = ["what"] + [{"ort": "ONNX Runtime", "openvino": "OpenVINO", "inductor": "Inductor"}[p] for p in a.peers] + [
        "korch", "of the best peer's speed", "Winograd off", "rewrites off", "fusion off", "must", "aim", "error"]
    line(heads)
    line(["---"] * len(heads))
    done = []
    for case in cases:
        try:
            if not case.plans:
                wanted = len(VARIANTS) if "/unfused" in case.name else a.columns
                case.plans = {v: tune(case, v, a) for v in list(VARIANTS)[:wanted]}
                check(case)
            measure(case, a)
            line(row(case, a))
            for other in [p for p in case.plans if p not in VARIANTS]:
                line([other] + [""] * len(a.peers) + [cell(case, other), f"{ratio(case, best_of(case, a), other):.2f}"])
            done.append(case)
        except (RuntimeError, subprocess.CalledProcessError) as e:
            say(e)
            line([case.name] + ["failed"] * (len(heads) - 1))
    if len(done) > 1:
        mean = math.exp(statistics.mean(math.log(max(c.ratio, 1e-9)) for c in done))
        must, aim = bounds
        line([f"geometric mean of {len(done)}"] + [""] * len(a.peers) + ["", f"**{mean:.2f}**"] + [""] * 3 + [
            str(must or "–"), str(aim or "–"), ""])
    for case in cases:
        if case.note:
            print(f"\n{case.name}:{case.note}")


def gain_table(cases, a):
    """One kernel an operator beside the full search, in turns: what fusion gains, and nothing else."""
    print(f"\n### Gain of fusion, {a.threads} thread{'s' if a.threads > 1 else ''}, ms by the {a.clock} clock\n")
    heads = ["what", "one kernel an operator", "full", "gain", "least and most of the rounds", "error"]
    line(heads)
    line(["---"] * len(heads))
    gains = []
    for case in cases:
        try:
            # what the first one measured is there for the second: the full search has each operator's kernel to choose
            case.plans = {v: tune(case, v, a) for v in ("fusion off", "korch")}
            check(case)
            measure(case, a)
            rounds = [b / o for b, o in zip(case.times["fusion off"], case.times["korch"])]
            gains.append(statistics.median(rounds))
            line([case.name, cell(case, "fusion off"), cell(case, "korch"), f"**{gains[-1]:.2f}**",
                  f"{min(rounds):.2f} to {max(rounds):.2f}", case.error])
        except (RuntimeError, subprocess.CalledProcessError) as e:
            say(e)
            line([case.name] + ["failed"] * (len(heads) - 1))
    if len(gains) > 1:
        line([f"geometric mean of {len(gains)}", "", "", f"**{math.exp(statistics.mean(map(math.log, gains))):.2f}**", "", ""])
    for case in cases:
        if case.note:
            print(f"\n{case.name}:{case.note}")


def made_model(name):
    """A model of korch-make-model with a test case."""
    import onnx
    import trained
    folder = f"{OUT}/{name}"
    if not os.path.exists(folder + "/test_data_set_0/output_0.pb"):
        os.makedirs(folder, exist_ok=True)
        subprocess.run([f"{BIN}/korch-make-model", name, folder + "/model.onnx"], check=True, capture_output=True)
        trained.write_case(onnx.load(folder + "/model.onnx"), folder, 0, 255 if name in ("candy", "yolox_nano") else 1)
    return folder + "/model.onnx"


def case_of_file(path):
    stem, folder = os.path.splitext(os.path.basename(path))[0], os.path.basename(os.path.dirname(os.path.abspath(path)))
    return Case(folder if stem == "model" else stem, [path])


def cases_of(a):
    """All that was asked for, and what cannot be had with its reason."""
    import blocks
    import trained
    import zoo
    one, cases = a.threads == 1, []
    for name in a.names:
        if name in MODELS:
            cases.append(Case(name, [made_model(name)], *(MODELS[name] if one else (None, None))))
        elif name in (*trained.NAMES, *trained.UNSEEN, *trained.MORE):
            try:
                cases.append(Case(name, [trained.make(a.python, OUT, name)], MUST[name in trained.UNSEEN] if one and name not in trained.MORE else None))
            except RuntimeError as e:
                say(f"SKIP {name}: {e}")
        elif name in (*zoo.ZOO, *zoo.SIZED):
            try:
                cases.append(Case(name, [zoo.make(env, OUT, name)]))
            except (RuntimeError, subprocess.CalledProcessError) as e:
                say(f"SKIP {name}: {e}")
        elif name.endswith(".onnx"):
            cases.append(case_of_file(name))
        else:
            found = [n for n in blocks.NAMES if name.lower() in n.lower()]
            if not found:
                sys.exit(f"{name}: no model ({', '.join([*MODELS, *trained.NAMES, *trained.UNSEEN, *trained.MORE, *zoo.ZOO, *zoo.SIZED])}), block ({', '.join(blocks.NAMES)}) "
                         "or file")
            for n in found:
                files, must, aim = blocks.make(OUT, n)
                cases.append(Case(n, files, *((must, aim) if one else (None, None))))
                cases[-1].is_block = True
    if a.plans:
        cases.append(case_of_file(a.plans[0]))
        cases[-1].plans = {os.path.basename(p) if k else "korch": [p] for k, p in enumerate(a.plans[1:])}
    return cases


def arguments():
    p = argparse.ArgumentParser(prog="tests/bench/peers", description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("names", nargs="*")
    p.add_argument("--models", action="store_true")
    p.add_argument("--blocks", action="store_true")
    p.add_argument("--trained", action="store_true")
    p.add_argument("--unseen", action="store_true")
    p.add_argument("--more", action="store_true")
    p.add_argument("--zoo", action="store_true")
    p.add_argument("--sized", action="store_true")
    p.add_argument("--plans", nargs="+", metavar="FILE")
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--budget", type=float, default=600)
    p.add_argument("--columns", type=int, default=len(VARIANTS), choices=range(1, len(VARIANTS) + 1), metavar="N",
                   help="the first N of: " + ", ".join(VARIANTS))
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--repeat", type=int, default=5)
    p.add_argument("--gain", action="store_true", help="full beside one kernel an operator, without peers")
    p.add_argument("--clock", choices=["wall", "cpu"], default="wall")
    p.add_argument("--inductor", action="store_true")
    p.add_argument("--fresh", action="store_true")
    a = p.parse_args()
    if a.clock == "cpu" and a.threads > 1:
        p.error("--clock cpu counts all threads together: it is for --threads 1")
    return a


def add_groups(a):
    """--models, --trained and --blocks as names; all six models where nothing is named."""
    import blocks
    import trained
    import zoo
    nothing = not (a.names or a.plans or a.trained or a.unseen or a.more or a.zoo or a.sized or a.blocks)
    for asked, names in ((a.models or nothing, MODELS), (a.trained, trained.NAMES), (a.unseen, trained.UNSEEN),
                         (a.more, trained.MORE), (a.zoo, zoo.ZOO), (a.sized, zoo.SIZED), (a.blocks, blocks.NAMES)):
        a.names += [n for n in names if asked and n not in a.names]


def main():
    a = arguments()
    a.python = env.python_of(peers=not a.gain)
    if os.path.realpath(sys.prefix) != os.path.realpath(os.path.dirname(os.path.dirname(a.python))):
        os.execv(a.python, [a.python] + sys.argv)
    os.makedirs(OUT, exist_ok=True)
    a.submit_help = subprocess.run([f"{BIN}/korch-submit", "--help"], capture_output=True, text=True).stdout
    a.pin = ["taskset", "-c", ",".join(str(c) for c in sorted(os.sched_getaffinity(0))[-a.threads:])]
    add_groups(a)
    a.versions, cases = {}, cases_of(a)
    whole, parts = [c for c in cases if not c.is_block], [c for c in cases if c.is_block]
    a.peers = [] if a.gain else ["ort", "openvino"]
    if a.gain:
        gain_table(cases, a)
    elif whole:
        is_all = {c.name for c in whole} == set(MODELS)
        table("Whole models", whole, a, GEOMEAN.get(a.threads, (None, None)) if is_all else (None, None))
    if parts and not a.gain:
        if a.inductor and env.has_torch(a.python, True):
            a.peers.append("inductor")
        table("Blocks and single operators", parts, a, (None, None))
    names = {"ort": "onnxruntime", "openvino": "openvino", "inductor": "torch"}
    print(f"\n{', '.join([f'{names[k]} {v}' for k, v in a.versions.items()] + [platform.machine()])}, {os.cpu_count()} cores, "
          f"{a.rounds} rounds of {a.repeat} runs or more, budget {a.budget:g} s a plan.")


main()
