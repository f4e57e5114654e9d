"""Encryption at rest: nothing of a value stands in the database, everything comes back, and what has no key is said and not guessed."""

from __future__ import annotations

import asyncio
import re
import sqlite3
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from recovery import (
    AsyncEngine,
    AsyncRun,
    Budget,
    Call,
    Engine,
    Environment,
    Found,
    Rejection,
    Run,
    Status,
    contracts,
    effect,
    encryption,
    errors,
    workflow,
)
from recovery.core.entries import FORMS, Intent, Opened
from recovery.core.showing import shown
from recovery.encryption import Keyring, new_key, parsed
from recovery.ports import Journal, Message
from recovery.storage import contents, open_journal
from recovery.storage.memory import MemoryJournal
from recovery.storage.reading import legible, read
from recovery.storage.sql import SqlJournal
from recovery.testing.pieces import in_one_piece
from recovery.vaults import Vault
from tests.conformance.making import stored

from .cli_typed import typed

OLD, NEW = b"o" * 32, b"n" * 32
PLAIN = "Mrs Robinson"
LARGE = f"{PLAIN} " * 10_000
DAY = timedelta(days=1)
DESK = Environment("desk", scope="hall-1")


class Refusal(Rejection):
    why: str


def ring(**keys: bytes) -> Keyring:
    return Keyring(keys or {"old": OLD})


class Clinic:
    """A workflow of either colour that carries the name of a guest everywhere: input, decisions, arguments, outcomes, a rejection, messages."""

    def __init__(self, journal: Journal, vault: Vault | None, *, is_async: bool = False) -> None:
        self.journal, self.vault, self.is_async = journal, vault, is_async
        self.sent: list[str] = []

    def made(self) -> Any:
        def write(call: Call, name: str, text: str) -> str:
            self.sent.append(call.key)
            if text == "lost":
                raise ConnectionError(name)
            if text == "refused":
                raise Refusal(why=f"no room for {name}")
            return f"{name}: {text}"

        def note(name: str) -> dict[str, str]:
            return {"of": name, "long": LARGE}

        contract = contracts.Keyed(window=DAY, lookup=contracts.Lookup())
        if self.is_async:

            @effect(contract, environment=DESK, rejects=(Refusal,), name="book")
            async def book_async(call: Call, *, name: str, text: str) -> str:
                return write(call, name, text)

            @book_async.probe
            async def find_async(call: Call, *, name: str, text: str) -> Any:
                return Found(f"{name}: {text}")

            @workflow(name="stay")
            async def stay_async(run: AsyncRun, name: str, how: str) -> Any:
                noted = await run.decide("note", note, name)
                return [noted["of"], await run.perform(book_async(name=name, text=how))]

            return stay_async

        @effect(contract, environment=DESK, rejects=(Refusal,), name="book")
        def book(call: Call, *, name: str, text: str) -> str:
            return write(call, name, text)

        @book.probe
        def find(call: Call, *, name: str, text: str) -> Any:
            return Found(f"{name}: {text}")

        @workflow(name="stay")
        def stay(run: Run, name: str, how: str) -> Any:
            noted = run.decide("note", note, name)
            return [noted["of"], run.perform(book(name=name, text=how))]

        return stay

    def engine(self, vault: Vault | None = None) -> Any:
        self.journal.vault = None  # as a process that opens the same database with the keys that it has
        kind = AsyncEngine if self.is_async else Engine
        budget = Budget(max_wait=timedelta(0))
        return kind(self.journal, workflows=[self.made()], budget=budget, encryption=vault or self.vault)  # type: ignore[arg-type]

    def run(self, run_id: str = "r", how: str = "two nights", vault: Vault | None = None) -> Any:
        engine = self.engine(vault)
        came = engine.run(run_id, engine.workflows["stay"], PLAIN, how)
        return asyncio.run(came) if self.is_async else came


def everything(journal: Journal) -> str:
    """All that a database holds, as text."""
    held = stored(journal)
    if isinstance(journal, MemoryJournal):
        held["inbox"] = [(message,) for message in journal._inbox]
        held["stub"] = [(stub,) for stub in journal._stubs.values()]
    return repr(held)


@pytest.fixture(params=["def", "async def"])
def clinic(request: pytest.FixtureRequest, journal: Journal) -> Clinic:
    return Clinic(journal, ring(), is_async=request.param == "async def")


