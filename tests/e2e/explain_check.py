"""Are the answers of korch-plan explain true?  explain_check.py BIN MODEL PLAN CACHE_DB NODES SEED

Nodes are picked at random (the seed is printed on a failure).  Costs are compared with the cache's rows,
bounds and reduced costs with the plan's tables, neighbours with the edges of the ONNX file, which is read
here anew; sums and margins are computed again.  Prints 'N checks' or a line a fault."""
import json
import math
import random
import sqlite3
import subprocess
import sys

BIN, MODEL, PLAN, CACHE, N_NODES, SEED = sys.argv[1:4] + [sys.argv[4], int(sys.argv[5]), int(sys.argv[6])]
checks, faults = 0, []


def check(ok, *words):
    global checks
    checks += 1
    if not ok:
        faults.append(" ".join(str(w) for w in words))


# ---- the ONNX file ----
def fields(b):
    """(number, value) of a protobuf message; values of length-delimited fields are bytes."""
    at = 0

    def varint():
        nonlocal at
        v = shift = 0
        while True:
            c = b[at]
            at += 1
            v |= (c & 127) << shift
            shift += 7
            if c < 128:
                return v

    while at < len(b):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
        elif key & 7 == 2:
            n = varint()
            yield key >> 3, b[at:at + n]
            at += n
        else:
            at += 8 if key & 7 == 1 else 4


def onnx_nodes(path):
    graph = next(v for k, v in fields(open(path, "rb").read()) if k == 7)
    nodes = []
    for k, v in fields(graph):
        if k == 1:
            f = list(fields(v))
            text = lambda n: [x.decode() for i, x in f if i == n]
            nodes.append({"name": (text(3) or [""])[0], "op": text(4)[0], "in": text(1), "out": text(2)})
    return nodes


# ---- plan and cache ----
def plan_tool(*words):
    return json.loads(subprocess.run([BIN + "/korch-plan", *words, "--json"], check=True, capture_output=True).stdout)


plan_db = sqlite3.connect(f"file:{PLAN}?mode=ro", uri=True)
cache_db = sqlite3.connect(f"file:{CACHE}?mode=ro", uri=True)
shown = plan_tool("show", PLAN)
facts = dict(plan_db.execute("SELECT key, value FROM meta"))
candidates = {i: row for i, *row in plan_db.execute("SELECT id, cost_ns, is_measured, is_chosen, reduced_cost FROM candidate")}
duals = sum(d for d, in plan_db.execute("SELECT dual FROM landmark ORDER BY id"))
kernels = dict(plan_db.execute("SELECT id, bound_ns FROM kernel"))


