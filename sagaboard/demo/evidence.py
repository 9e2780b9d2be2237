"""What a played story left behind, as one JSON document, and whether everything held that must hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from corrections.models import Correction
from outbox.models import Decision, Item
from runs import log
from runs.models import Run
from sagaboard.demo.play import Played

JSON = dict[str, Any]
TEMPLATE = ("What you may have seen: ", "Status: ", "What you need to do: ", "When it will come back: ", "Questions: ")


def of(played: Played) -> JSON:
    """The story's document, in the shape of the README."""
    run = Run.objects.get(pk=played.run)
    chain = log.verify(run)
    return {
        "run": run.number,
        "state": run.state,
        "seconds": round(played.seconds, 1),
        "world": played.world,
        "ledger": [_call(entry) for entry in played.ledger],
        "log": {"entries": chain.entries, "verified": chain.whole, "head": chain.head, "events": [line.event for line in log.lines(run)]},
        "steps": [{"ref": step.ref, "state": step.state, "closed_why": step.closed_why} for step in run.steps.as_planned()],
        "outbox": [{"step": item.step.ref, "state": item.state} for item in Item.objects.filter(step__run=run).in_order()],
        "decisions": [
            {"item": decision.item.step.ref, "by": decision.by_name, "verdict": decision.verdict, "digest": decision.digest}
            for decision in Decision.objects.filter(item__step__run=run).select_related("item__step")
        ],
        "corrections": [
            {"to": correction.recipient, "place": correction.place_label, "state": correction.state, "text": correction.text}
            for correction in Correction.objects.filter(run=run)
        ],
        "exposure_seconds": {
            step.ref: round((step.undone_at - step.done_at).total_seconds(), 1)
            for step in run.steps.seen_by_people()
            if step.done_at and step.undone_at
        },
        "doubled": doubled(played.ledger),
        **played.more,
    }


def _call(entry: JSON) -> JSON:
    return {
        "at": entry["at"],
        "system": entry["system"],
        "call": f"{entry['method']} {entry['path']}",
        "key": entry.get("key"),
        "effect": entry["effect"],
    }


def doubled(ledger: list[JSON]) -> int:
    """How many calls had an effect although one with the same key and address had had it before."""
    effects = Counter(
        (entry["system"], entry["method"], entry["path"], entry["key"]) for entry in ledger if entry["effect"] and entry.get("key")
    )
    return sum(count - 1 for count in effects.values())


def wrong_in_red(story: JSON) -> Iterator[str]:
    """What did not hold at the end of the red story, a sentence each."""
    world = story["world"]
    if story["state"] != "compensated":
        yield f"the run is {story['state']}"
    for system in ("git", "staging", "flag", "ticket", "portal", "partner"):
        if world[system]["after"] != world[system]["before"]:
            yield f"{system} is not as before"
    for system in ("git", "staging", "flag"):
        if world[system]["worst"] == world[system]["before"]:
            yield f"{system} was never changed, so nothing was shown"
    if world["chat"]["after"]["channel"]:
        yield "the channel was not silent"
    if len(world["chat"]["after"]["notes"]) != 1 or len(story["corrections"]) != 1:
        yield "it is not exactly one correction"
    for correction in story["corrections"]:
        yield from _wrong_in_correction(correction)
    if story["decisions"] or {item["state"] for item in story["outbox"]} != {"withdrawn"}:
        yield "the outbox was not withdrawn, undecided"
    yield from _wrong_in_any(story)


def _wrong_in_correction(correction: JSON) -> Iterator[str]:
    if correction["state"] != "sent" or correction["to"] != "Meera Joshi":
        yield "the correction did not reach the owner of the QA cohort"
    missing = [field for field in TEMPLATE if field not in correction["text"]]
    if missing or "{" in correction["text"]:
        yield f"the correction lacks {missing or 'a slot'}"


def wrong_in_green(story: JSON) -> Iterator[str]:
    """What did not hold at the end of the green story, a sentence each."""
    world = story["world"]
    if story["state"] != "succeeded":
        yield f"the run is {story['state']}"
    if story["corrections"] or any(event.startswith("undo.") for event in story["log"]["events"]):
        yield "something was undone or corrected"
    if sorted(decision["item"] for decision in story["decisions"]) != ["partner", "ticket"]:
        yield "not exactly the two client-facing calls were decided on"
    if world["ticket"]["after"]["status"] != "In Review" or len(world["portal"]["after"]) != 1:
        yield "the ticket did not move once"
    if len(world["chat"]["after"]["channel"]) != 1 or len(world["partner"]["after"]) != 1:
        yield "summary and notice did not go out once each"
    sent = [entry["system"] for entry in story["ledger"] if entry["effect"] and entry["system"] in ("tickets", "chat", "partner")]
    if sent != ["tickets", "chat", "partner"]:
        yield f"they did not go out in order: {sent}"
    yield from _wrong_in_any(story)


def wrong_in_resume(story: JSON) -> Iterator[str]:
    """What did not hold after the resumption, a sentence each."""
    yield from wrong_in_green(story)
    if story["converged"]["status"] != 409 or not story["converged"]["effect"]:
        yield "the improvised branch did not converge"
    if "feature/billing-field-2" in story["world"]["git"]["after"]:
        yield "the improvised branch exists"


def _wrong_in_any(story: JSON) -> Iterator[str]:
    if not story["log"]["verified"]:
        yield "the log's chain is broken"
    if story["doubled"]:
        yield f"{story['doubled']} effects are doubled"