def test_nothing_of_a_value_stands_in_the_database_and_all_of_it_comes_back(clinic: Clinic) -> None:
    assert clinic.run() == [PLAIN, f"{PLAIN}: two nights"]
    with pytest.raises(errors.RunFailed, match="no room for Mrs Robinson"):
        clinic.run("refused", "refused")
    with pytest.raises(errors.Unresolved):
        clinic.run("lost", "lost")
    text = everything(clinic.journal)
    for word in ("Robinson", "two nights", "no room", PLAIN.encode().hex()):
        assert word not in text
    fingerprints = {entry.fingerprint for entry in read(clinic.journal, "r").entries if isinstance(entry, Intent)}
    assert not [digest for digest in fingerprints if digest in text], "a digest of a short value could be guessed from"
    assert read(clinic.journal, "r").opened.input_digest not in text
    assert clinic.run() == [PLAIN, f"{PLAIN}: two nights"]  # the input is known again by its keyed digest
    with pytest.raises(errors.RunInputDiffers):
        clinic.run(how="three nights")
    assert len(clinic.sent) == 3


def test_late_evidence_and_messages_are_encrypted_and_told_once(journal: Journal) -> None:
    clinic = Clinic(journal, ring())
    clinic.run()
    engine = clinic.engine()
    for _ in range(2):
        engine.observe("r", "book#1", Found(f"{PLAIN} again", receipt="other"))
    assert len(journal.evidence("r")) == 1
    assert len(engine.recover("r").contradictions) == 1
    run = journal.find("r")
    assert run is not None

    @workflow
    def waiting(run: Run) -> Any:
        return run.decide("x", lambda: 1)

    said = Message(run_id="w", kind="note", name="n", slot="", body=f'{{"value":"{PLAIN}"}}', by="ann", at_us=1, token="t")
    engine.add(waiting)
    held = replace(said, number=1)
    journal.open_run(_opened(journal))
    assert [journal.deliver(said).message for _ in range(2)] == [held, held]  # type: ignore[union-attr]
    assert journal.inbox("w") == [held]
    assert "Robinson" not in everything(journal)


def _opened(journal: Journal) -> Any:
    from tests.conformance.making import new_run

    return new_run(journal, "w")


def test_new_rows_are_written_under_the_current_key_and_old_ones_stay_readable(clinic: Clinic) -> None:
    clinic.run("first")
    both = Keyring({"old": OLD, "new": NEW}, current="new")
    assert clinic.run("second", vault=both) == clinic.run("first", vault=both)
    assert _keys_of(clinic.journal, "first") == {"old"}
    assert _keys_of(clinic.journal, "second") == {"new"}
    with pytest.raises(errors.EncryptionKeyMissing, match="'old', which is not here"):
        clinic.run("first", vault=ring(new=NEW))
    with pytest.raises(errors.EncryptionKeyMissing, match="'new', which is not here"):
        clinic.run("second", vault=ring(old=OLD))


def test_a_run_that_began_under_the_old_key_goes_on_under_the_new_one(journal: Journal) -> None:
    clinic = Clinic(journal, ring())
    from recovery.crashpoints import hooked

    class Killed(BaseException):
        pass

    def die(point: str) -> None:
        if point == "append.intent.after":
            raise Killed

    with pytest.raises(Killed), hooked(die):
        clinic.run()
    both = Keyring({"old": OLD, "new": NEW}, current="new")
    assert clinic.run(vault=both) == [PLAIN, f"{PLAIN}: two nights"]
    assert _keys_of(journal, "r") == {"old", "new"}
    assert len(clinic.sent) == 1


def _keys_of(journal: Journal, run_id: str) -> set[str]:
    loaded = in_one_piece(journal, run_id)
    assert loaded is not None
    return {key for row in loaded[1] for key in re.findall(r'"\$sealed":\{"key":"(\w+)"', row.body)}


def test_equal_payloads_are_one_under_one_key_and_two_under_two(journal: Journal) -> None:
    clinic = Clinic(journal, ring())
    for run_id in ("a", "b"):
        clinic.run(run_id)
    assert len(stored(journal)["payload"]) == 1
    clinic.run("c", vault=Keyring({"old": OLD, "new": NEW}, current="new"))
    assert len(stored(journal)["payload"]) == 2, "nobody sees that what lies under two keys is equal"
    Clinic(journal, None).run("d")
    assert len(stored(journal)["payload"]) == 3


def test_a_missing_and_a_wrong_key_are_named_before_anything_is_done(clinic: Clinic) -> None:
    clinic.run()
    before = everything(clinic.journal)
    for keys, error in ((None, errors.EncryptionKeyMissing), (ring(old=NEW), errors.EncryptionKeyWrong)):
        clinic.vault = keys
        engine = clinic.engine()
        for asked in (engine.history, engine.get, engine.recover):
            with pytest.raises(error, match="'old'"):
                _finished(asked("r"))
    assert everything(clinic.journal) == before
    assert len(clinic.sent) == 1


