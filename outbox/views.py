"""The queue, the card of one item, and what people do with it. No GET decides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from outbox import services
from outbox.card import Card, card_of
from outbox.difference import difference
from outbox.evidence import entries_of, proofs_of
from outbox.exceptions import NotDecidable, WrongEdit
from outbox.figures import of_items
from outbox.forms import Drop, Edit, Rejection
from outbox.inbox import PAGE, Filters, Inbox, decided, inbox_of
from outbox.models import Item
from outbox.payloads import sheet
from outbox.together import AT_MOST, NAMED_AT_MOST, Together, review
from outbox.warnings import unusual
from runs import news
from runs.models.log import EVENTS
from runs.states import Audience
from sagaboard.web import PageRequest

FORMS: dict[str, Callable[..., Any]] = {"edit": Edit, "reject": Rejection, "drop": lambda item, data=None: Drop(data)}
CONFIRM = {"approve", *FORMS}
# What happens to steps that can be taken back shows nowhere in the outbox, and is most of the log.
NEWS = sorted(set(EVENTS) - {"step.requested", "step.started", "step.prepared", "step.done", "undo.started", "undo.verified"})


@require_safe
@login_required
def queue(request: PageRequest) -> HttpResponse:
    """What waits, or with ?decided what is over."""
    if "decided" in request.GET:
        items = decided(request.user, before=_number(request, "before"))
        figures = of_items(Item.objects.visible_to(request.user))
        context = {"items": items, "older": items[-1].pk if len(items) == PAGE else None, "figures": figures}
        return render(request, "outbox/decided.html", context)
    return render(request, "outbox/outbox.html", {"inbox": _inbox(request), "audiences": Audience.values})


@require_safe
@login_required
def card(request: PageRequest, item_id: int) -> HttpResponse:
    """One item, with ?confirm=approve, reject or drop the line that the second press is on."""
    item = _item(request, item_id)
    asked = request.GET.get("confirm", "")
    return _page(request, item, confirm=asked if asked in CONFIRM else "")


@require_safe
@login_required
def live(request: PageRequest) -> HttpResponse:
    """What changed in the queue and on the open card since `seen` and `card`; 204 if nothing happened."""
    if not news.since(request.GET.get("at", ""), NEWS):
        return HttpResponse(status=204)
    inbox = _inbox(request)
    item = Item.objects.visible_to(request.user).for_card(request.user).filter(pk=_number(request, "item")).first()
    shown = card_of(item, request.user) if item is not None else None
    queue_moved = request.GET.get("seen") != inbox.seen
    card_moved = shown is not None and request.GET.get("card") != shown.seen
    context = {"inbox": inbox, "card": shown, "queue_moved": queue_moved, "card_moved": card_moved, "deciding": "deciding" in request.GET}
    return render(request, "outbox/_live.html", context)


@require_POST
@login_required
def approve(request: PageRequest, item_id: int) -> HttpResponse:
    return _decision(request, item_id, services.approve, digest=request.POST.get("digest", ""))


@require_POST
@login_required
def reject(request: PageRequest, item_id: int) -> HttpResponse:
    return _decision(request, item_id, lambda item, *, by, said: services.reject(item, by=by, **said), form="reject")


@require_POST
@login_required
def edit(request: PageRequest, item_id: int) -> HttpResponse:
    digest = request.POST.get("digest", "")
    return _decision(request, item_id, lambda item, *, by, said: services.edit(item, digest=digest, by=by, fields=said), form="edit")


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def bulk(request: PageRequest) -> HttpResponse:
    """Several of one kind, every one in full with a box that is not ticked; a POST decides on those that were, one by one."""
    if request.method == "POST":
        return _bulk_decided(request)
    chosen = list(dict.fromkeys(_pk(pk) for pk in request.GET.getlist("item")))
    first = chosen[:NAMED_AT_MOST]
    items = list(Item.objects.visible_to(request.user).for_card(request.user).filter(pk__in=first).in_queue_order())
    wrong = f"You chose {len(chosen)} calls. Here are the first {len(first)}; go back for the others." if len(chosen) > len(first) else ""
    return render(request, "outbox/bulk.html", {"together": _together(request, items), "wrong": wrong}, status=422 if wrong else 200)


def _bulk_decided(request: PageRequest) -> HttpResponse:
    """Each is bound to the digest that stood beside its box. One that is refused stops no other."""
    ticked = list(dict.fromkeys(request.POST.getlist("yes")))
    # More than can be decided are not even looked up.
    digests = {_pk(pk): digest for pk, _, digest in (value.partition(":") for value in ticked[:AT_MOST])}
    known = Item.objects.visible_to(request.user).for_card(request.user).in_bulk(digests)
    named = [(known[pk], digest) for pk, digest in digests.items() if pk in known]
    if wrong := _wrong(ticked, [item for item, _ in named]):
        context = {"together": _together(request, [item for item, _ in named]), "wrong": wrong, "ticked": ticked}
        return render(request, "outbox/bulk.html", context, status=422)
    results = [(item, _one_of_several(request, item, digest)) for item, digest in named]
    items = Item.objects.with_everything().in_bulk([item.pk for item, _ in named])
    lines = [(items[item.pk], refusal) for item, refusal in results]
    sent = sum(not refusal for _, refusal in lines)
    return render(request, "outbox/bulk_done.html", {"lines": lines, "sent": sent, "refused": len(lines) - sent})


def _wrong(ticked: list[str], items: list[Item]) -> str:
    """Why these can't be decided together; "" where they can."""
    if len(ticked) > AT_MOST:
        return f"Nothing was sent: {len(ticked)} were ticked, and {AT_MOST} go at once at most. The first {AT_MOST} are here, still ticked."
    if not items or len({item.step.capability for item in items}) > 1:
        return f"Nothing was sent. Tick between one and {AT_MOST} calls of one kind."
    return ""


