"""What pictures, sounds and speech add."""

from ..extending import AddedTask, Extension, ModelClasses

IMAGE_CLASSIFICATION = AddedTask(
    "image-classification",
    "normxlogit.media.tasks.classification:ImageClassification",
    ModelClasses(
        mapping="MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES",
        auto_class="AutoModelForImageClassification",
        processor_class="AutoImageProcessor",
    ),
)
AUDIO_CLASSIFICATION = AddedTask(
    "audio-classification",
    "normxlogit.media.tasks.classification:AudioClassification",
    ModelClasses(
        mapping="MODEL_FOR_AUDIO_CLASSIFICATION_MAPPING_NAMES",
        auto_class="AutoModelForAudioClassification",
        processor_class="AutoFeatureExtractor",
    ),
)
TWO_TOWERS = AddedTask(
    "zero-shot-image-classification",
    "normxlogit.media.tasks.two_towers:TwoTowers",
    ModelClasses(
        mapping="MODEL_FOR_ZERO_SHOT_IMAGE_CLASSIFICATION_MAPPING_NAMES",
        auto_class="AutoModelForZeroShotImageClassification",
        processor_class="AutoProcessor",
    ),
)
SPEECH = AddedTask(
    "speech-seq2seq",
    "normxlogit.media.tasks.speech:SpeechSeq2Seq",
    ModelClasses(
        mapping="MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING_NAMES",
        auto_class="AutoModelForSpeechSeq2Seq",
        processor_class="AutoProcessor",
        needs_encoder=True,
    ),
)
FRAMES = AddedTask(
    "ctc",
    "normxlogit.media.tasks.speech:CTC",
    ModelClasses(mapping="MODEL_FOR_CTC_MAPPING_NAMES", auto_class="AutoModelForCTC", processor_class="AutoProcessor"),
)
IMAGE_TEXT = AddedTask(
    "image-text-to-text",
    "normxlogit.media.tasks.multimodal:ImageText",
    ModelClasses(
        mapping="MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES",
        auto_class="AutoModelForImageTextToText",
        processor_class="AutoProcessor",
    ),
)
ENCODER_DECODERS = ModelClasses("MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES", "AutoModelForSeq2SeqLM")
"""Encoder-decoder models that read texts."""

AUDIO_TEXT = AddedTask(
    "audio-text-to-text",
    "normxlogit.media.tasks.multimodal:AudioText",
    ModelClasses(
        mapping="MODEL_FOR_MULTIMODAL_LM_MAPPING_NAMES",
        auto_class="AutoModelForMultimodalLM",
        processor_class="AutoProcessor",
        # Transformers lists language models that read sounds among their words with encoder-decoder models, too.
        decoders_among=(ENCODER_DECODERS, SPEECH.models),
    ),
)

EXTENSION = Extension(
    calls={"transcribe": "normxlogit.media.speech.call:transcribe"},
    tasks=(IMAGE_TEXT, TWO_TOWERS, IMAGE_CLASSIFICATION, AUDIO_CLASSIFICATION, SPEECH, FRAMES, AUDIO_TEXT),
    part_readers=("normxlogit.media.inputs.parts:READER",),
    media={"picture": "normxlogit.media.units:PictureScores", "sound": "normxlogit.media.units:SoundScores"},
    commands={"transcribe": "normxlogit.media.transcribe_command:transcribe"},
)