def _finished(came: Any) -> Any:
    return asyncio.run(came) if asyncio.iscoroutine(came) else came


def test_an_unsettled_run_without_its_key_is_not_even_claimed(journal: Journal) -> None:
    @workflow
    def ask(run: Run, name: str) -> None:
        raise errors.ScopeUnknown(environment="e", error="E", message="not yet")  # a usage error leaves the run open

    with pytest.raises(errors.ScopeUnknown):
        Engine(journal, workflows=[ask], encryption=ring()).run("r", ask, PLAIN)
    before = journal.find("r")
    journal.vault = None
    for keys in (None, ring(new=NEW)):
        with pytest.raises(errors.EncryptionKeyMissing):
            Engine(journal, workflows=[ask], encryption=keys).recover("r")
    assert journal.find("r") == before


def test_what_was_written_in_the_clear_stays_readable(journal: Journal) -> None:
    clinic = Clinic(journal, None)
    clinic.run("before")
    clinic.vault = ring()
    clinic.run("after")
    assert clinic.run("before") == clinic.run("after")
    assert _keys_of(journal, "before") == set()


# -- without the keys -------------------------------------------------------------------------------------------------------


def test_statuses_and_timelines_can_be_seen_without_the_keys(journal: Journal) -> None:
    clinic = Clinic(journal, ring())
    clinic.run()
    journal.vault = None
    loaded = legible(journal, "r")
    assert (loaded.run.status, loaded.unopened) == (Status.COMPLETED, {"old"})
    assert "Robinson" not in repr(loaded)
    assert [type(entry).__name__ for entry in loaded.entries] == ["Opened", "Decision", "Intent", "Settled", "Settled"]


def test_a_large_argument_is_withheld_with_what_it_is_part_of(journal: Journal) -> None:
    @effect(contracts.Keyed(window=DAY), environment=DESK)
    def file_away(call: Call, *, name: str, document: str) -> int:
        return len(document)

    @workflow
    def report(run: Run, name: str, document: str) -> int:
        return run.perform(file_away(name=name, document=document))

    with Engine(journal, workflows=[report], encryption=ring()) as engine:
        engine.run("r", report, PLAIN, LARGE)
        assert LARGE in repr(read(journal, "r").entries)
    journal.vault = None
    loaded = legible(journal, "r")
    opened, intent = loaded.entries[:2]
    assert isinstance(opened, Opened)
    assert isinstance(intent, Intent)
    assert [shown(opened.input), shown(intent.arguments)] == [{"$withheld": "encrypted", "key": "old"}] * 2


def test_an_app_whose_keys_are_not_here_is_looked_into_without_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "clinic_app.py").write_text(
        "from recovery import Engine\n"
        "from recovery.encryption import Keyring\n"
        f"engine = Engine('sqlite:///{tmp_path}/r.db', workflows=[], encryption=Keyring.from_environment('CLINIC_APP_KEYS'))\n"
    )
    Clinic(open_journal(f"sqlite:///{tmp_path}/r.db"), ring()).run()
    monkeypatch.syspath_prepend(tmp_path)
    for line in (["runs"], ["show", "r"], ["waits"], ["verify"]):
        came = typed(*line, "--app", "clinic_app:engine")
        assert (came.code, "Robinson" in came.out) == (0, False), came.err
    came = typed("show", "r", "--app", "clinic_app:engine")
    assert '"$withheld": "encrypted"' in came.out
    assert "not shown: the variable CLINIC_APP_KEYS is empty or not set." in came.err
    assert typed("--run-id", "r", "--app", "clinic_app:engine").code == 2


def test_commands_without_the_keys_show_that_values_are_encrypted_and_with_them_what_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, key = f"sqlite:///{tmp_path}/r.db", new_key("old")
    monkeypatch.setenv("RECOVERY_KEYS", key)
    clinic = Clinic(open_journal(url), Keyring.from_environment())
    clinic.run()
    clinic.journal.close()
    monkeypatch.delenv("RECOVERY_KEYS")
    for line in (["runs"], ["show", "r"], ["doubt"], ["verify"]):
        for form in ([], ["--json"]):
            came = typed(*line, "--db", url, *form)
            assert came.code == 0, came.err
            assert "Robinson" not in came.out
    assert "encrypted" in typed("show", "r", "--db", url).out
    assert typed("verify", "--db", url, "--json").document["unopened"] == 1
    refused = typed("--run-id", "r", "--db", url)
    assert (refused.code, "'old', which is not here" in refused.err) == (2, True)
    monkeypatch.setenv("RECOVERY_KEYS", key)
    assert PLAIN in typed("show", "r", "--db", url).out
    assert typed("--run-id", "r", "--db", url, "--json").document["outcome"]["value"][0] == PLAIN
    monkeypatch.setenv("RECOVERY_KEYS", new_key("old"))
    came = typed("verify", "--db", url)
    assert (came.code, "'old'" in came.out) == (2, True)


