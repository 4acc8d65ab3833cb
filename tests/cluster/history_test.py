"""The checker accepts histories that a correct cluster can produce, and finds every kind of violation planted in them.

    scripts/python -m pytest tests/cluster/history_test.py
"""

import random
from dataclasses import replace

import pytest
from history import RULES, Append, Broken, Disturbance, Fenced, History, Position, Read, check

LEASE_S = 3.0


def simulate(seed, turns=30):
    """A valid history of two conversations: a correct store, clients that time out or are refused, and readers that see the
    newest turn grow."""
    rng = random.Random(seed)
    history = History(lease_s=LEASE_S, deltas_durable=rng.random() < 0.5)
    lists, lengths, clock, seq, epoch = {"x": [], "y": []}, {"x": 0, "y": 0}, 0.0, {"x": 0, "y": 0}, 7
    for value in range(turns):
        name = rng.choice("xy")
        begin, clock = clock, clock + rng.random()
        turn = history.add(Append(name, value, begin))
        if rng.random() < 0.15:
            turn.outcome, turn.end = "failed", clock
            continue
        answer = "".join(rng.choice("abc") for _ in range(rng.randrange(6)))
        if value == 0 or rng.random() < 0.8:
            turn.outcome, turn.answer, turn.started = "ok", answer, begin + 0.5 * (clock - begin)
            turn.tokens = (lengths[name], lengths[name] + 10)
        elif rng.random() < 0.5:
            turn.started, turn.received = begin + 0.1 * (clock - begin), answer[:1]
        elif rng.random() < 0.5:
            continue  # lost before it was stored
        lengths[name] += 10
        if answer and rng.random() < 0.3:
            partial = (*lists[name], (value, answer[:1]))
            history.add(Read(name, clock - 0.1 * (clock - begin), clock, partial, "s1"))
        lists[name].append((value, answer))
        clock += 0.01
        turn.end = clock if turn.outcome == "ok" else None
        seq[name] += rng.randint(1, 5)
        epoch += rng.random() < 0.2
        history.add(Position(name, seq[name], f"{name}{seq[name]}", rng.choice((epoch, None)), "s0"))
        if rng.random() < 0.4:
            history.add(Read(name, clock + 0.01, clock + 0.02, tuple(lists[name]), "s2"))
        clock += 0.1
    for server in ("s0", "s1", "s2"):
        for name, items in lists.items():
            history.add(Read(name, clock + 1, clock + 2, tuple(items), server, final=True))
    history.add(Disturbance("s0", 4.0, 8.0))
    history.add(Fenced("s0", 0.0, 9.0))
    return history


def set_final(history, name, change):
    """Changes the final list that all servers agree on."""
    for place, operation in enumerate(history.operations):
        if isinstance(operation, Read) and operation.conversation == name and operation.final:
            history.operations[place] = replace(operation, items=tuple(change(list(operation.items))))


def acknowledged(history):
    return [a for a in history.of(Append) if a.outcome == "ok"]


def last_of_final(history, name):
    return next(read for read in history.of(Read) if read.final and read.conversation == name).items


def without(value):
    return lambda items: [item for item in items if item[0] != value]


def lose_turn(history):
    turn = acknowledged(history)[0]
    for place, operation in enumerate(history.operations):
        if isinstance(operation, Read) and operation.conversation == turn.conversation:
            history.operations[place] = replace(operation, items=tuple(without(turn.value)(operation.items)))


def lose_started_turn(history):
    turn = history.add(Append("x", 1000, 0.0, started=0.1))
    assert turn.end is None


def change_answer(history):
    turn = acknowledged(history)[0]
    set_final(history, turn.conversation, lambda items: [(v, "changed" if v == turn.value else a) for v, a in items])


def lose_received_text(history):
    history.deltas_durable = True
    history.add(Append("x", 1000, 900.0, started=900.1, received="more"))
    set_final(history, "x", lambda items: [*items, (1000, "mor")])


def double_turn(history):
    turn = acknowledged(history)[0]
    set_final(history, turn.conversation, lambda items: [*items, (turn.value, turn.answer)])


def invent_turn(history):
    set_final(history, "x", lambda items: [*items, (1001, "")])


def revive_refused_turn(history):
    history.add(Append("x", 1002, 0.0, 0.1, "failed"))
    set_final(history, "x", lambda items: [*items, (1002, "")])


def read_ahead(history):
    history.add(Append("x", 1003, 1e6, 1e6 + 1, "ok", answer=""))
    set_final(history, "x", lambda items: [*items, (1003, "")])


def read_another_order(history):
    items = last_of_final(history, "x")
    history.add(Read("x", 0.0, 0.0, tuple(reversed(items)), "s1"))


