"""Architectures out of torchvision, timm, transformers and torchaudio with random weights, as torch's exporter writes them
(peers.sh --zoo): what people bring who have trained one of these.  Picked by kind, as many kinds as there are, before any had been
tried; those that torch cannot export are not in the list.  `make` runs this file in a virtual environment of its own
(build/zoo-venv, 5 GB: PyPI's torch brings GPU libraries along):

    zoo.py NAME PATH        writes one as ONNX"""

import os
import subprocess
import sys
import warnings

NEEDED = ["torch==2.3.1", "torchvision==0.18.1", "torchaudio==2.3.1", "timm==1.0.31", "transformers==4.41.2", "numpy<2", "onnx"]
SEED, OPSET = 1, 17

# name:side of the picture
TORCHVISION = """squeezenet1_1:224 googlenet:192 inception_v3:171 mobilenet_v2:224 mobilenet_v3_small:224 mobilenet_v3_large:192
mnasnet1_0:160 shufflenet_v2_x1_0:256 efficientnet_b0:224 efficientnet_v2_s:128 regnet_y_400mf:224 regnet_x_400mf:192
resnext50_32x4d:128 convnext_tiny:128 swin_t:128 swin_v2_t:128 maxvit_t:224 alexnet:224
lraspp_mobilenet_v3_large:256 deeplabv3_mobilenet_v3_large:192 fcn_resnet50:96"""
TIMM = """ghostnet_100:224 hrnet_w18_small:160 mixer_s32_224:224 gmlp_s16_224:224 resmlp_12_224:224 levit_128s:224 mobilevit_xxs:256
mobilevitv2_050:256 edgenext_xx_small:256 poolformer_s12:160 fastvit_t8:192 repvgg_a0:192 repghostnet_050:224 rexnet_100:192
tinynet_e:106 hardcorenas_a:192 dla34:160 dpn48b:160 selecsls42:160 ese_vovnet19b_dw:160 cspresnet50:128 darknet53:96
resnest14d:160 skresnet18:160 nfnet_l0:96 eca_nfnet_l0:96 resnetv2_50:96 sequencer2d_s:224 xcit_nano_12_p16_224:224
cait_xxs24_224:224 coat_tiny:224 crossvit_tiny_240:240 convit_tiny:224 deit_tiny_patch16_224:224 pit_ti_224:224
tnt_s_patch16_224:224 twins_pcpvt_small:128 pvt_v2_b0:224 visformer_tiny:224 nest_tiny:224 mvitv2_tiny:224 davit_tiny:128
focalnet_tiny_srf:128 efficientformer_l1:224 efficientformerv2_s0:224 efficientvit_b0:224 efficientvit_m0:224 repvit_m0_9:160
starnet_s1:192 mobileone_s0:160 mobilenetv4_conv_small:224 mobilenetv4_hybrid_medium:160 tiny_vit_5m_224:224 hgnetv2_b0:192
inception_next_tiny:128 caformer_s18:128 mambaout_femto:192 swiftformer_xs:224 gernet_s:160 botnet26t_256:256
lambda_resnet26t:192 gcresnext26ts:160 hiera_tiny_224:224 vit_tiny_r_s16_p8_224:224 convmixer_768_32:112 mixnet_s:192
spnasnet_100:192 semnasnet_100:160"""
# of timm at the size that they are made for (peers.sh --sized): NAME@SIDE
SIZED = {f"{n}@{side}": side for side, names in {
    224: "ghostnetv2_100 repvit_m1 xcit_nano_12_p16_224 coat_lite_tiny convit_tiny pvt_v2_b0 twins_svt_small visformer_tiny resnest14d "
         "res2net50_26w_4s tiny_vit_5m_224 efficientvit_m0 nextvit_small hgnetv2_b0 dpn68 eva02_tiny_patch14_224 cait_xxs24_224 "
         "repghostnet_050 rexnet_100 skresnet18 mambaout_femto",
    240: "crossvit_9_240",
    256: "fastvit_t8 edgenext_small mobilevitv2_050",
}.items() for n in names.split()}
# name: (kind, tokens, the configuration's words); a few layers of each, so that it fits a short look
WIDE = dict(hidden_size=384, num_hidden_layers=3, num_attention_heads=6, intermediate_size=1536)
READERS = {
    "bert": ("Bert", 64, dict(hidden_size=256, num_hidden_layers=4, num_attention_heads=4, intermediate_size=1024)),
    "distilbert": ("DistilBert", 48, dict(dim=512, n_layers=3, n_heads=8, hidden_dim=2048)),
    "albert": ("Albert", 64, dict(embedding_size=128, hidden_size=512, num_hidden_layers=4, num_attention_heads=8, intermediate_size=2048)),
    "mobilebert": ("MobileBert", 64, dict(num_hidden_layers=4)),
    "squeezebert": ("SqueezeBert", 64, dict(num_hidden_layers=3)),
    "electra": ("Electra", 96, dict(num_hidden_layers=6)),
    "deberta_v2": ("DebertaV2", 64, dict(WIDE, relative_attention=True, pos_att_type=["c2p", "p2c"], position_buckets=64,
                                        norm_rel_ebd="layer_norm", share_att_key=True)),
    "mpnet": ("MPNet", 64, WIDE),
    "convbert": ("ConvBert", 64, dict(WIDE, embedding_size=128)),
}
WRITERS = {
    "gpt2": ("GPT2LMHeadModel", "GPT2", 64, dict(n_embd=384, n_layer=4, n_head=6)),
    "llama": ("LlamaForCausalLM", "Llama", 64, dict(hidden_size=512, num_hidden_layers=3, num_attention_heads=8, num_key_value_heads=4,
                                                  intermediate_size=1376)),
    "opt": ("OPTForCausalLM", "OPT", 64, dict(hidden_size=384, num_hidden_layers=3, num_attention_heads=6, ffn_dim=1536, word_embed_proj_dim=384)),
    "gpt_neox": ("GPTNeoXForCausalLM", "GPTNeoX", 48, WIDE),
    "phi": ("PhiForCausalLM", "Phi", 64, WIDE),
    "qwen2": ("Qwen2ForCausalLM", "Qwen2", 32, dict(hidden_size=512, num_hidden_layers=3, num_attention_heads=8, num_key_value_heads=2,
                                                  intermediate_size=1408)),
    "bloom": ("BloomForCausalLM", "Bloom", 64, dict(hidden_size=384, n_layer=3, n_head=6)),
}
# name: kind, inputs, hidden, layers, both ways, steps
RECURRENT = {"gru_2x128": ("GRU", 40, 128, 2, False, 50), "lstm_bi_96": ("LSTM", 64, 96, 2, True, 40), "lstm_512": ("LSTM", 80, 512, 1, False, 30)}
OTHERS = ["t5_encoder", "whisper_encoder", "clip_vision", "yolos", "conv_tasnet", "wav2letter", "deepspeech", "conformer"]


