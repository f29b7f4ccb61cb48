"""A griffe extension: methods of the explainer are shown as `help` shows them, with the keywords that they unpack."""

import inspect

import griffe

import normxlogit


class Keywords(griffe.Extension):
    """Takes docstrings and unpacked keywords from the running class."""

    def on_function(self, *, func, **_):
        """Replace what is unpacked in a method's signature and docstring."""
        if not func.path.startswith("normxlogit.explainer.Explainer.") or func.docstring is None:
            return
        method = getattr(normxlogit.Explainer, func.name)
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
