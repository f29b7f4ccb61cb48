"""A griffe extension: methods of the explainer are shown as `help` shows them, with the keywords that they unpack."""

import inspect

import griffe

import normxlogit
from normxlogit.extending import wings

CALLS = {reference.replace(":", "."): name for wing in wings().values() for name, reference in wing.calls.items()}
"""The methods of the explainer that wings add, by the paths of their functions."""


class Keywords(griffe.Extension):
    """Takes docstrings and unpacked keywords from the running class."""

    def on_function(self, *, func, **_):
        """Replace what is unpacked in a method's signature and docstring."""
        is_method = func.path.startswith("normxlogit.explainer.Explainer.")
        name = func.name if is_method else CALLS.get(func.path)
        if name is None or func.docstring is None:
            return
        method = getattr(normxlogit.Explainer, name)
        func.docstring.value = inspect.getdoc(method)
        written = {parameter.name: parameter for parameter in func.parameters}
        shown = inspect.signature(method).parameters
        if not shown.keys() <= written.keys():
            func.parameters = griffe.Parameters(*(written.get(name) or _keyword(p) for name, p in shown.items()))


def _keyword(parameter):
    """Return a keyword as griffe has it."""
    return griffe.Parameter(
        parameter.name, annotation=str(parameter.annotation), kind=griffe.ParameterKind.keyword_only, default="None"
    )
