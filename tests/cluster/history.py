"""Histories of conversations and their checker, after Elle's list-append: a conversation is a list, a turn appends one
element, a read returns a prefix.

Clients record each operation with its begin and end on one clock (seconds). The question of a turn carries a number that
no other turn has, so the list proves which turns happened, in which order, and how often. `check(history)` returns the
violations; each names its rule.
"""

import json
from collections import Counter, defaultdict
from dataclasses import asdict, dataclass, field


@dataclass
class Append:
    """One turn. `outcome`: "ok" (its end was read), "failed" (refused: it must never take effect), or "unknown"."""

    conversation: str
    value: int
    begin: float
    end: float | None = None  # None: never learned
    outcome: str = "unknown"
    started: float | None = None  # when the client read that the question is stored
    answer: str | None = None  # the whole answer, if ok
    received: str = ""  # the deltas read
    tokens: tuple | None = None  # length of the conversation before its question and after its answer


@dataclass
class Read:
    """A list of the conversation's turns: (value, answer) each. `items`: None if it does not exist."""

    conversation: str
    begin: float
    end: float
    items: tuple | None
    server: str = ""
    final: bool = False  # after all faults were healed and all appends ended


@dataclass
class Position:
    """A place in the conversation's journal as a server reported it; `epoch`: None if the report has none."""

    conversation: str
    seq: int
    chain: str
    epoch: int | None = None
    server: str = ""


@dataclass
class Broken:
    """A client received something that its protocol excludes, such as an event twice."""

    conversation: str
    text: str


@dataclass
class Fenced:
    """A server ended because another one had taken its lease. It ran from `begin` to `end`."""

    server: str
    begin: float
    end: float


@dataclass
class Disturbance:
    """A fault that keeps a server from renewing its lease."""

    server: str
    begin: float
    end: float


@dataclass(frozen=True)
class Violation:
    rule: str
    where: str  # conversation or server
    text: str


@dataclass
class History:
    """`lease_s`: a disturbance shorter than this does not justify a fence; somewhat shorter than the lease itself. `deltas_durable`: --durability token."""

    lease_s: float = 0.0
    notice_s: float = 10.0  # longest time until a server notices that its lease was taken
    deltas_durable: bool = False
    tokens_slack: int = 2  # of Append.tokens; a turn has far more
    operations: list = field(default_factory=list)

    def add(self, operation):
        self.operations.append(operation)
        return operation

    def of(self, kind):
        return [operation for operation in self.operations if isinstance(operation, kind)]

    def save(self, path):
        """Writes one JSON object per operation."""
        with open(path, "w") as file:
            for operation in self.operations:
                file.write(json.dumps({"kind": type(operation).__name__} | asdict(operation)) + "\n")


class Conversation:
    """The operations on one conversation, and its final list."""

    def __init__(self, name, history):
        self.name, self.deltas_durable, self.tokens_slack = name, history.deltas_durable, history.tokens_slack
        mine = [operation for operation in history.operations if getattr(operation, "conversation", None) == name]
        self.appends = {operation.value: operation for operation in mine if isinstance(operation, Append)}
        self.reads = [operation for operation in mine if isinstance(operation, Read)]
        self.positions = [operation for operation in mine if isinstance(operation, Position)]
        self.broken = [operation.text for operation in mine if isinstance(operation, Broken)]
        self.finals = [read for read in self.reads if read.final]
        self.final = next((read.items for read in self.finals if read.items is not None), ())
        self.place = {value: place for place, (value, _) in enumerate(self.final)}


def is_prefix(items, final):
    """The answer of the last turn may still have been growing."""
    if len(items) > len(final):
        return False
    *whole, last = items or [(None, "")]
    grows = not items or last[0] == final[len(items) - 1][0] and final[len(items) - 1][1].startswith(last[1])
    return grows and all(one == other for one, other in zip(whole, final))


def final_reads_agree(talk):
    if not talk.finals:
        yield "no final read"
    for read in talk.finals:
        if read.items != talk.final:
            yield f"{read.server} ends with {values(read.items)}, another server with {values(talk.final)}"


def reads_are_prefixes(talk):
    for read in talk.reads:
        if read.items is None:
            yield f"{read.server} does not find the conversation at {read.end:.3f}"
        elif not is_prefix(read.items, talk.final):
            yield f"{read.server} at {read.end:.3f} read {values(read.items)}; the final list is {values(talk.final)}"


def turns_appear_once(talk):
    for read in talk.reads:
        for value, count in Counter(value for value, _ in read.items or ()).items():
            if count > 1:
                yield f"turn {value} appears {count} times in a read of {read.server}"


