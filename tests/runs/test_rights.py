"""A right over one team, without belonging to it: it counts there and nowhere else, and ends with the grant."""

import pytest
from django.contrib.auth.models import Group
from django.test import Client
from guardian.shortcuts import assign_perm, remove_perm

from corrections import services as corrections
from corrections.models import Correction
from outbox import services as outbox
from outbox.exceptions import NotDecidable
from outbox.models import Item
from outbox.policies import Approver, approvers
from runs import rights, services
from runs.exceptions import NotAllowed
from runs.models import Run
from runs.paging import on_call
from sagaboard.accounts.models import User
from sagaboard.accounts.rights import ON_TEAM, held, holders, teams_with
from tests.corrections.scenes import draft_of, make_failed, make_undone
from tests.factories import make_team, make_token, make_user
from tests.outbox.scenes import item_of, make_released

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def guest():
    """Belongs to no team and has no role."""
    return make_user("guest")


@pytest.fixture
def theirs():
    return make_failed(token=make_token(team=make_team("theirs")))


@pytest.fixture
def elsewhere():
    return make_failed(token=make_token(team=make_team("elsewhere")))


@pytest.fixture
def group():
    made = Group.objects.create(name="night shift")
    yield made
    made.delete()


def anew(person):
    return User.objects.get(pk=person.pk)


def page(person, path):
    client = Client()
    client.force_login(person)
    return client.get(path)


ACTS = {
    "take_for_team": lambda run, by: services.take_run(run, by=by),
    "compensate_for_team": lambda run, by: services.compensate_run(run, actor=f"person:{by}", by=by),
    "settle_for_team": lambda run, by: services.settle_step(run.steps.get(number=1), by=by, how="undone_by_hand", reason="I looked."),
}


@pytest.mark.parametrize("grant", ACTS)
def test_a_grant_for_one_team_counts_there_and_nowhere_else(guest, theirs, elsewhere, grant):
    assert page(guest, theirs.get_absolute_url()).status_code == 404
    assign_perm(f"accounts.{grant}", guest, theirs.team)
    guest = anew(guest)
    assert list(Run.objects.visible_to(guest)) == [theirs]
    assert page(guest, theirs.get_absolute_url()).status_code == 200
    assert page(guest, elsewhere.get_absolute_url()).status_code == 404
    with pytest.raises(NotAllowed):
        ACTS[grant](elsewhere, guest)
    for other in ACTS.keys() - {grant}:
        with pytest.raises(NotAllowed):
            ACTS[other](theirs, guest)
    try:
        ACTS[grant](theirs, guest)
    except services.people.NotSettleable:  # that there is nothing to settle comes after the right
        assert grant == "settle_for_team"
    remove_perm(f"accounts.{grant}", guest, theirs.team)
    guest = anew(guest)
    assert page(guest, theirs.get_absolute_url()).status_code == 404
    with pytest.raises(NotAllowed):
        ACTS[grant](theirs, guest)


def test_a_guest_who_may_undo_is_paged_and_sees_the_button(guest, theirs, elsewhere):
    assert guest not in on_call(theirs)
    assign_perm("accounts.compensate_for_team", guest, theirs.team)
    guest = anew(guest)
    assert guest in on_call(theirs)
    assert guest not in on_call(elsewhere)
    seen = rights.of(guest, theirs)
    assert (seen.compensate, seen.override, seen.settle, seen.take) == (True, False, False, False)
    assert "Preview compensation" in page(guest, theirs.get_absolute_url()).content.decode()


def test_past_the_pivot_needs_the_right_of_its_own(guest, theirs):
    assign_perm("accounts.compensate_for_team", guest, theirs.team)
    with pytest.raises(NotAllowed, match="override pivot"):
        services.compensate_run(theirs, actor="person:guest", by=anew(guest), override=True)
    assign_perm("accounts.override_for_team", guest, theirs.team)
    services.compensate_run(theirs, actor="person:guest", by=anew(guest), override=True)


