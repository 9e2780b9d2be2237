"""Pages to look at: the portal as the client sees it, the channel as the team sees it. All text is escaped."""

from __future__ import annotations

import datetime as dt
from html import escape
from pathlib import Path

from sagaboard.demo.world import scene, slack
from sagaboard.demo.world.store import JSON, Store
from sagaboard.demo.world.web import Reply

STYLE = Path(__file__).with_name("world.css")
SECURITY = {"Content-Security-Policy": "default-src 'none'; style-src 'self'", "X-Content-Type-Options": "nosniff"}


def show(path: str, store: Store) -> Reply | None:
    """The page at `path`; None if there is none."""
    if path == "/world.css":
        return Reply(text=STYLE.read_text(), content_type="text/css; charset=utf-8")
    page = {"/": index, "/portal": portal, "/channel": channel}.get(path)
    return Reply(text=page(store), content_type="text/html; charset=utf-8", headers=SECURITY) if page else None


def _frame(title: str, body: str) -> str:
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><title>{title}</title>'
    nav = '<nav><a href="/">The demo world</a> <a href="/portal">Client portal</a> <a href="/channel">Team channel</a></nav>'
    style = '<link rel="stylesheet" href="/world.css">'
    return f'<!doctype html><html lang="en"><head>{head}{style}</head><body>{nav}<main><h1>{title}</h1>{body}</main></body></html>'


def index(store: Store) -> str:
    read = scene.reading(store)
    segments = [v for s in read["flag"]["strategies"] if not s["disabled"] for c in s["constraints"] for v in c["values"]]
    rows = [
        ("Flag", f"{scene.FLAG}: on for {', '.join(segments) or 'nobody'}" if read["flag"]["enabled"] else f"{scene.FLAG}: off"),
        ("Ticket", f"{scene.ISSUE}: {read['ticket']['status']}, {len(read['ticket']['comments'])} comments"),
        ("Client portal", f"{len(read['portal'])} calls"),
        ("Team channel", f"{len(read['chat']['channel'])} messages, {len(read['chat']['notes'])} notes to people"),
        ("Partner", f"{len(read['partner'])} notices"),
    ]
    cells = "".join(f"<tr><th scope=row>{escape(name)}</th><td>{escape(text)}</td></tr>" for name, text in rows)
    return _frame("The demo world", f"<p>What stands in the systems that sagaboard’s demo acts on.</p><table>{cells}</table>")


def portal(store: Store) -> str:
    """What a client sees: the tickets' latest news."""
    rows = "".join(
        f"<li><time>{escape(call['at'][:19].replace('T', ' '))} UTC</time> <b>{escape(call['issue'])}</b> {escape(call['summary'])}"
        f" <span class=tag>{escape(call['to'])}</span></li>"
        for call in store.all("portal")[::-1]
    )
    return _frame("Your projects at Acme", f"<ul class=news>{rows}</ul>" if rows else "<p class=none>No news yet.</p>")


def channel(store: Store) -> str:
    """What the team sees: the channel with its threads, and the notes that people got."""
    messages = slack.in_channel(store, scene.CHANNEL)
    roots = [m for m in messages if m.get("thread_ts", m["ts"]) == m["ts"]]
    said = "".join(_message(store, m, [r for r in messages if r.get("thread_ts") == m["ts"] != r["ts"]]) for m in roots)
    notes = "".join(_message(store, m, [], to=_name(store, f"U{m['channel'][1:]}")) for m in store.all("message") if m["channel"][0] == "D")
    quiet = "<p class=none>Nothing was said.</p>"
    return _frame("#billing-dev", f"{said or quiet}<h2>Notes to people</h2>{notes or '<p class=none>None.</p>'}")


def _message(store: Store, message: JSON, replies: list[JSON], to: str = "") -> str:
    at = dt.datetime.fromtimestamp(float(message["ts"]), dt.UTC)
    whom = f" to {escape(to)}" if to else ""
    text = message["text"].replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
    gone = "<p class=none>This message was deleted.</p>"
    body = gone if message.get("subtype") == "tombstone" else f"<p class=text>{escape(text)}</p>"
    thread = f"<div class=thread>{''.join(_message(store, r, []) for r in replies)}</div>" if replies else ""
    head = f"<header><b>{escape(_name(store, message['user']))}</b>{whom} <time>{at:%H:%M:%S} UTC</time></header>"
    return f"<article>{head}{body}{thread}</article>"


def _name(store: Store, user: str) -> str:
    found = store.get("user", user)
    return str(found["real_name"]) if found else "sagaboard"