# -- moved and changed ------------------------------------------------------------------------------------------------------


def test_a_ciphertext_cannot_be_moved_even_by_who_computes_the_chain_again(sqlite_url: str) -> None:
    """To another run, to another entry, and beside other clear fields: who can write rows can compute digests, and still cannot do that."""
    from recovery import codec
    from recovery.core.chain import chained, genesis

    journal = open_journal(sqlite_url)
    clinic = Clinic(journal, ring())
    for run_id in ("a", "b"):
        clinic.run(run_id, f"night in {run_id}")
    namespace = journal.namespace()

    def forged(change: Any) -> None:
        loaded = in_one_piece(journal, "a")
        assert loaded is not None
        bodies = [codec.loads(row.body) for row in loaded[1]]
        change(bodies)
        previous = genesis(namespace, "a")
        with closing(sqlite3.connect(sqlite_url.removeprefix("sqlite:///"))) as file:
            for row, body in zip(loaded[1], bodies, strict=True):
                made = chained(previous, row.seq, row.kind, row.step, codec.dumps(body), row.epoch, row.token)
                previous = made.digest
                number = "(SELECT number FROM run WHERE run_id = 'a')"
                file.execute(
                    f"UPDATE journal SET body = ?, digest = ? WHERE run = {number} AND seq = ?", (made.body, previous, row.seq)
                )
            file.execute("UPDATE run SET head_digest = ? WHERE run_id = 'a'", (previous,))
            file.commit()

    whole = in_one_piece(journal, "a")
    other = in_one_piece(journal, "b")
    assert whole is not None
    assert other is not None
    theirs = [codec.loads(row.body) for row in other[1]]

    def of_another_run(bodies: list[Any]) -> None:
        bodies[2]["$sealed"] = theirs[2]["$sealed"]

    def of_another_entry(bodies: list[Any]) -> None:
        bodies[4]["$sealed"] = bodies[3]["$sealed"]

    def beside_another_key(bodies: list[Any]) -> None:
        bodies[2]["key"] = "another"

    def another_payload(bodies: list[Any]) -> None:
        bodies[1]["$payload"]["value"][1] += 1

    for change in (of_another_run, of_another_entry, beside_another_key, another_payload):
        forged(change)
        with pytest.raises(errors.EncryptionKeyWrong):
            read(journal, "a")
        forged(lambda bodies: bodies.__setitem__(slice(None), [codec.loads(row.body) for row in whole[1]]))
        assert read(journal, "a").run.status is Status.COMPLETED
    journal.close()


@pytest.mark.parametrize("how", ["missing", "flipped"])
def test_a_damaged_payload_is_found_with_and_without_the_keys(journal: Journal, how: str) -> None:
    from .test_payloads import spoil

    clinic = Clinic(journal, ring())
    clinic.run()
    spoil(journal, how)
    for vault in (clinic.vault, None):
        journal.vault = vault
        [broken] = Engine(journal).verify().broken
        assert (broken.seq, broken.field) == (2, "the payload of value")


def test_an_encrypted_run_is_exported_and_replayed_with_its_keys(journal: Journal) -> None:
    from recovery.storage.exported import exported, imported

    clinic = Clinic(journal, ring())
    clinic.run()
    journal.vault = None
    text = exported(journal, "r")
    assert "Robinson" not in text
    with pytest.raises(errors.EncryptionKeyMissing):
        imported(text, where="here")
    _, loaded = imported(text, where="here", vault=ring())
    assert loaded.opened.input == {"name": PLAIN, "how": "two nights"}


def test_forgetting_keeps_a_digest_that_nobody_can_guess_from(journal: Journal) -> None:
    clinic = Clinic(journal, ring())

    @workflow
    def pin(run: Run) -> int:
        return 1234

    engine = Engine(journal, workflows=[pin], encryption=clinic.vault)
    engine.run("p", pin)
    stub = engine.forget("p", by="ann", reason="asked to").stub
    assert stub.outcome_digest.startswith("old:")


# -- keys --------------------------------------------------------------------------------------------------------------------