def cached(spec):
    """(cost, spread, error) of the best row: what its repeats say, where it was timed again; None without one."""
    row = cache_db.execute("SELECT key, median_ns, p90_ns - p10_ns, samples FROM measurement WHERE spec = ? AND fail = 0"
                           " ORDER BY median_ns, schedule LIMIT 1", (bytes.fromhex(spec),)).fetchone()
    if not row:
        return None
    again = cache_db.execute("SELECT median_ns, p90_ns - p10_ns, samples FROM repeat WHERE key = ? AND fail = 0 ORDER BY median_ns",
                             (row[0],)).fetchall()
    if not again:
        return row[1], row[2], median_error(*row[2:])
    low, high = again[(len(again) - 1) // 2][0], again[len(again) // 2][0]
    return low + (high - low) // 2, max([w for _, w, _ in again] + [again[-1][0] - again[0][0]]), sessions_error(again)


def median_error(spread, samples):
    """Standard error of a median of normal samples, from p10 to p90."""
    return 1.2533 * spread / 2.5631 / math.sqrt(samples) if samples else 0


def sessions_error(rows):
    """The same of the median of some sessions' medians: by how they differ, and no less than by each one's own."""
    errors, n = [median_error(w, k) for _, w, k in rows], len(rows)
    if n == 1:
        return errors[0]
    mean = sum(m for m, _, _ in rows) / n
    between = sum((m - mean) ** 2 for m, _, _ in rows) / (n - 1)
    return 1.2533 * math.sqrt(max(between, sum(e * e for e in errors) / n) / n)


def known(k):
    """The same of a kernel or rival; views are no work, and nothing was timed for them."""
    return (1, 0, 0) if k["view"] else cached(k["spec"])


def check_rival(r, where):
    row = known(r)
    if r["measured"]:
        check(row and r["cost_ns"] == row[0], where, "costs", r["cost_ns"], "the cache says", row)
        check(row and r["spread_ns"] == row[1], where, "spread", r["spread_ns"], "the cache says", row)
        check(row and abs(r["error_ns"] - row[2]) <= 0.002 + row[2] * 1e-4, where, "error", r["error_ns"], "the cache says", row)
    else:
        check(row is None, where, "is said not to be measured, the cache says", row)
    if r["candidate"] is not None:
        cost, is_measured, is_chosen, _ = candidates[r["candidate"]]
        check(bool(is_measured) == r["measured"] and not is_chosen, where, "is another candidate")
        check(cost == (r["cost_ns"] if r["measured"] else r["bound_ns"]), where, "stands in the program at", cost, r)
        check(r["measured"] or r["expected_ns"] >= r["bound_ns"], where, "is expected below its bound")


def check_exchange(x, where, must=None, without=None):
    out = [shown["steps"][s] for s in x["steps"]]
    margin = sum(k["cost_ns"] for k in x["kernels"]) - sum(s["cost_ns"] for s in out)
    errors = {}  # of a kernel that stands there twice, twice; of one that goes out and comes in, nothing
    for times, k in [(1, k) for k in x["kernels"]] + [(-1, s) for s in out]:
        view = k["view"] if "view" in k else k["schedule"] == "view"
        n, e = errors.get(k["spec"], (0, 0))
        errors[k["spec"]] = n + times, max(e, 0 if view else cached(k["spec"])[2])
    error = math.sqrt(sum((n * e) ** 2 for n, e in errors.values()))
    check(margin == x["margin_ns"], where, "margin", x["margin_ns"], "and not", margin)
    check(abs(error - x["error_ns"]) <= 0.01 + error * 1e-3, where, "error", x["error_ns"], "and not", error)
    check(x["margin_ns"] >= 0, where, "an exchange is said to gain", -x["margin_ns"])
    check(x["kernels"] and len(set(x["steps"])) == len(x["steps"]), where, "exchanges nothing")
    check(without is None or without in x["steps"], where, "keeps the step that it should do without")
    check(must is None or any(k["spec"] == must for k in x["kernels"]), where, "does not hold", must)
    for k in x["kernels"]:
        check(k["measured"], where, "holds an unmeasured kernel")
        check_rival(k, where)


def check_step(s, where):
    where = f"{where}, step {s['step']}"
    same = shown["steps"][s["step"]]
    check(all(s[k] == same[k] for k in ("spec", "cost_ns", "bound_ns", "nodes")), where, "differs from show")
    row = known(s)
    check(s["view"] == (s["schedule"] == "view"), where, "is a view by one word and not by the other")
    check(row and s["cost_ns"] == row[0] and s["spread_ns"] == row[1], where, s["cost_ns"], "the cache says", row)
    check(s["bound_ns"] == kernels[s["kernel"]] <= s["cost_ns"], where, "another bound")
    if s["runner_up"]:
        check_exchange(s["runner_up"], where + " runner-up", without=s["step"])


def check_apart(x, where):
    words = {"slower", "unused", "bound", "open", "failed", "infeasible"}
    check(x["why"] in words, where, "why:", x["why"])
    if x["fused"]:
        check(x["fused"]["measured"], where, "fused is not measured")
        check_rival(x["fused"], where)
        if x["fused"]["exchange"]:
            check_exchange(x["fused"]["exchange"], where, must=x["fused"]["spec"])
    if x["unmeasured"]:
        u = x["unmeasured"]
        check(not u["measured"], where, "unmeasured is measured")
        check_rival(u, where)
        least = duals + candidates[u["candidate"]][3] - int(facts["latency_ns"])
        check(abs(least - u["least_margin_ns"]) < 1, where, "least margin", u["least_margin_ns"], "and not", least)
        check(u["ruled_out"] == (least >= -1e-3), where, "is not ruled out by its bound:", least)
        check(x["why"] != "bound" or u["ruled_out"], where, "why:", x["why"])
    if x["why"] == "infeasible":
        check(":" in x["rule"] and not (x["fused"] or x["unmeasured"] or x["failed"]), where, x)
    else:
        check((x["fused"] or x["unmeasured"] or x["failed"]) and not x["rule"], where, x)


def main():
    nodes = onnx_nodes(MODEL)
    maker = {t: n["name"] for n in nodes for t in n["out"] if t}
    readers = {}
    for n in nodes:
        n["makers"] = {maker[t] for t in n["in"] if t in maker}
        for m in n["makers"]:
            readers.setdefault(m, set()).add(n["name"])
    check(len({n["name"] for n in nodes}) == len(nodes), "names are not unique")
    for n in random.Random(SEED).sample(nodes, min(N_NODES, len(nodes))):
        name, told = n["name"], plan_tool("explain", PLAN, n["name"])["nodes"]
        check(len(told) == 1 and told[0]["op"] == n["op"], name, "is another node")
        told = told[0]
        where = [s["step"] for s in told["steps"]]
        named = [i for i, s in enumerate(shown["steps"]) if name in s["nodes"].split(",")]
        check(where == named, name, "is in steps", where, "and not", named)
        check(bool(where) if told["fate"] == "kernel" else told["fate"] == "view" or not where, name, "has fate", told["fate"])
        for s in told["steps"]:
            check_step(s, name)
        sides = {("maker", m) for m in n["makers"]} | {("reader", r) for r in readers.get(name, ())}
        check({(x["side"], x["node"]) for x in told["neighbours"]} == sides, name, "has other neighbours than", sides)
        for x in told["neighbours"]:
            at = [i for i, s in enumerate(shown["steps"]) if x["node"] in s["nodes"].split(",")]
            fused = sorted(set(at) & set(where))
            if x["relation"] == "fused":
                check(x["step"] in fused, name, x["node"], "share no step")
            elif x["relation"] == "apart":
                check(not fused and at and where, name, x["node"], "are said to be apart")
                check_apart(x, f"{name} and {x['node']}")
            else:
                check(x["relation"] in (x["fate"], told["fate"]) and x["relation"] != "kernel", name, x["node"], x["relation"])
                check(not at or not where or x["relation"] == "view", name, x["node"], "are apart without a reason")
    every = plan_tool("explain", PLAN)["steps"]
    check(len(every) == len(shown["steps"]), "not every step is explained")
    for s in every:
        check_step(s, "all")
        for x in s["neighbours"]:
            check_apart(x, f"steps {s['step']} and {x['step']}")
    for f in faults[:20]:
        print(f"seed {SEED}: {f}")
    print(f"{checks} checks")
    sys.exit(bool(faults))


main()
