"""White box, one client's update: what it tells about the rows that it was computed from.

Whoever sees the update of a single client, the coordinator of federated learning say, can read training rows off the
gradient of a dense layer, without searching and to the digit (`UpdateRows`), and labels off that of the last layer
(`UpdateLabels`). A coordinator that chooses the weights itself reads them off large batches as well (`imprint`).
Updates enter as arrays, so any library's will do.
"""

from discreet.attacks.updates.imprint import imprint
from discreet.attacks.updates.labels import UpdateLabels
from discreet.attacks.updates.reading import read_rows
from discreet.attacks.updates.rows import UpdateRows

__all__ = ["UpdateLabels", "UpdateRows", "imprint", "read_rows"]