def test_keys_come_from_the_environment_a_file_or_a_function_at_the_first_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = new_key("k1"), new_key("k2")
    monkeypatch.setenv("RECOVERY_KEYS", f"{first}, {second}")
    path = tmp_path / "keys"
    path.write_text(f"{first}\n{second}\n")
    path.chmod(0o600)
    asked: list[int] = []

    def fetch() -> dict[str, bytes]:
        asked.append(1)
        return parsed(f"{first} {second}")

    for keys in (Keyring.from_environment(), Keyring.from_file(path), Keyring(fetch)):
        assert repr(keys) == "<Keyring not read yet>"
        assert (keys.current, keys.ids) == ("k1", ("k1", "k2"))
        assert keys.unseal("k1", ring(**parsed(first)).seal(b"x", b"about"), b"about") == b"x"
        assert repr(keys) == "<Keyring k1, k2>"
    assert asked == [1]
    path.chmod(0o640)
    with pytest.raises(errors.DefinitionError, match="mode 600"):
        Keyring.from_file(path).ids  # noqa: B018  # asking reads it


@pytest.mark.parametrize(
    ("made", "says"),
    [
        (lambda: Keyring({}), "there is no key"),
        (lambda: Keyring({"a b": OLD}), "no id of a key"),
        (lambda: Keyring({"a": b"short"}), "not 32 bytes"),
        (lambda: Keyring({"a": "o" * 32}), "not 32 bytes"),  # type: ignore[dict-item]
        (lambda: Keyring({"a": OLD}, current="b"), "'b' is not among them"),
        (lambda: Keyring({"a": OLD, "b": OLD}), "two ids have the same key"),
        (lambda: parsed("a:%%%"), "number 1 is no key"),
        (lambda: parsed(f"{new_key('a')} {new_key('a')}"), "'a' is there twice"),
        (lambda: Keyring.from_environment("NO_SUCH_KEYS").ids, "NO_SUCH_KEYS is empty or not set"),
        (lambda: Keyring.from_file("/no/such/file").ids, "cannot be read"),
        (lambda: new_key("a b"), "no id of a key"),
    ],
)
def test_what_is_no_keyring_is_refused_without_quoting_a_key(made: Any, says: str) -> None:
    with pytest.raises(errors.DefinitionError, match=re.escape(says)) as refused:
        made()
    assert "oooo" not in str(refused.value)


def test_a_keyring_shows_and_sends_no_key() -> None:
    import copy
    import pickle

    keys = ring()
    assert "oooo" not in repr(keys)
    for send in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="holds keys"):
            send(keys)  # type: ignore[operator]


def test_seals_differ_and_wraps_are_equal_and_both_are_bound() -> None:
    keys, other = ring(), ring(new=NEW)
    assert keys.seal(b"x", b"a") != keys.seal(b"x", b"a")
    assert keys.wrap(b"x", b"a") == keys.wrap(b"x", b"a") != keys.wrap(b"x", b"b")
    assert keys.wrap(b"x", b"a")[:12] != keys.wrap(b"y", b"a")[:12], "one nonce for two contents would give both away"
    assert keys.unwrap("old", keys.wrap(b"x", b"a"), b"a") == b"x"
    for opened in (
        lambda: keys.unseal("old", keys.seal(b"x", b"a"), b"b"),
        lambda: keys.unseal("old", keys.wrap(b"x", b"a"), b"a"),
        lambda: keys.unseal("old", b"", b"a"),
        lambda: keys.unseal("old", keys.seal(b"x", b"a")[:-1], b"a"),
    ):
        with pytest.raises(errors.EncryptionKeyWrong):
            opened()
    assert keys.fits(keys.blind("d"), "d")
    assert not keys.fits(keys.blind("d"), "e")
    assert keys.blind("d") != other.blind("d")
    with pytest.raises(errors.EncryptionKeyMissing):
        other.fits(keys.blind("d"), "d")


def test_derived_keys_are_those_of_rfc_5869() -> None:
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

    for use in (b"rows", b"payloads", b"nonces", b"digests"):
        made = HKDFExpand(algorithm=hashes.SHA256(), length=32, info=b"recovery-" + use + b"-1").derive(OLD)
        assert encryption._derived(OLD, use) == made


def test_every_form_of_decision_says_what_of_it_is_a_value() -> None:
    """A new form counts as a value whole, and could then not be told in a timeline without the keys: it is to be named."""
    assert set(contents._OF_FORM) == set(FORMS)


def test_sql_journals_have_no_keys_unless_they_are_given(journal: Journal) -> None:
    assert journal.vault is None
    assert isinstance(journal, MemoryJournal | SqlJournal)
