"""The demo world: one small process that speaks the protocols of a flag service, a tracker, a chat and a partner.

Standard library only, apart from the rest of sagaboard: what it has seen and holds is its own, in one SQLite file.
"""
