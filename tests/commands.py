"""The command line in this process."""

from normxlogit import cli


def run(capsys, *arguments):
    """Run a command; returns exit code, output and errors."""
    code = 0
    try:
        cli.main(list(map(str, arguments)))
    except SystemExit as stop:
        code = stop.code or 0
    out, err = capsys.readouterr()
    return code, out, err