def test_who_may_decide_for_a_team_sees_its_items_and_not_its_runs(guest, token):
    run = make_released(token=token)
    other = item_of(make_released(), "tell")
    item = item_of(run, "tell")
    assign_perm("accounts.decide_for_team", guest, run.team)
    guest = anew(guest)
    assert set(Item.objects.visible_to(guest)) == {item_of(run, "tell"), item_of(run, "also")}
    assert not Run.objects.visible_to(guest).exists()
    assert page(guest, other.get_absolute_url()).status_code == 404
    with pytest.raises(NotDecidable):
        outbox.approve(other, digest=other.digest, by=guest)
    assert guest in approvers(item)
    outbox.approve(item, digest=item.digest, by=guest)


def test_who_may_correct_for_a_team_sees_its_corrections_and_not_its_runs(guest, token):
    draft, other = draft_of(make_undone(token=token)), draft_of(make_undone())
    assert page(guest, draft.get_absolute_url()).status_code == 404
    assign_perm("accounts.correct_for_team", guest, draft.run.team)
    guest = anew(guest)
    assert list(Correction.objects.visible_to(guest)) == [draft]
    assert not Run.objects.visible_to(guest).exists()
    assert page(guest, draft.get_absolute_url()).status_code == 200
    corrections.dismiss(draft, by=guest, reason="They were told on the phone.")
    with pytest.raises(NotAllowed):
        corrections.dismiss(other, by=guest, reason="Mine too.")


def test_a_group_may_be_granted_a_team_as_well(guest, group, theirs, elsewhere):
    guest.groups.add(group)
    assign_perm("accounts.compensate_for_team", group, theirs.team)
    guest = anew(guest)
    assert list(Run.objects.visible_to(guest)) == [theirs]
    assert guest in on_call(theirs)
    services.compensate_run(theirs, actor="person:guest", by=guest)


def test_a_disabled_account_has_no_right_left(guest, theirs):
    for grant in ON_TEAM.values():
        assign_perm(f"accounts.{grant}", guest, theirs.team)
    guest = anew(guest)
    assert held(guest, theirs.team) == set(ON_TEAM)
    guest.is_active = False
    guest.save()
    assert held(guest, theirs.team) == set()
    for right in ON_TEAM:
        assert not teams_with(guest, right).exists()
        assert guest not in holders(right, theirs.team)


@pytest.mark.parametrize("right", ON_TEAM)
def test_the_three_questions_about_a_right_have_one_answer(right, group, theirs):
    """Whether somebody has it, where, and who has it: by role, by grant to a person and to a group, in the team and outside."""
    others = make_team("others")
    assign_perm(f"accounts.{ON_TEAM[right]}", group, theirs.team)
    people = [make_user(roles=("admin", "reviewer", "owner"), team=team) for team in (theirs.team, others, None)]
    people += [make_user(team=team) for team in (theirs.team, others)]
    people += [make_user(), make_user(), make_user(roles=("admin", "reviewer"), team=theirs.team, is_active=False)]
    assign_perm(f"accounts.{ON_TEAM[right]}", people[-3], theirs.team)
    people[-2].groups.add(group)
    for person in map(anew, people):
        for team in (theirs.team, others):
            has = right in held(person, team)
            assert teams_with(person, right).filter(pk=team.pk).exists() == has
            assert holders(right, team).filter(pk=person.pk).exists() == has
    assert sum(right in held(anew(person), theirs.team) for person in people) == 3


def test_the_card_names_whoever_may_decide_by_any_way(token, alice, bob, guest):
    item = item_of(make_released(token=token), "tell")
    assign_perm("accounts.decide_for_team", guest, token.team)
    everybody = [anew(person) for person in User.objects.all()]
    may = {person for person in everybody if not Approver(person).why_not(item)}
    assert set(approvers(item)) == may
    assert {alice, guest} <= may
    assert bob not in may


def test_naming_who_may_decide_costs_the_same_for_many_people(token, django_assert_max_num_queries):
    item = item_of(make_released(token=token), "tell")
    for _ in range(12):
        make_user(roles=("reviewer",), team=token.team)
    with django_assert_max_num_queries(9):
        assert len(approvers(Item.objects.with_everything().get(pk=item.pk))) == 12
