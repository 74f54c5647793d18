"""What programs write with --json, against the schemas of client/json (a subset of JSON Schema 2020-12).

json_schema.py check DIR NAME < LINES     every line is one of NAME.json, or an error; at least one of NAME.json
json_schema.py lint DIR MSG_DEF           all objects require all their properties and take no others; records.json
                                          is what MSG_DEF says; with --bless both are written anew
Faults on stdout; status 1 where there are some."""
import json
import os
import re
import sys

KEYS = {"$schema", "$defs", "$ref", "title", "description", "type", "properties", "required", "additionalProperties",
        "items", "oneOf", "enum", "const", "pattern", "minimum"}
TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}
RECORDS = ["event", "job", "worker", "measurement", "evidence", "predictor"]  # what rec_json prints
FIELDS = {"U64": {"type": "integer", "minimum": 0}, "I64": {"type": "integer"}, "F64": {"type": ["number", "null"]},
          "BOOL": {"type": "boolean"}, "TEXT": {"type": "string"}, "BYTES": {"type": "string", "pattern": "^([0-9a-f]{2})*$"},
          "HASH": {"type": "string", "pattern": "^([0-9a-f]{64})?$"},
          "REALS": {"type": "array", "items": {"type": ["number", "null"]}}}


class Schemas:
    def __init__(self, folder):
        self.folder, self.files = folder, {}

    def file(self, name):
        if name not in self.files:
            with open(os.path.join(self.folder, name), encoding="utf-8") as f:
                self.files[name] = json.load(f)
        return self.files[name]

    def target(self, ref, here):
        name, _, path = ref.partition("#")
        name = name or here
        s = self.file(name)
        for part in path.strip("/").split("/") if path.strip("/") else []:
            s = s[part]
        return s, name

    def faults(self, v, s, here, at="$"):
        """What is wrong with v, as lines."""
        if "$ref" in s:
            return self.faults(v, *self.target(s["$ref"], here), at)
        if "oneOf" in s:
            each = [self.faults(v, t, here, at) for t in s["oneOf"]]
            if [] in each:
                return [] if each.count([]) == 1 else [f"{at}: more than one form fits"]
            return min(each, key=len)
        types = s.get("type", [])
        types = [types] if isinstance(types, str) else types
        if types and not any(is_type(v, t) for t in types):
            return [f"{at}: {json.dumps(v)[:60]} is no {' or '.join(types)} ({here})"]
        out = []
        if "const" in s and v != s["const"] or "enum" in s and v not in s["enum"]:
            out.append(f"{at}: {json.dumps(v)[:60]} is none of the values ({here})")
        if "pattern" in s and isinstance(v, str) and not re.search(s["pattern"], v):
            out.append(f"{at}: {v[:60]!r} does not match {s['pattern']} ({here})")
        if "minimum" in s and is_type(v, "number") and v < s["minimum"]:
            out.append(f"{at}: {v} is below {s['minimum']} ({here})")
        if isinstance(v, dict) and "properties" in s:
            out += [f"{at}: {k} is missing; {here} has it" for k in s["required"] if k not in v]
            for k in v:
                if k in s["properties"]:
                    out += self.faults(v[k], s["properties"][k], here, f"{at}.{k}")
                elif not s.get("additionalProperties", True):
                    out.append(f"{at}: {k} is not in {here}: add it there")
        if isinstance(v, list) and "items" in s:
            for i, x in enumerate(v):
                out += self.faults(x, s["items"], here, f"{at}[{i}]")
        return out


def is_type(v, t):
    if t in ("integer", "number"):
        return isinstance(v, int if t == "integer" else (int, float)) and not isinstance(v, bool)
    return isinstance(v, TYPES[t])


def twice(pairs):
    keys = [k for k, _ in pairs]
    if len(set(keys)) != len(keys):
        raise ValueError(f"a key stands twice: {keys}")
    return dict(pairs)


def check(folder, name):
    schemas, n, bad = Schemas(folder), 0, []
    for number, line in enumerate(sys.stdin, 1):
        try:
            v = json.loads(line, object_pairs_hook=twice, parse_constant=lambda c: 1 / 0)
        except (ValueError, ZeroDivisionError) as e:
            bad.append(f"line {number} is no JSON: {line[:80]!r}: {e}")
            continue
        if name != "error" and isinstance(v, dict) and "error" in v and not schemas.faults(v, *schemas.target("error.json", "")):
            continue
        n += 1
        bad += [f"line {number}: {f}" for f in schemas.faults(v, *schemas.target(name + ".json", ""))]
    if not n and not bad:
        bad.append("there is no line but errors")
    return bad


