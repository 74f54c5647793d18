"""InferenceSession under onnxruntime's names: a script that imports korch in its place runs as it is."""

import collections
import os
import re
import threading
import weakref

from . import _progress, tuning
from ._errors import Cancelled, Error, InvalidArgument, NoSuchFile
from ._native import Plan as _NativePlan
from .binding import IOBinding, OrtValue

_ONNX_TYPES = {"f32": "float", "f64": "double", "f16": "float16", "bf16": "bfloat16", "i8": "int8", "i16": "int16",
               "i32": "int32", "i64": "int64", "u8": "uint8", "u16": "uint16", "u32": "uint32", "u64": "uint64",
               "bool": "bool"}
_PLAN_MAGIC = b"SQLite format 3\0"
PROVIDER = "KorchExecutionProvider"
# Arguments of onnxruntime's that are taken and mean nothing here, like providers.
_NO_MEANING = {"disabled_optimizers", "enable_fallback", "read_config_from_model"}


class NodeArg:
    """An input or output: name, shape (a text where the model leaves an extent open), type as ONNX writes it."""

    def __init__(self, name, kind, shape):
        self.name = name
        self.type = f"tensor({_ONNX_TYPES.get(kind, kind)})"
        self.shape = list(shape)

    def __repr__(self):
        return f"NodeArg(name='{self.name}', type='{self.type}', shape={self.shape})"


class SessionOptions:
    """What a script for onnxruntime sets.  intra_op_num_threads counts; the rest is taken and means nothing here."""

    def __init__(self):
        self.intra_op_num_threads = 0

    def add_session_config_entry(self, key, value):
        pass

    def add_free_dimension_override_by_name(self, name, extent):
        self.__dict__.setdefault("free_dimensions", {})[name] = extent


class ModelMetadata:
    """onnxruntime's names for what a model's file says of itself."""

    def __init__(self, words):
        for name in ("producer_name", "graph_name", "domain", "description", "graph_description"):
            setattr(self, name, words.get(name, ""))
        self.version = int(words.get("version", 0))
        self.custom_metadata_map = {name.partition(".")[2]: x for name, x in words.items()
                                    if name.startswith("metadata.")}


class RunOptions:
    """Taken, and means nothing here."""


