"""Make a client's folder: `python identity.py NAME FOLDER` writes its secret identity and prints its public key.

The line that it prints goes to everybody, by a way that the coordinator cannot change it: together they are keys.toml.
"""

import argparse
import os
from pathlib import Path

from discreet.learning.federated import Identity


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name")
    parser.add_argument("folder", type=Path)
    asked = parser.parse_args()
    asked.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    identity = Identity.new()
    file = os.open(asked.folder / "identity", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)  # never over another one
    with os.fdopen(file, "wb") as out:
        out.write(identity.secret)
    print(f'{asked.name} = "{identity.public.hex()}"')


if __name__ == "__main__":
    main()
