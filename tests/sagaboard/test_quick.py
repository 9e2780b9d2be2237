"""Queries that are composed once: what they may depend on."""

from __future__ import annotations

import pytest
from django.db.models import BooleanField
from django.db.models.expressions import RawSQL
from django.utils import timezone

from runs.models import Run
from sagaboard.accounts.models import User
from sagaboard.quick import ForPerson
from sagaboard.web import counts_for
from tests.factories import make_team, make_token, make_user
from tests.outbox.scenes import make_released

pytestmark = pytest.mark.django_db


def test_people_of_the_same_rights_each_get_their_own_rows_of_a_query_that_is_composed_once():
    made = []
    mine = ForPerson(lambda person: made.append(person) or User.objects.filter(pk=person.pk).values_list("username"))
    first, second = make_user("first", roles=("reviewer",)), make_user("second", roles=("reviewer",))
    assert (mine.rows(first), mine.rows(second)) == ([("first",)], [("second",)])
    assert len(made) == 2  # for the two who stand in
    assert mine.rows(make_user("third")) == [("third",)]
    assert len(made) == 4


def test_counts_follow_a_right_that_is_given_and_one_that_is_taken_away():
    team = make_team()
    make_released(token=make_token(team=team))
    person = make_user("somebody", team=team)

    def waiting():
        return counts_for(User.objects.get(pk=person.pk), {})["outbox"].number

    assert waiting() == 0
    person.groups.set(make_user(roles=("reviewer",)).groups.all())
    assert waiting() == 2
    person.groups.clear()
    assert waiting() == 0


def test_what_was_composed_is_forgotten_where_it_grows_too_many(monkeypatch):
    monkeypatch.setattr(ForPerson, "AT_MOST", 1)
    mine = ForPerson(lambda person, also: User.objects.filter(pk__in=[person.pk, also]).order_by("pk").values_list("pk"))
    person = make_user("somebody")
    for also in (-1, -2, -3, -1):
        assert mine.rows(person, also) == [(person.pk,)]
        assert len(mine.composed) <= 2


@pytest.mark.parametrize(
    "query",
    [
        lambda person: Run.objects.filter(opened_at__lt=timezone.now()).values_list("pk"),
        lambda person: Run.objects.filter(title=f"by {person.pk}").values_list("pk"),
        lambda person: Run.objects.filter(RawSQL("id = ANY(%s)", [[person.pk]], output_field=BooleanField())).values_list("pk"),
    ],
    ids=["the clock", "a text with the number in it", "a list with it"],
)
def test_a_query_that_depends_on_more_is_refused(query):
    with pytest.raises(AssertionError, match="depends on more than the rights"):
        ForPerson(query).rows(make_user("somebody"))
