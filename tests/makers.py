"""One of each kind of hand-made result, with those of the wings that are there."""

from importlib.util import find_spec

from tests.factories import all_labels, labels_and_layers, make_attribution, make_generation, pair

MAKERS = [make_attribution, pair, all_labels, labels_and_layers, make_generation]

if find_spec("normxlogit.media"):
    from tests.media.factories import make_audio, make_image

    MAKERS += [make_image, make_audio]