def read_a_gap(history):
    items = last_of_final(history, "x")
    history.add(Read("x", 0.0, 1e5, items[1:], "s1"))


def miss_conversation(history):
    history.add(Read("x", 0.0, 0.0, None, "s1"))


def read_stale(history):
    turn = acknowledged(history)[-1]
    items = last_of_final(history, turn.conversation)
    place = [value for value, _ in items].index(turn.value)
    history.add(Read(turn.conversation, turn.end + 0.001, turn.end + 0.002, items[:place], "s1"))


def read_back_in_time(history):
    """Reads go back although no client had an acknowledgement."""
    history.add(Append("z", 2000, 0.0))
    for begin, items, final in ((1, ((2000, ""),), False), (3, (), False), (5, ((2000, ""),), True)):
        history.add(Read("z", begin, begin + 1, items, "s1", final))


def disagree_at_the_end(history):
    read = next(read for read in history.of(Read) if read.final and read.conversation == "x")
    read.items = read.items[:-1]


def forget_final_read(history):
    history.operations = [o for o in history.operations if not (isinstance(o, Read) and o.final and o.conversation == "y")]


def swap_turns(history):
    """The later turn was put before the one that was acknowledged before it began."""
    for turn in history.of(Append):
        turn.tokens = None
    first, second = [a for a in acknowledged(history) if a.conversation == acknowledged(history)[0].conversation][:2]
    swapped = {first.value: (second.value, second.answer), second.value: (first.value, first.answer)}
    for place, operation in enumerate(history.operations):
        if isinstance(operation, Read) and operation.conversation == first.conversation:
            if not operation.final:
                history.operations[place] = replace(operation, items=())
            else:
                history.operations[place] = replace(operation, items=tuple(swapped.get(item[0], item) for item in operation.items))


def begin_from_older_state(history):
    """The list is complete, but the model did not see the turn before."""
    history.add(Append("w", 3000, 0.0, 1.0, "ok", answer="", tokens=(0, 10)))
    history.add(Append("w", 3001, 2.0, 3.0, "ok", answer="", tokens=(0, 10)))
    history.add(Read("w", 4.0, 5.0, ((3000, ""), (3001, "")), "s1", final=True))


def write_number_twice(history):
    position = history.of(Position)[0]
    history.add(replace(position, chain="other"))


def write_number_in_two_epochs(history):
    history.add(Position("x", 5000, "same", 1000))
    history.add(Position("x", 5000, "same", 1001))


def return_to_former_owner(history):
    history.add(Position("x", 6000, "one", 1000))
    history.add(Position("x", 6001, "two", 999))


def repeat_event(history):
    history.add(Broken("x", "event 4 came after event 4"))


def fence_undisturbed_server(history):
    history.add(Fenced("s1", 0.0, 20.0))


def fence_after_short_disturbance(history):
    history.add(Disturbance("s1", 18.0, 18.0 + LEASE_S / 2))
    history.add(Fenced("s1", 0.0, 20.0))


def fence_restarted_server(history):
    """The disturbance was that of the process before."""
    history.add(Disturbance("s1", 4.0, 8.0))
    history.add(Fenced("s1", 9.0, 10.0))


PLANTED = {
    lose_turn: "lost", lose_started_turn: "lost", change_answer: "lost", lose_received_text: "lost", double_turn: "once",
    invent_turn: "phantom", revive_refused_turn: "phantom", read_ahead: "phantom", read_another_order: "prefix", read_a_gap: "prefix",
    miss_conversation: "prefix", read_stale: "stale", read_back_in_time: "stale", disagree_at_the_end: "final", forget_final_read: "final",
    swap_turns: "state", begin_from_older_state: "state", write_number_twice: "owner", write_number_in_two_epochs: "owner",
    return_to_former_owner: "owner", repeat_event: "stream", fence_undisturbed_server: "fence",
    fence_after_short_disturbance: "fence", fence_restarted_server: "fence",
}


@pytest.mark.parametrize("seed", range(100))
def test_valid_histories_pass(seed):
    assert check(simulate(seed)) == []


@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_planted_violations_are_found(plant):
    for seed in range(20):
        history = simulate(seed)
        plant(history)
        assert PLANTED[plant] in {violation.rule for violation in check(history)}, seed


def test_every_rule_has_a_planted_violation():
    assert set(PLANTED.values()) == {*RULES, "fence"}


def test_a_planted_violation_names_the_conversation(tmp_path):
    history = simulate(1)
    miss_conversation(history)
    assert {violation.where for violation in check(history)} == {"x"}
    history.save(tmp_path / "history.jsonl")
    assert len((tmp_path / "history.jsonl").read_text().splitlines()) == len(history.operations)
