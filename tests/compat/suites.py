"""What the runners of others' suites share: the list of what is left out, and changes to a suite's copy."""


def read_left_out(path):
    """{(where, test): reason} of a list with lines 'where | test | reason'."""
    rows = {}
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        parts = [part.strip() for part in line.split(" | ")]
        if len(parts) != 3 or not all(parts) or tuple(parts[:2]) in rows:
            raise SystemExit(f"{path.name}:{number}: wanted a new 'where | test | reason'")
        rows[parts[0], parts[1]] = parts[2]
    return rows


def fit(path, old, new):
    """Changes a file of the suite, if that was not done to what it was copied from."""
    text = path.read_text()
    if old not in text and new not in text:
        raise SystemExit(f"{path}: not the suite that its runner knows, it lacks {old!r}")
    path.write_text(text.replace(old, new))
