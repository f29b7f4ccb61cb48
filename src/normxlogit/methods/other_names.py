"""Names that other packages and papers use for methods, and what they are called here."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class OtherName:
    """Names elsewhere of one method here.

    Attributes:
        names: The names, as other packages and papers write them.
        here: The method here, with settings where its defaults would give other scores.
        remark: What a reader should know, empty for nothing.
        is_same: Whether the method here computes what the names promise; otherwise it is the nearest one, and must be
            named by its own name.
    """

    names: tuple[str, ...]
    here: str
    remark: str = ""
    is_same: bool = True

    @property
    def described(self) -> str:
        """The method here and the remark, in one line."""
        return f"{self.here} here: {self.remark}" if self.remark else f"{self.here} here"


OTHER_NAMES = (
    OtherName(("ig", "LayerIntegratedGradients"), "integrated-gradients"),
    OtherName(("saliency", "gradient", "vanilla-gradient", "simple-gradient"), "gradient-norm"),
    OtherName(
        ("input_x_gradient", "gradxinput", "gradient-times-input", "LayerGradientXActivation"), "gradient-x-input"
    ),
    OtherName(("loo", "leave-one-out", "erasure", "FeatureAblation"), "occlusion"),
    OtherName(
        ("shap", "shapley", "ShapleyValueSampling"),
        "kernel-shap",
        "Shapley values of tokens, where SHAP's own default for texts has Owen values of groups of words",
    ),
    OtherName(
        ("lrp", "layerwise-relevance-propagation"),
        "frozen-gradient:read_at=0,sink_threshold=none",
        "LRP that holds attention probabilities and norms (Ali et al., 2022)",
    ),
    OtherName(("rollout",), "attention-rollout"),
    OtherName(("logit-lens",), "logat"),
    OtherName(
        ("attnlrp", "lxt"),
        "frozen-gradient:read_at=0",
        "AttnLRP, which is patented, propagates through attention's softmax; here that is held constant",
        is_same=False,
    ),
    OtherName(
        ("DeepLift", "DeepLiftShap", "GradientShap", "expected-gradients"),
        "integrated-gradients",
        "it compares with one baseline, too",
        is_same=False,
    ),
    OtherName(
        ("sequential_integrated_gradients", "discretized_integrated_gradients", "LayerConductance"),
        "integrated-gradients",
        "its path is a straight line from one baseline",
        is_same=False,
    ),
    OtherName(("gradcam", "LayerGradCam"), "gradient-x-input", "it reads the word embeddings alone", is_same=False),
    OtherName(
        ("smoothgrad", "NoiseTunnel", "GuidedBackprop", "Deconvolution"),
        "gradient-norm",
        "it is the plain gradient",
        is_same=False,
    ),
    OtherName(
        ("attention", "attention-weights", "attention-flow"),
        "attention-rollout",
        "it multiplies the attention of all layers",
        is_same=False,
    ),
    OtherName(("partition", "PartitionExplainer", "owen"), "kernel-shap", "it groups no words", is_same=False),
    OtherName(("reagent",), "occlusion", "it masks or deletes a token, where ReAGent replaces it", is_same=False),
    OtherName(("anchors",), "lime", "it gives weights, not rules", is_same=False),
)
"""All such names. A name that differs from one here only in case, spaces, hyphens and underscores is not listed."""


def letters(name: str) -> str:
    """Return the letters and digits of a name in lower case: two spellings of one name have the same."""
    return "".join(character for character in name.lower() if character.isalnum())


_BY_LETTERS: Mapping[str, OtherName] = {letters(name): entry for entry in OTHER_NAMES for name in entry.names}


def other_name(name: str) -> OtherName | None:
    """Return what a name elsewhere is here, None for an unknown name."""
    return _BY_LETTERS.get(letters(name))
