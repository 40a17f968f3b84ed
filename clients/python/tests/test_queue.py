"""The queue of calls to one node, against a random history: each call gets one outcome, and is sent once at most."""

from __future__ import annotations

import random

import pytest

from seqsvr._queue import (
    CallQueue,
    Closed,
    End,
    Granted,
    Invalid,
    Outcome,
    Pending,
    RefusedItem,
    StreamEnd,
    complete,
)
from seqsvr.v1 import sequence_pb2 as pb


class Call(Pending):
    """A call that records its outcomes."""

    def __init__(self, uid: int, count: int = 1, version: int = 7) -> None:
        """A call for numbers of a uid."""
        super().__init__(pb.NextRequest(uid=uid, count=count, route_version=version, epoch=3), 5.0)
        self.outcomes: list[Outcome] = []
        self.sent = 0

    def complete(self, outcome: Outcome) -> None:
        self.outcomes.append(outcome)


def answer(message: pb.NextStreamRequest, **fields: object) -> pb.NextStreamResponse:
    uids = list(message.request.uids)
    response = pb.NextManyResponse(values=uids, prevs=[0] * len(uids), epochs=[1] * len(uids), **fields)  # type: ignore[arg-type]
    return pb.NextStreamResponse(tag=message.tag, response=response)


@pytest.mark.parametrize("seed", range(200))
def test_each_call_gets_one_outcome_and_is_sent_once(seed: int) -> None:
    draw = random.Random(seed)
    queue = CallQueue(max_message=draw.randint(1, 8), max_in_flight=draw.randint(1, 4))
    calls: list[Call] = []
    abandoned: set[Call] = set()
    in_flight: dict[int, tuple[pb.NextStreamRequest, list[Call]]] = {}
    generation: int | None = None
    for _ in range(600):
        step = draw.random()
        if step < 0.45:
            calls.append(Call(len(calls) + 1))
            opened = queue.enqueue(calls[-1])
            assert (opened is None) == (generation is not None), "one stream at a time"
            generation = opened or generation
        elif step < 0.7 and generation is not None:
            message = queue.next_message(generation, 0.0)
            if isinstance(message, pb.NextStreamRequest):
                sent = [calls[uid - 1] for uid in message.request.uids]
                for call in sent:
                    call.sent += 1
                    assert call not in abandoned
                assert message.now_only
                in_flight[message.tag] = (message, sent)
        elif step < 0.9 and in_flight:
            message, sent = in_flight.pop(draw.choice(list(in_flight)))
            taken = queue.take(message.tag)
            assert taken == sent
            complete(list(sent), answer(message))
        elif step < 0.94 and calls:
            call = draw.choice(calls)
            if not call.outcomes and call not in abandoned:
                abandoned.add(call)
                assert queue.abandon(call) == bool(call.sent)
        elif step < 0.98 and generation is not None:
            end = StreamEnd(draw.choice([End.BROKE, End.CLOSED, End.NEVER_SENT]), "over")
            old = generation
            ended, generation = queue.end(old, end, 0.0)
            for pending, outcome in ended:
                pending.complete(outcome)
            in_flight.clear()
            assert queue.next_message(old, 0.0) is Closed.CLOSED
            assert queue.end(old, end, 0.0) == ([], None), "a stream ends once"
    if generation is not None:
        for pending, outcome in queue.end(generation, StreamEnd(End.STOPPED, ""), 0.0)[0]:
            pending.complete(outcome)
    assert queue.is_idle
    for call in calls:
        assert call.sent <= 1
        assert len(call.outcomes) <= 1
        assert call.outcomes or call in abandoned
        if call.outcomes and isinstance(call.outcomes[0], Granted):
            assert call.outcomes[0].value == call.request.uid, "the outcome of its own item"


def test_a_message_has_what_its_calls_need() -> None:
    queue = CallQueue()
    generation = queue.enqueue(Call(1, version=9))
    assert generation is not None
    queue.enqueue(Call(2, count=5))
    message = queue.next_message(generation, 1.0)
    assert isinstance(message, pb.NextStreamRequest)
    assert (list(message.request.uids), list(message.request.counts)) == ([1, 2], [1, 5])
    assert (message.request.route_version, message.timeout_ms, list(message.request.known_epochs)) == (7, 4_000, [3, 3])
    assert queue.next_message(generation, 1.0) is None


def test_a_stream_that_is_replaced_ends_when_no_call_is_pending() -> None:
    queue = CallQueue()
    generation = queue.enqueue(Call(1))
    assert generation is not None
    queue.retire()
    assert isinstance(queue.next_message(generation, 0.0), pb.NextStreamRequest)
    assert queue.next_message(generation, 0.0) is Closed.CLOSED


def test_a_node_without_streams_is_left_alone_for_a_minute() -> None:
    queue = CallQueue()
    call = Call(1)
    generation = queue.enqueue(call)
    assert generation is not None
    assert not queue.is_unsupported(100.0)
    queue.end(generation, StreamEnd(End.UNSUPPORTED, "no such method"), 100.0)
    assert queue.is_unsupported(159.0)
    assert not queue.is_unsupported(161.0)


@pytest.mark.parametrize(
    ("response", "what"),
    [
        (pb.NextStreamResponse(tag=1), "neither a response nor a refusal"),
        (pb.NextStreamResponse(response=pb.NextManyResponse(values=[1], prevs=[0], epochs=[1])), "other lengths"),
        (
            pb.NextStreamResponse(
                response=pb.NextManyResponse(
                    values=[1, 2], prevs=[0, 0], epochs=[1, 1], errors=[pb.ItemError(index=2, reason="UNSERVED")]
                )
            ),
            "an item that was not sent",
        ),
    ],
)
def test_a_response_that_violates_the_protocol_is_one_to_all_calls(response: pb.NextStreamResponse, what: str) -> None:
    calls = [Call(1), Call(2)]
    complete(list(calls), response)
    for call in calls:
        (outcome,) = call.outcomes
        assert isinstance(outcome, Invalid)
        assert what in outcome.what


def test_refusals_and_routes_reach_their_calls() -> None:
    calls = [Call(1), Call(2), Call(3)]
    queue = CallQueue()
    generation, *others = [queue.enqueue(call) for call in calls]
    assert others == [None, None]
    assert generation is not None
    message = queue.next_message(generation, 0.0)
    assert isinstance(message, pb.NextStreamRequest)
    response = answer(
        message, errors=[pb.ItemError(index=1, reason="UNSERVED")], lost=pb.LostAttempts(indexes=[2], attempts=[4])
    )
    response.response.routes.version = 8
    complete(list(calls), response)
    first, second, third = (call.outcomes[0] for call in calls)
    assert isinstance(first, Granted)
    assert first.routes is not None
    assert isinstance(second, RefusedItem)
    assert (second.item.reason, second.routes) == ("UNSERVED", None)
    assert isinstance(third, Granted)
    assert (third.lost, third.routes) == (4, None)