class InferenceSession:
    """Runs a plan, or an ONNX model by the plan that is made at once, and tunes behind it where that is asked for.

    path_or_bytes  a .korch or an .onnx file, or the bytes of one
    sess_options   korch.SessionOptions or onnxruntime's: intra_op_num_threads counts
    shapes         {input: (1, 3, 224, 224)} or {symbol: 224}; what stays open is closed by the arrays of each run
    values         {input: constant}
    tune           "background": looks for a better plan for `budget` seconds and takes it over between two runs;
                   True: tunes first, and opens then; None: the plan that can be had at once
    progress       of tuning, as for korch.tune
    daemon, data, device, tolerance  as for korch.tune
    trust          of a plan: the file of a public key, or "any"; your own korchd's plans, and those of daemons that you
                   tuned on, need none

    Every function may be called from any thread; runs of one session take turns.
    """

    def __init__(self, path_or_bytes, sess_options=None, providers=None, provider_options=None, *, shapes=None,
                 values=None, tune=None, budget=600, progress=None, threads=None, daemon=None, data=None, device=None,
                 tolerance=None, trust=None, max_plans=8, **of_onnxruntime):
        unknown = of_onnxruntime.keys() - _NO_MEANING
        if unknown:
            raise TypeError(f"InferenceSession has no argument called {', '.join(sorted(unknown))}")
        if tune not in (None, False, True, "background"):
            raise InvalidArgument(f"tune={tune!r}: None, True or \"background\"")
        self._options = sess_options or SessionOptions()
        self._threads = threads or getattr(sess_options, "intra_op_num_threads", 0) or 0
        shapes = {**getattr(sess_options, "free_dimensions", {}), **(shapes or {})}
        self._settings = dict(shapes=shapes, values=values, daemon=daemon, data=data, device=device,
                              threads=self._threads or None, tolerance=tolerance)
        self._tune, self._budget, self._progress = tune, budget, progress
        self._how = dict(threads=self._threads, trust=trust or tuning.key_of(data))
        self._max_plans = max_plans
        self._lock = threading.Lock()                # of _by_shape
        self._planning = threading.Lock()            # one plan is made at a time
        self._native = None                          # the plan of a model without open extents
        self._by_shape = collections.OrderedDict()   # of one with: shapes -> plan
        self._search = None
        self._model = path_or_bytes
        if isinstance(path_or_bytes, (bytes, bytearray, memoryview)):
            self._model = tuning.temporary_plan()
            self._drop_own_file = weakref.finalize(self, tuning.drop_temporary, self._model)
        try:
            if self._model is not path_or_bytes:
                with open(self._model, "wb") as f:
                    f.write(path_or_bytes)
            self._is_plan = _is_plan(self._model)
            self._open()
        except BaseException:
            self._drop_own_file()
            raise

    def _drop_own_file(self):
        """Of a model that was given as bytes: an attribute in its place removes the file."""

    def __reduce__(self):
        raise TypeError("a session has threads and memory of this process: open one in the other, from the same file")

    # ---- opening -------------------------------------------------------------------------------------------------
    def _open(self):
        if self._is_plan:
            if self._tune:
                raise InvalidArgument(f"{self._model} is a plan; what is tuned is the ONNX model that it came from")
            self._take(_NativePlan(os.fspath(self._model), **self._how))
            self._drop_own_file()
            return
        try:
            self._take(self._plan_for({}, wait=self._tune is True))
        except Error:
            if not self._is_open_model():
                raise
            return
        if self._tune == "background":
            self._start_search({})

    def _take(self, native):
        self._native = native
        self._inputs = [NodeArg(*x) for x in native.inputs]
        self._outputs = [NodeArg(*x) for x in native.outputs]
        self._index = {a.name: i for i, a in enumerate(self._outputs)}

    def _is_open_model(self):
        """Does the model want shapes, and nothing else?  Then each run brings them."""
        said = tuning.check(self._model, **self._settings)
        if said.get("unsupported") or not any(x["open"] for x in said["inputs"]):
            return False
        self._inputs = [NodeArg(x["name"], x["type"], _extents(x["shape"])) for x in said["inputs"]]
        self._outputs = [NodeArg(x["name"], x["type"], _extents(x["shape"])) for x in said["outputs"]]
        self._index = {a.name: i for i, a in enumerate(self._outputs)}
        return True

    def _plan_for(self, shapes, wait):
        settings = dict(self._settings, shapes={**(self._settings["shapes"] or {}), **shapes})
        path = tuning.temporary_plan()
        try:
            tuning.tune_to(path, self._model, budget=self._budget if wait else 0,
                           progress=self._progress if wait else None, **settings)
            return _NativePlan(path, **self._how)
        finally:
            tuning.drop_temporary(path)

    # ---- tuning behind it ----------------------------------------------------------------------------------------
    def _start_search(self, shapes, key=None):
        self._search = _Search(self, shapes, key)
        self._search.start()

    def wait_for_tuning(self, timeout=None):
        """Until the plan of tune="background" has been taken over; False: not yet.  Raises what tuning failed with."""
        if self._search is None:
            return True
        self._search.join(timeout)
        if self._search.is_alive():
            return False
        if self._search.failure:
            raise self._search.failure
        return True

    # ---- onnxruntime's names -------------------------------------------------------------------------------------
    def get_inputs(self):
        return list(self._inputs)

    def get_outputs(self):
        return list(self._outputs)

    def get_overridable_initializers(self):
        return []

    def get_providers(self):
        return [PROVIDER]

    def set_providers(self, providers=None, provider_options=None):
        pass

    def get_provider_options(self):
        return {PROVIDER: {}}

    def get_session_options(self):
        return self._options

    def get_modelmeta(self):
        """What the ONNX file says of itself; of a plan, which does not hold these words, empty ones."""
        words = {}
        if not self._is_plan:
            words = {x["name"]: x["value"] for x in tuning.check(self._model, **self._settings)["about"]}
        return ModelMetadata(words)

    def io_binding(self):
        return IOBinding(self)

    def run_with_iobinding(self, binding, run_options=None):
        binding._run()

    def run_with_ort_values(self, output_names, feed, run_options=None):
        return [OrtValue(y) for y in self.run(output_names, {name: x._array for name, x in feed.items()})]

    def run(self, output_names, input_feed, run_options=None, *, out=None):
        """The outputs that are named, or all with None, as a list of arrays.

        input_feed  {name: array}: numpy's, or any with __dlpack__ (torch tensors)
        out         {name: array} of outputs that are to be written in place
        """
        native = self._native
        if native is None:
            native = self._plan_of_feed(input_feed)
        if output_names is None:
            return native.run(input_feed, out)
        index = self._index
        try:
            wanted = [index[name] for name in output_names]
        except KeyError as e:
            raise InvalidArgument(f"no output is called {e.args[0]!r}; there are: {', '.join(index)}") from None
        arrays = native.run(input_feed, out)
        return [arrays[i] for i in wanted]

    # ---- open extents --------------------------------------------------------------------------------------------
    def _plan_of_feed(self, feed):
        shapes = self._shapes_of(feed)
        key = tuple(shapes.values())
        native = self._known(key)
        if native is None:
            with self._planning:
                native = self._known(key) or self._make_known(key, {n: s for n, s in shapes.items() if s})
        return native

    def _shapes_of(self, feed):
        if not isinstance(feed, dict):
            raise TypeError("input_feed is a dict: {name of an input: array}")
        shapes = {}
        for a in self._inputs:
            if a.name not in feed:
                raise InvalidArgument(f"input '{a.name}' is missing")
            if not hasattr(feed[a.name], "shape"):
                raise InvalidArgument(f"input '{a.name}' is no array: its shape closes what the model leaves open")
            shapes[a.name] = tuple(feed[a.name].shape)
        return shapes

    def _known(self, key):
        with self._lock:
            native = self._by_shape.get(key)
            if native is not None:
                self._by_shape.move_to_end(key)
            return native

    def _make_known(self, key, shapes):
        native = self._plan_for(shapes, wait=self._tune is True)
        with self._lock:
            self._by_shape[key] = native
            while len(self._by_shape) > self._max_plans:
                self._by_shape.popitem(last=False)
        if self._tune == "background" and (self._search is None or not self._search.is_alive()):
            self._start_search(shapes, key)
        return native

    def _adopt(self, native, key):
        """A better plan: the next run takes it, one that is under way ends with the old one."""
        if key is None:
            self._native = native
            return
        with self._lock:
            if key in self._by_shape:
                self._by_shape[key] = native