def row_fields(meas_def):
    """The columns COL of meas.def as lines of msg.def: KIND(tag, name) /* words */."""
    with open(meas_def, encoding="utf-8") as f:
        found = re.findall(r'^COL\((\w+), (\d+), (\w+), .*?, "((?:[^"\\]|\\.)*)"\)$', f.read(), re.M)
    return "\n".join("%s(%s, %s) /* %s */" % (kind, tag, name, words.replace('\\"', '"')) for kind, tag, name, words in found)


def records(msg_def):
    """records.json by the table of messages: the records that are printed, and those in them."""
    table, name = {}, None
    with open(msg_def, encoding="utf-8") as f:
        text = f.read()
    text = re.sub(r"^#define.*$", "", text, flags=re.M)
    text = re.sub(r'^#include "meas.def"$', lambda m: row_fields(os.path.join(os.path.dirname(msg_def), "meas.def")), text, flags=re.M)
    row = re.compile(r"^\s*([A-Z0-9]+)\(([^)]*)\)[^\S\n]*(?:/\*\s*((?:[^*]|\*(?!/))*?)\s*\*/)?", re.M)
    for kind, args, words in row.findall(text):
        args, words = [a.strip() for a in args.split(",")], re.sub(r"\s*\n[\s*]*", " ", words)
        if kind in ("REC", "MSG"):
            name = args[-1]
            table[name] = {"type": "object", "description": words, "properties": {}}
        elif kind in ("ONE", "LIST"):
            ref = {"$ref": f"#/$defs/{args[1]}"}
            table[name]["properties"][args[2]] = {
                "description": words, **(ref if kind == "ONE" else {"type": "array", "items": ref})}
        elif kind in FIELDS and name:
            table[name]["properties"][args[1]] = {"description": words, **FIELDS[kind]}
    pending, defs = list(RECORDS), {}
    while pending:
        r = pending.pop()
        if r not in defs:
            defs[r] = table[r]
            pending += re.findall(r'#/\$defs/(\w+)"', json.dumps(table[r]))
    for d in defs.values():
        d["required"], d["additionalProperties"] = list(d["properties"]), False
    return {"$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": "Records of proto/msg.def as JSON; made from it by tests/lint/json.sh",
            "$defs": {k: defs[k] for k in sorted(defs)}}


def objects(s):
    if isinstance(s, dict):
        if "properties" in s and isinstance(s["properties"], dict):
            yield s
        for k, v in s.items():
            for x in v.values() if k in ("properties", "$defs") else v if isinstance(v, list) else [v]:
                yield from objects(x)


def lint(folder, msg_def, bless):
    bad, schemas = [], Schemas(folder)
    for name in sorted(os.listdir(folder)):
        s = records(msg_def) if name == "records.json" and bless else schemas.file(name)
        text = json.dumps(s)
        for ref in re.findall(r'"\$ref": "([^"]*)"', text):
            try:
                schemas.target(ref, name)
            except (OSError, KeyError):
                bad.append(f"{name}: {ref} leads nowhere")
        for o in objects(s):
            if bless:
                o["required"] = list(o["properties"])
                o.setdefault("additionalProperties", False)
            if o.get("required") != list(o["properties"]):
                bad.append(f"{name}: an object with {list(o['properties'])[:3]} does not require all its properties")
            if o.get("additionalProperties") is not False and name != "log.json":
                bad.append(f"{name}: an object with {list(o['properties'])[:3]} takes other properties")
            if set(o) - KEYS:
                bad.append(f"{name}: {set(o) - KEYS}: this subset has no such word")
        if name == "records.json" and not bless and s != records(msg_def):
            bad.append("records.json is not what proto/msg.def says")
        if bless:
            with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
                f.write(layout(s) + "\n")
        elif open(os.path.join(folder, name), encoding="utf-8").read() != layout(s) + "\n":
            bad.append(f"{name}: is laid out in another way")
    return bad


def layout(v, indent=0):
    """A property a line, what it is in it: short to read and to change."""
    flat = json.dumps(v, ensure_ascii=False)
    if len(flat) + indent <= 150 and (not isinstance(v, dict) or "properties" not in v) or not isinstance(v, (dict, list)):
        return flat
    pad = " " * (indent + 2)
    if isinstance(v, list):
        return "[\n" + ",\n".join(pad + layout(x, indent + 2) for x in v) + "\n" + " " * indent + "]"
    return "{\n" + ",\n".join(f"{pad}{json.dumps(k)}: {layout(x, indent + 2)}" for k, x in v.items()) + "\n" + " " * indent + "}"


if __name__ == "__main__":
    word, args = sys.argv[1], [a for a in sys.argv[2:] if a != "--bless"]
    found = check(*args) if word == "check" else lint(*args, "--bless" in sys.argv)
    print("\n".join(found[:20]), end="\n" if found else "")
    sys.exit(bool(found))
