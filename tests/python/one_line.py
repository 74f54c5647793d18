"""A script as users of onnxruntime write them: one_line.py MODEL.onnx OUT.npz

one_line.sh runs it as it stands, and with the import line changed."""

import sys

import numpy as np
import onnxruntime as ort

options = ort.SessionOptions()
options.intra_op_num_threads = 1
session = ort.InferenceSession(sys.argv[1], options, providers=ort.get_available_providers())
random = np.random.default_rng(1)
feed = {i.name: random.random(i.shape, dtype=np.float32) for i in session.get_inputs()}
outputs = session.run(None, feed)
np.savez(sys.argv[2], **{o.name: y for o, y in zip(session.get_outputs(), outputs)})
