"""Which connections break and which process is killed, by seed."""

from __future__ import annotations

import random
from enum import Enum, auto

from msgspec import Struct

from headgate.local import Part


class Victim(Enum):
    NOBODY = auto()
    OBSERVER = auto()
    THRIFT1 = auto()
    THRIFT2 = auto()
    KAFKA = auto()
    HBASE = auto()


PARTS = {
    Victim.THRIFT1: Part.THRIFT1,
    Victim.THRIFT2: Part.THRIFT2,
    Victim.KAFKA: Part.KAFKA,
    Victim.HBASE: Part.HBASE,
}


class Scenario(Struct, frozen=True):
    seed: int
    victim: Victim
    client_faults: bool
    server_faults: bool

    def __str__(self) -> str:
        sides = [
            name
            for name, there in (("client", self.client_faults), ("server", self.server_faults))
            if there
        ]
        return f"{self.seed}-{self.victim.name.lower()}-{'-'.join(sides) or 'clean'}"


def scenario_of(seed: int) -> Scenario:
    rng = random.Random(seed)
    (victim,) = rng.choices(list(Victim), weights=[36, 26, 9, 9, 12, 8])
    client_faults, server_faults = rng.choice([(True, True), (True, False), (False, True)])
    if victim is not Victim.NOBODY and rng.random() < 0.3:
        client_faults = server_faults = False
    return Scenario(seed, victim, client_faults, server_faults)


QUICK = [
    Scenario(1, Victim.NOBODY, client_faults=True, server_faults=True),
    Scenario(3, Victim.OBSERVER, client_faults=True, server_faults=True),
    Scenario(4, Victim.THRIFT1, client_faults=False, server_faults=False),
    Scenario(5, Victim.KAFKA, client_faults=True, server_faults=True),
]
SOAK = [
    Scenario(2, Victim.NOBODY, client_faults=False, server_faults=True),
    *(scenario_of(1000 + seed) for seed in range(200)),
]
