"""What results give to other programs."""

from ..extending import Extension

EXTENSION = Extension(
    exports={"shap": "normxlogit.exports.shap:to_shap", "latex": "normxlogit.exports.latex:to_latex"},
)
