"""What a call imports: the core, and of each wing no more than the names of what it adds."""

import subprocess
import sys

from scripts.without_wings import DELETABLE
from tests.contract.test_unchanged_process import ENVIRONMENT

CALL = """
import sys
from normxlogit import Explainer
a = Explainer.from_pretrained()("The movie is mediocre, maybe even bad.", verify=2)
str(a), a.to_html(), a.to_dict(), a.to_csv()
print(*(name for name in sys.modules if name.startswith("normxlogit.")))
"""


def test_a_text_is_explained_and_drawn_without_a_file_of_a_wing():
    run = subprocess.run([sys.executable, "-c", CALL], capture_output=True, env=ENVIRONMENT, check=True)
    imported = [name.split(".")[1:] for name in run.stdout.decode().split()]
    assert ["explainer"] in imported
    of_wings = [name for name in imported if name[0] in DELETABLE]
    assert [name for name in of_wings if len(name) > 1 and name[1] != "extension"] == []