def listed(text):
    return dict(entry.split(":") for entry in text.split())


ZOO = [*listed(TORCHVISION), *listed(TIMM), *READERS, *WRITERS, *RECURRENT, *OTHERS]
WORDS = 4000


def make(env, out, name):
    """A model of ZOO or SIZED under out/NAME with its test case; the path of model.onnx."""
    import onnx
    import trained
    folder = os.path.join(out, name)
    path = folder + "/model.onnx"
    if os.path.exists(folder + "/test_data_set_0/output_0.pb"):
        return path
    os.makedirs(folder, exist_ok=True)
    python = env.python_with(os.path.join(env.ROOT, "build", "zoo-venv"), NEEDED)
    made = subprocess.run([python, os.path.abspath(__file__), name, path], capture_output=True, text=True)
    if made.returncode:
        raise RuntimeError(f"torch does not export it: {made.stderr.strip().splitlines()[-1][:200]}")
    reads = name in READERS or name in WRITERS or name == "t5_encoder"
    return trained.write_case(onnx.load(path), folder, *((0, WORDS - 1) if reads else (-1, 1)))


# ---- in the environment with torch -----------------------------------------------------------------------
def first_of(torch, m, *more):
    """Its first result alone: the others are what a next call would begin with."""

    class First(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.m = m

        def forward(self, x):
            r = self.m(x, *more)
            r = r if isinstance(r, (tuple, list)) else list(r.values()) if isinstance(r, dict) else [r]
            return r[0]

    return First()


def picture(torch, name):
    side = int((listed(TORCHVISION) | listed(TIMM) | SIZED)[name])
    if name in listed(TIMM) or name in SIZED:
        import timm
        timm.layers.set_fused_attn(False)
        return timm.create_model(name.partition("@")[0], pretrained=False, exportable=True), torch.randn(1, 3, side, side)
    import torchvision.models as tv
    if hasattr(tv.segmentation, name):
        return first_of(torch, getattr(tv.segmentation, name)(weights=None, weights_backbone=None)), torch.randn(1, 3, side, side)
    words = {"googlenet": {"aux_logits": False, "init_weights": True}, "inception_v3": {"init_weights": True}}
    return getattr(tv, name)(weights=None, **words.get(name, {})), torch.randn(1, 3, side, side)


def text(torch, name):
    import transformers as t
    if name in READERS:
        kind, tokens, words = READERS[name]
        model, config = getattr(t, kind + "Model"), getattr(t, kind + "Config")
    else:
        model, kind, tokens, words = WRITERS[name]
        model, config = getattr(t, model), getattr(t, kind + "Config")
    m = model(config(vocab_size=WORDS, **words))
    m.config.use_cache = False
    return first_of(torch, m), torch.randint(0, WORDS, (1, tokens))


def recurrent(torch, name):
    kind, inputs, hidden, layers, both, steps = RECURRENT[name]
    r = getattr(torch.nn, kind)(inputs, hidden, layers, bidirectional=both, batch_first=True)
    return torch.nn.Sequential(first_of(torch, r), torch.nn.Linear(hidden * (1 + both), 40)), torch.randn(1, steps, inputs)


def other(torch, name):
    import torchaudio.models as ta
    import transformers as t
    if name == "t5_encoder":
        m = t.T5EncoderModel(t.T5Config(d_model=384, d_kv=64, num_layers=3, num_heads=6, d_ff=1024, vocab_size=WORDS))
        return first_of(torch, m), torch.randint(0, WORDS, (1, 64))
    if name == "whisper_encoder":
        c = t.WhisperConfig(encoder_layers=3, d_model=256, encoder_attention_heads=4, encoder_ffn_dim=1024, decoder_layers=1,
                            decoder_attention_heads=4, decoder_ffn_dim=512, max_source_positions=500)
        return first_of(torch, t.WhisperModel(c).encoder), torch.randn(1, 80, 1000)
    if name == "clip_vision":
        return first_of(torch, t.CLIPVisionModel(t.CLIPVisionConfig(image_size=160, patch_size=16, **WIDE))), torch.randn(1, 3, 160, 160)
    if name == "yolos":
        c = t.YolosConfig(hidden_size=192, num_hidden_layers=4, num_attention_heads=3, intermediate_size=768, image_size=[256, 256],
                          num_detection_tokens=50)
        return first_of(torch, t.YolosModel(c)), torch.randn(1, 3, 256, 256)
    if name == "conv_tasnet":
        return ta.ConvTasNet(enc_num_feats=128, msk_num_feats=64, msk_num_hidden_feats=128, msk_num_layers=4, msk_num_stacks=2), torch.randn(1, 1, 8000)
    if name == "wav2letter":
        return ta.Wav2Letter(num_classes=40, input_type="mfcc", num_features=13), torch.randn(1, 13, 200)
    if name == "deepspeech":
        return ta.DeepSpeech(n_feature=64, n_hidden=256), torch.randn(1, 1, 100, 64)
    m = ta.Conformer(input_dim=80, num_heads=4, ffn_dim=256, num_layers=3, depthwise_conv_kernel_size=31)
    return first_of(torch, m, torch.tensor([100])), torch.randn(1, 100, 80)


def main(name, path):
    warnings.filterwarnings("ignore")
    import torch
    torch.manual_seed(SEED)
    how = text if name in READERS or name in WRITERS else recurrent if name in RECURRENT else other if name in OTHERS else picture
    m, x = how(torch, name)
    with torch.no_grad():
        torch.onnx.export(m.eval(), x, path + ".part", opset_version=OPSET, input_names=["x"], output_names=["y"])
    os.replace(path + ".part", path)


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in (*ZOO, *SIZED):
        sys.exit(__doc__)
    main(*sys.argv[1:])