class _Search(threading.Thread):
    """Tunes while the session lives.  Holds it only while it takes a plan over."""

    def __init__(self, session, shapes, key):
        super().__init__(daemon=True, name="korch tuning")
        self._session = weakref.ref(session)
        self._model, self._how = session._model, session._how
        self._settings = dict(session._settings, shapes={**(session._settings["shapes"] or {}), **shapes})
        self._budget, self._shown, self._key = session._budget, _progress.to(session._progress), key
        self.failure = None

    def _show(self, p):
        if self._session() is None:
            raise Cancelled("nobody has the session any more")
        if self._shown:
            self._shown.show(p)

    def run(self):
        path = tuning.temporary_plan()
        try:
            tuning.tune_to(path, self._model, budget=self._budget, progress=self._show, **self._settings)
            native = _NativePlan(path, **self._how)
            session = self._session()
            if session is not None:
                session._adopt(native, self._key)
        except BaseException as e:  # kept for who asks: nobody stands above a thread
            self.failure = e
        finally:
            if self._shown:
                self._shown.close()
            tuning.drop_temporary(path)


def _is_plan(path):
    try:
        with open(path, "rb") as f:
            return f.read(len(_PLAN_MAGIC)) == _PLAN_MAGIC
    except OSError as e:
        raise NoSuchFile(f"{os.fspath(path)}: cannot read: {e.strerror}") from None


def _extents(text):
    """"1x<width>" -> [1, 'width']"""
    return [int(x) if x.isdigit() else x.strip("<>") for x in re.findall(r"<[^>]*>|\d+|\?", text)]