def _one_of_several(request: PageRequest, item: Item, digest: str) -> str:
    try:
        services.approve(item, digest=digest, by=request.user, in_bulk=True)
    except NotDecidable as exc:
        return services.record_refusal(item, exc, by=request.user)
    return ""


def _together(request: PageRequest, items: list[Item]) -> Together:
    odd = unusual(items)
    cards = {item.pk: card_of(item, request.user, odd=odd) for item in items}
    return review(items, {pk: _why_not(shown) for pk, shown in cards.items() if not shown.may_approve}, odd)


def _why_not(shown: Card) -> str:
    if not shown.is_open:
        return f"{shown.outcome.says} {shown.outcome.then}".strip()
    return shown.why_not or next((one.text for one in shown.before if not one.ok), "") or "show all of it first"


@require_POST
@login_required
def show_all(request: PageRequest, item_id: int) -> HttpResponse:
    """Shows a long payload whole; from then on this person may say yes to it."""
    item = _item(request, item_id)
    services.serve_whole(item, digest=request.POST.get("digest", ""), to=request.user)
    return redirect(f"{item.get_absolute_url()}#payload")


@require_safe
@login_required
def version(request: PageRequest, item_id: int, number: int) -> HttpResponse:
    """One version as it was, whole, beside what the next one changed."""
    item = _item(request, item_id)
    found = get_object_or_404(item.versions, number=number)
    after = item.versions.filter(number=number + 1).first()
    shown = sheet(found.payload())
    rows = difference(shown, sheet(after.payload())) if after else []
    return render(request, "outbox/version.html", {"item": item, "version": found, "after": after, "sheet": shown, "difference": rows})


@require_safe
@login_required
def evidence(request: PageRequest, item_id: int) -> HttpResponse:
    """Who let this out, and what they saw: each decision with the payload as it was shown and the policy as it was then."""
    item = get_object_or_404(Item.objects.visible_to(request.user).with_everything(), pk=item_id)
    return render(request, "outbox/evidence.html", {"item": item, "proofs": proofs_of(item), "entries": entries_of(item)})


@require_POST
@login_required
def ask_again(request: PageRequest, item_id: int) -> HttpResponse:
    return _decision(request, item_id, services.ask_again)


@require_POST
@login_required
def drop(request: PageRequest, item_id: int) -> HttpResponse:
    return _decision(request, item_id, lambda item, *, by, said: services.drop(item, by=by, **said), form="drop")


def _decision(request: PageRequest, item_id: int, decide: Callable[..., object], *, form: str = "", **given: str) -> HttpResponse:
    """One press: what was typed into `form` is read, the service decides, and the card says what came of it."""
    item = _item(request, item_id)
    typed: Any = FORMS[form](item, request.POST) if form else None
    if typed is None or typed.is_valid():
        said = {"said": typed.cleaned_data} if typed is not None else given
        try:
            decide(item, by=request.user, **said)
        except WrongEdit as exc:
            typed.add_problems(exc.problems)
        except NotDecidable as exc:
            return _refused(request, item, exc)
        else:
            return _decided(item)
    return _page(request, item, confirm=form, form=typed, status=422)


def _item(request: PageRequest, item_id: int) -> Item:
    return get_object_or_404(Item.objects.visible_to(request.user).for_card(request.user), pk=item_id)


def _page(
    request: PageRequest, item: Item, *, confirm: str = "", form: Any = None, refusal: str = "", read: str = "", status: int = 200
) -> HttpResponse:
    """The card; `read` is the digest of the version that was on the page whose press was refused."""
    if form is None and confirm in FORMS:
        form = FORMS[confirm](item)
    shown, inbox = card_of(item, request.user, read=read), _inbox(request)
    after = inbox.next_after(item) if "done" in request.GET or refusal else None
    context = {"inbox": inbox, "card": shown, "confirm": confirm, "form": form, "refusal": refusal, "next": after}
    return render(request, "outbox/item.html", {**context, "done": "done" in request.GET}, status=status)


def _refused(request: PageRequest, item: Item, exc: NotDecidable) -> HttpResponse:
    """The card as it is now, with what happened. The refusal is in the log."""
    refusal = services.record_refusal(item, exc, by=request.user)
    return _page(request, _item(request, item.pk), refusal=refusal, read=request.POST.get("digest", ""), status=409)


def _decided(item: Item) -> HttpResponse:
    # The card shows the decision; a repeat of the press shows the same.
    return redirect(f"{item.get_absolute_url()}?done=1")


def _inbox(request: PageRequest) -> Inbox:
    inbox = inbox_of(request.user, Filters.read(request.GET.dict()))
    if not inbox.filters.query:
        request.counted = {"outbox": inbox.for_you}
    return inbox


def _number(request: PageRequest, name: str) -> int:
    return _pk(request.GET.get(name, ""))


def _pk(given: str) -> int:
    """The number of a row; 0, which none has, for anything else."""
    return int(given) if given.isdecimal() and len(given) < 19 else 0
