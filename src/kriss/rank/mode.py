"""Which prototypes answer."""

from typing import Literal

Mode = Literal["lazy", "self-supervised", "supervised"]
