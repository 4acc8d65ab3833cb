"""Shows that the tests detect the defects they are meant to detect: enables every built-in defect (base/defect.h), one
at a time, and expects the tests listed with it to fail; without a defect they must pass.

    python3 tests/defects/run.py <folder of the *_defects binaries> [defect...]
"""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
HANGS_AFTER_S = 5 * int(os.environ.get("TEST_PATIENCE_S", 120))

# defect: its effect, the binary, the tests that must detect it.
DEFECTS = {
    "ack_before_sync": (
        "a change is acknowledged before it is on disk", "durability", "JournalCrashTest.FailedSync*"),
    "sync_skipped": (
        "the journal does not sync", "durability", "Shards/CrashTest.SurvivesLossOfPower/0"),
    "retry_after_failed_sync": (
        "the journal goes on after a failed sync", "durability", "JournalCrashTest.FailedSync*"),
    "lost_tail_accepted": (
        "a log that has lost its end is opened", "durability", "JournalFilesTest.AnOperatorMayAcceptALostTail"),
    "lost_tables_accepted": (
        "a manifest that has lost its end is opened", "durability", "JournalFilesTest.EveryTruncation*"),
    "chain_not_checked": (
        "records are read without their chain", "session", "JournalDamageTest.AChangedRecord"),
    "deleted_rows_kept": (
        "a deleted session's records stay", "session", "JournalTest.PurgeRemovesBytes*"),
    "data_key_kept": (
        "a deleted session's key stays", "durability", "EncryptionTest.DeletedSession*"),
    "sealed_name_ignored": (
        "sealed bytes open anywhere", "durability", "EncryptionTest.RefusesRelocatedRows:SealedStoreTest.RefusesReorderedPieces"),
    "manifest_before_parts": (
        "a manifest is there before its parts", "durability", "StoreKthCallTest.*/ForGood"),
    "chunk_checksum_skipped": (
        "chunks are read without their checksum", "durability", "*StoredSnapshotTest.RefusesAFlippedByteOfAChunk*"),
    "fingerprint_not_compared": (
        "a snapshot of another model is restored", "cache", "*Snapshot*"),
    "slot_not_reset": (
        "a slot is lent with what its last tenant left", "cache", "KvPoolTest.LendsEachSlotOnce*"),
    "rows_not_restored": (
        "a restored cache has none of the saved rows", "engine", "*EngineTiersTest.Fork*"),
    "boundaries_not_rolled_back": (
        "a recurrent state of tokens that were rolled back is kept", "engine", "*RecurrentTurns.Random*"),
    "state_floor_ignored": (
        "a cache continues where it has no recurrent state", "engine", "*RecurrentTurns.Rewinds*"),
    "draft_not_compared": (
        "the row after a rejected draft token is sampled", "engine", "*SpeculationTest.ManyGreedyTurns*"),
    "tail_not_restored": (
        "a restored recurrent state lacks the tokens since its boundary", "engine", "*RecurrentTiers.Continues*"),
    "delta_before_record": (
        "tokens are told before they are recorded", "session", "DurableSessionTest.NoDeltaIsSent*"),
    "superseded_accepted": (
        "a connection that was superseded may go on", "session", "DurableSessionTest.Superseded*"),
    "request_not_recognised": (
        "a repeated request generates again", "session", "SessionTableTest.RepeatedRequest*"),
    "fence_skipped": (
        "a batch is written after the server's lease was taken", "postgres", "PostgresServersTest.APausedServerIsFenced"),
    "lease_by_own_clock": (
        "a server takes over by its own clock", "postgres", "PostgresServersTest.AClockThatIsAhead*"),
    "retry_without_batch": (
        "a batch of unknown outcome is written again", "postgres", "PostgresOutcomeTest.ABatchWhoseReplyWasLost*"),
}

OPTIONAL = {"postgres"}  # binaries of builds with an option


def run(folder, binary, tests, defect):
    """Returns exit status (negative: a signal) and output of one run."""
    env = dict(os.environ, RINGSIDE_CRASH_CYCLES="80")
    env.pop("RINGSIDE_TEST_DEFECT", None)
    if defect:
        env["RINGSIDE_TEST_DEFECT"] = defect
    done = subprocess.run([str(folder / f"{binary}_defects"), f"--gtest_filter={tests}", "--gtest_fail_fast"], env=env,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=HANGS_AFTER_S, check=False)
    return done.returncode, done.stdout.decode(errors="replace")


def names_in_the_source():
    found = set()
    for folder in ("base", "kernels", "cache", "engine", "session", "ws"):
        for file in (ROOT / folder).rglob("*.cpp"):
            found.update(re.findall(r'RINGSIDE_DEFECT\("(\w+)"\)', file.read_text(encoding="utf-8")))
    return found


def main():
    folder, wanted = Path(sys.argv[1]), sys.argv[2:] or list(DEFECTS)
    faults = [f"{name}: in the source, but no test is named for it" for name in names_in_the_source() - set(DEFECTS)]
    faults += [f"{name}: not in the source" for name in set(DEFECTS) - names_in_the_source()]
    sound = {}
    for name in wanted:
        _, binary, tests = DEFECTS[name]
        sound.setdefault(binary, []).append(tests)
    skipped = set()  # binaries that need PostgreSQL, which is not installed
    for binary, tests in sound.items():
        if binary in OPTIONAL and not (folder / f"{binary}_defects").exists():
            skipped.add(binary)
            continue
        status, output = run(folder, binary, ":".join(dict.fromkeys(tests)), None)
        if binary in OPTIONAL and "[  SKIPPED ]" in output:
            skipped.add(binary)
        if status != 0 or "[  PASSED  ] 0 tests" in output:
            faults.append(f"{binary}: without a defect it ends with {status}:\n{output[-2000:]}")
    for name in wanted:
        what, binary, tests = DEFECTS[name]
        if binary in skipped:
            print(f"{name:26} {'skipped':12}          {what}")
            continue
        begin = time.monotonic()
        status, output = run(folder, binary, tests, name)
        noticed = status != 0 and ("[  FAILED  ]" in output or status < 0)
        print(f"{name:26} {'noticed' if noticed else 'NOT NOTICED':12} {time.monotonic() - begin:6.1f} s  {what}")
        if not noticed:
            faults.append(f"{name}: {tests} of {binary} did not notice that {what}")
    for fault in faults:
        print(fault)
    print(f"defects: {len(wanted)} tried, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
