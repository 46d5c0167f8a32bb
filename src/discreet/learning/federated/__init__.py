"""Federated learning, experimental: names, messages and files may change between versions.

Secure aggregation: the coordinator learns the sum of the clients' vectors, and nothing else about them.

The protocol is the one of Bonawitz et al. (2017, "Practical secure aggregation for privacy-preserving machine
learning"), with its consistency check against a cheating coordinator, and hash commitments to every share:

1. Each client makes two key pairs for this round and signs the public halves (`Client.advertise`).
2. Each client draws a seed, and gives every other client a share of the seed and of its mask key (`Client.share`).
3. Each client sends its vector + the mask of its seed ± one mask for every other client (`Client.mask`), modulo 2^k.
   What one of a pair adds the other subtracts: in the sum these masks are gone exactly.
4. The coordinator shows who is in the sum; each client signs that list, once (`Client.agree`).
5. With `threshold` such signatures, clients reveal shares: of the seeds of those in the sum, of the mask keys of those
   who left after step 2, never both of one client (`Client.unmask`). So the coordinator can take off what does not
   cancel.

Guarantee: let n clients take part with threshold t, and let the coordinator and at most c clients do together whatever
they like, with 2t > n + c. What they see can be simulated from the sum of the vectors of a set H of honest clients
(one set, of at least t − c clients), or without any vector; c and t are public (`RoundSettings`). In particular two
inputs of the honest clients with the same sum over H look the same. This holds if the assumptions in `crypto` do. It
protects nobody against the sum itself: that is what noise is for (`noise_shares`), added by the clients. It does not
make the sum right either: a client may send any vector, and a coordinator may publish any sum.

Proof. 1. *One list.* Suppose two honest clients reach step 5 with lists S ≠ S' of survivors (or different contexts or
sharers, which are under the same signature). Each list has t signatures of different clients, so at least 2t − n > c
clients signed both, one of them honest. But an honest client signs one list. So all honest clients that reveal shares
do so for one list S. Signatures cannot be carried over from another round: they cover the roster, which holds the
client's own keys, fresh in this round.
2. *One secret of each.* Let v be honest. If v is in S, honest clients reveal no share of its mask key: the others have
at most c < t of them, which say nothing about it (`shares`; commitments to the rest are digests of 256 random bits).
If v is not in S, in the same way nothing is known about its seed, and what v sent in step 3 is uniform and independent
of its vector because of the mask of the seed. If no honest client reaches step 5 that holds for every v. So only H, the
honest clients in S, can matter; |S| ≥ t was checked by an honest client, so |H| ≥ t − c.
3. *Masks among H.* Call honest clients that signed S signers: there are at least t − c, all of them in S, and each has
a mask with everybody in S, because S is among those it has masks with (checked in step 4). Any other v of H was told of
at least t participants in step 3, at least t − c of them honest, v among them. Honest clients number n − c (or more,
with fewer that collude) and 2(t − c) > n − c: so v has a mask with some signer. Both mask keys of these pairs are
secret (2.), so these masks are uniform and independent for all that the others can see (gap Diffie–Hellman, HKDF as a
random oracle, AES). Masks are made for one list of participants (`client.mask_context`): those of a v that was told of
others than the signers were are masks that the signers do not have. Pairs in which both have the mask connect the
rest of H.
4. *Connected masks hide all but the sum.* Take a spanning tree of these pairs, and fix all other masks. Adding
independent uniform masks p_uv to u and −p_uv to v along a tree makes the vectors of H uniform among all that have the
same sum: there are as many free masks as vectors less one, and the map from masks to vectors with the given sum is a
bijection (take off leaves one by one). A mask that only one of a pair has makes even the sum uniform. ∎

With an honest but curious coordinator that runs the protocol as written, the lists are consistent anyway, and t − 1
colluding clients learn no more than the sum over the rest.

Whole trainings stand on this: a `Federation` says what is decided beforehand and what it costs whom, each client is a
`Member`, `run` conducts the rounds over a `Transport`.

Tests show the parts: by enumeration of all masks in a small modulus, of all polynomials over a small field, by attacks
of a coordinator that shows two lists or asks twice, and with a statistical test on what is sent.
"""

from discreet.learning.federated.client import Client
from discreet.learning.federated.coordinator import Coordinator, Refusal, Total, simulate_round
from discreet.learning.federated.crypto import Identity
from discreet.learning.federated.exchange import Arrival, Dropped, Transport
from discreet.learning.federated.federation import Federation, Local, Secure
from discreet.learning.federated.member import Account, InProcessClients, Member
from discreet.learning.federated.messages import Message, RoundSettings, decode
from discreet.learning.federated.noise_shares import GaussianShare, NoiseShare, PolyaShare
from discreet.learning.federated.rounds import Outcome, RoundReport, run

__all__ = [
    "Account",
    "Arrival",
    "Client",
    "Coordinator",
    "Dropped",
    "Federation",
    "GaussianShare",
    "Identity",
    "InProcessClients",
    "Local",
    "Member",
    "Message",
    "NoiseShare",
    "Outcome",
    "PolyaShare",
    "Refusal",
    "RoundReport",
    "RoundSettings",
    "Secure",
    "Total",
    "Transport",
    "decode",
    "run",
    "simulate_round",
]
