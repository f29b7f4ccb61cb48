"""What pictures, sounds and speech add."""

from ..extending import Extension

EXTENSION = Extension(
    tasks=(
        "normxlogit.media.tasks.multimodal:ImageText",
        "normxlogit.media.tasks.two_towers:TwoTowers",
        "normxlogit.media.tasks.classification:ImageClassification",
        "normxlogit.media.tasks.classification:AudioClassification",
        "normxlogit.media.tasks.speech:SpeechSeq2Seq",
        "normxlogit.media.tasks.speech:CTC",
        "normxlogit.media.tasks.multimodal:AudioText",
    ),
    part_readers=("normxlogit.media.inputs.parts:READER",),
    media={"picture": "normxlogit.media.units:PictureScores", "sound": "normxlogit.media.units:SoundScores"},
    commands={"transcribe": "normxlogit.media.command:transcribe"},
)