def acknowledged_turns_remain(talk):
    answers = dict(talk.final)
    for turn in talk.appends.values():
        if turn.value not in answers:
            if turn.outcome == "ok" or turn.started is not None:
                yield f"turn {turn.value} was acknowledged at {turn.end or turn.started:.3f} and is gone"
        elif turn.outcome == "ok" and turn.answer != answers[turn.value]:
            yield f"turn {turn.value} was answered with {turn.answer!r}, stored is {answers[turn.value]!r}"
        elif talk.deltas_durable and not answers[turn.value].startswith(turn.received):
            yield f"turn {turn.value} had sent {turn.received!r}, stored is {answers[turn.value]!r}"


def only_accepted_turns_appear(talk):
    for read in talk.reads:
        for value, _ in read.items or ():
            turn = talk.appends.get(value)
            if turn is None:
                yield f"turn {value} was never asked for"
            elif turn.outcome == "failed":
                yield f"turn {value} was refused and took effect"
            elif turn.begin > read.end:
                yield f"turn {value} was read before it began"


def reads_are_complete(talk):
    """A read contains every turn that was acknowledged, or read, before it began."""
    done = [(turn.end, turn.value) for turn in talk.appends.values() if turn.outcome == "ok"]
    for read in talk.reads:
        seen = {value for value, _ in read.items or ()}
        missing = [value for end, value in done if end <= read.begin and value not in seen]
        if missing:
            yield f"{read.server} read at {read.begin:.3f} without {missing}, acknowledged before"
        for earlier in talk.reads:
            if earlier.end <= read.begin and len(earlier.items or ()) > len(read.items or ()):
                yield f"{read.server} read {len(read.items or ())} turns at {read.begin:.3f}, {earlier.server} {len(earlier.items)} before"


def turns_follow_acknowledged_ones(talk):
    """No turn begins from a state that lacks a turn acknowledged before: by their order, and by the tokens counted."""
    here = [turn for turn in talk.appends.values() if turn.value in talk.place]
    for turn in here:
        for earlier in here:
            known = min((t for t in (earlier.started, earlier.end) if t is not None), default=None)
            if known is not None and known <= turn.begin and talk.place[earlier.value] > talk.place[turn.value]:
                yield f"turn {turn.value} began at {turn.begin:.3f}, after turn {earlier.value} was acknowledged, and precedes it"
    for (before, _), (after, _) in zip(talk.final, talk.final[1:]):
        first, second = talk.appends.get(before), talk.appends.get(after)
        if first and second and first.tokens and second.tokens and abs(first.tokens[1] - second.tokens[0]) > talk.tokens_slack:
            yield f"turn {after} began with {second.tokens[0]} tokens; turn {before} had left {first.tokens[1]}"


def positions_have_one_owner(talk):
    """A sequence number has one chain and one epoch, and epochs grow with the numbers."""
    at = defaultdict(set)
    for position in talk.positions:
        at[position.seq].add((position.chain, position.epoch))
    newest = None
    for seq, found in sorted(at.items()):
        chains, epochs = {chain for chain, _ in found}, {epoch for _, epoch in found if epoch is not None}
        if len(chains) > 1 or len(epochs) > 1:
            yield f"number {seq} was written twice: {sorted(found, key=str)}"
        if newest is not None and epochs and min(epochs) < newest:
            yield f"number {seq} has epoch {min(epochs)}, an earlier one has {newest}"
        newest = max([*epochs, *([] if newest is None else [newest])], default=None)


def streams_are_whole(talk):
    yield from talk.broken


RULES = {
    "final": final_reads_agree,
    "prefix": reads_are_prefixes,
    "once": turns_appear_once,
    "lost": acknowledged_turns_remain,
    "phantom": only_accepted_turns_appear,
    "stale": reads_are_complete,
    "state": turns_follow_acknowledged_ones,
    "owner": positions_have_one_owner,
    "stream": streams_are_whole,
}


def unjustified_fences(history):
    """A server loses its lease only if a fault kept it from renewing it for that long."""
    disturbances = history.of(Disturbance)
    for fenced in history.of(Fenced):
        causes = [d for d in disturbances if d.server == fenced.server and d.end - d.begin >= history.lease_s
                  and d.end >= fenced.begin and d.begin <= fenced.end <= d.end + history.notice_s]
        if not causes:
            yield Violation("fence", fenced.server, f"was fenced at {fenced.end:.3f} and had not been disturbed for {history.lease_s} s")


def values(items):
    return None if items is None else [value for value, _ in items]


def check(history):
    """Returns all violations of a history; [] if there are none."""
    names = sorted({operation.conversation for operation in history.operations if hasattr(operation, "conversation")})
    talks = [Conversation(name, history) for name in names]
    found = [Violation(rule, talk.name, text) for talk in talks for rule, find in RULES.items() for text in find(talk)]
    return found + list(unjustified_fences(history))
