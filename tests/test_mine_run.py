"""Mining end to end: one result for any workers, order, engine or interruption; duplicates; bad input."""

from __future__ import annotations

import gzip
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from kriss import Ontology, OntologyConfig, build_ontology
from kriss.cli import run as kriss
from kriss.mine.config import MineConfig
from kriss.mine.run import mine

NAMES = ["asthma", "migraine", "Neoplasms, Breast", "IL-2", "β-catenin", "aspirin", "insulin", "Crohn Disease"]
FILLER = ["patients", "with", "of", "the", "severe", "dose", "gave", "rise", "to", "and", "after", "α", "(n = 12)"]


@pytest.fixture(scope="module")
def ontology(tmp_path_factory: pytest.TempPathFactory) -> Ontology:
    folder = tmp_path_factory.mktemp("ontology")
    rows = [{"id": f"X:{i}", "name": name, "types": ["Thing"]} for i, name in enumerate(NAMES)]
    (folder / "names.jsonl").write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    build_ontology(OntologyConfig(format="jsonl"), (folder / "names.jsonl",), folder / "onto")
    return Ontology.load(folder / "onto")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six files of a few hundred random documents, one gzipped."""
    folder = tmp_path_factory.mktemp("text")
    draw = random.Random(3)
    for number in range(6):
        lines = []
        for index in range(300):
            words = [draw.choice(FILLER + NAMES + ["breast neoplasms"]) for _ in range(draw.randint(5, 60))]
            lines.append(json.dumps({"id": f"{number}-{index}", "title": draw.choice(FILLER), "text": " ".join(words)}))
        data = "\n".join(lines).encode()
        name = folder / f"part{number}.jsonl"
        if number == 2:
            (folder / "part2.jsonl.gz").write_bytes(gzip.compress(data, mtime=0))
        else:
            name.write_bytes(data)
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted(folder.iterdir())}


@pytest.fixture(scope="module")
def expected(ontology: Ontology, corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    out = tmp_path_factory.mktemp("expected") / "mentions"
    mine(ontology, [corpus], out)
    return contents(out)


def test_rows_are_true_to_the_text(ontology: Ontology, corpus: Path, tmp_path: Path) -> None:
    report = mine(ontology, [corpus], tmp_path / "m", MineConfig(context=40))
    texts = {}
    for file in corpus.iterdir():
        data = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
        for line in data.decode().splitlines():
            row = json.loads(line)
            texts[row["id"]] = f"{row['title']}\n{row['text']}"
    rows = pq.read_table(tmp_path / "m" / "mentions.parquet").to_pylist()
    assert len(rows) == report.mentions > 200
    splits: dict[str, set[str]] = {}
    for row in rows:
        text, start, end = texts[row["document"]], row["start"], row["end"]
        assert text[start:end] == row["surface"]
        assert row["left"] == text[max(start - 40, 0) : start]
        assert row["right"] == text[end : end + 40]
        name = ontology[row["entity"]].name
        assert row["surface"].lower() in (name.lower(), "breast neoplasms" if name == NAMES[2] else "")
        assert row["preferred"]
        splits.setdefault(row["document"], set()).add(row["split"])
    assert all(len(found) == 1 for found in splits.values())
    forms = pq.read_table(tmp_path / "m" / "forms.parquet").to_pylist()
    assert sum(row["hits"] for row in forms) == report.hits
    assert forms == sorted(forms, key=lambda row: (-row["hits"], row["surface"]))


def test_same_bytes_for_any_workers_order_and_shards(
    ontology: Ontology, corpus: Path, expected: dict[str, bytes], tmp_path: Path
) -> None:
    mine(ontology, sorted(corpus.iterdir(), reverse=True), tmp_path / "reversed", workers=3)
    assert contents(tmp_path / "reversed") == expected
    events: list[dict[str, object]] = []
    out = tmp_path / "cut"
    mine(ontology, [corpus], out, workers=2, shard_bytes=20_000, progress=events.append)
    assert sum(event["event"] == "done" for event in events) > 20
    assert contents(out) == expected


def test_same_bytes_when_documents_share_an_id(ontology: Ontology, tmp_path: Path) -> None:
    """Their mentions draw the same numbers, and of contexts alike only one stays: which, the text must decide."""
    draw = random.Random(5)
    title = "A study of patients with severe asthma after a dose of aspirin, which gave rise to migraine"
    versions = [
        [{"id": f"d{i}", "title": title, "text": " ".join(draw.choices([*FILLER, *NAMES], k=40))} for i in range(40)]
        for _ in range(3)
    ]
    found = []
    for number, order in enumerate(((0, 1, 2), (2, 0, 1), (1, 2, 0))):
        folder = tmp_path / f"text{number}"
        folder.mkdir()
        for name, which in zip("abc", order, strict=True):
            lines = "\n".join(json.dumps(row) for row in versions[which])
            (folder / f"{name}.jsonl").write_text(lines, encoding="utf-8")
        out = tmp_path / f"m{number}"
        mine(ontology, [folder], out, workers=1 + number % 2, shard_bytes=10_000 * (1 + number))
        found.append({name: data for name, data in contents(out).items() if name.endswith(".parquet")})
    assert found[0] == found[1] == found[2]


def test_killed_at_random_moments_it_ends_in_the_same_bytes(
    ontology: Ontology, corpus: Path, expected: dict[str, bytes], tmp_path: Path
) -> None:
    out = tmp_path / "killed"
    command = [sys.executable, "-m", "kriss.cli", "mine", str(ontology.artifact.path), str(corpus)]
    command += ["--out", str(out), "--workers", "2"]
    draw = random.Random(11)
    kills = 0
    for _ in range(5):
        process = subprocess.Popen(
            command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL, start_new_session=True
        )
        time.sleep(draw.uniform(0.2, 1.6))
        if process.poll() is None:
            if kills % 2:
                os.killpg(process.pid, signal.SIGKILL)  # workers and all
            else:
                process.kill()  # the workers are left behind and must end by themselves
            kills += 1
        process.wait()
        shutil.rmtree(out, ignore_errors=True)  # of a run that was quicker than the kill: the next one starts anew
    assert kills >= 2
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    assert contents(out) == expected
    assert [file.name for file in tmp_path.iterdir()] == ["killed"]


def test_finished_shards_are_not_mined_again(
    ontology: Ontology, corpus: Path, expected: dict[str, bytes], tmp_path: Path
) -> None:
    class Stop(Exception): ...  # noqa: N818

    def stop_after_two(event: dict[str, object]) -> None:
        done.append(event["event"])
        if done.count("done") == 2:
            raise Stop

    done: list[object] = []
    with pytest.raises(Stop):
        mine(ontology, [corpus], tmp_path / "m", progress=stop_after_two, shard_bytes=20_000)
    events: list[dict[str, object]] = []
    mine(ontology, [corpus], tmp_path / "m", workers=2, progress=events.append)
    counts = [event["shards"] for event in events if event["event"] in ("plan", "resumed")]
    assert counts == [2 + sum(event["event"] == "done" for event in events), 2] > [20]  # as it was cut at first
    assert contents(tmp_path / "m") == expected
    other: list[dict[str, object]] = []
    done.clear()
    with pytest.raises(Stop):
        mine(ontology, [corpus], tmp_path / "n", progress=stop_after_two)
    mine(ontology, [corpus], tmp_path / "n", MineConfig(seed=1), progress=other.append)
    assert [event["shards"] for event in other if event["event"] == "resumed"] == [0]


def test_two_ray_nodes_give_the_same_bytes(
    ontology: Ontology, corpus: Path, expected: dict[str, bytes], tmp_path: Path
) -> None:
    """In a process of its own: Ray leaves threads and warnings behind."""
    code = (
        "import sys, logging\n"
        "from ray.cluster_utils import Cluster as TestCluster\n"
        "from kriss import work\n"
        "from kriss.mine.run import mine\n"
        "nodes = TestCluster(initialize_head=True, head_node_args={'num_cpus': 1})\n"
        "nodes.add_node(num_cpus=1)\n"
        "used, placed = [], work._placed\n"
        "work._placed = lambda *a: used.append(a) or placed(*a)\n"
        "mine(sys.argv[1], sys.argv[2], sys.argv[3],\n"
        "     engine=work.Ray(nodes.address, 1))\n"
        "assert len(used) == 2, used\n"
        "nodes.shutdown()\n"
    )
    out = tmp_path / "ray"
    done = subprocess.run(
        [sys.executable, "-c", code, str(ontology.artifact.path), str(corpus), str(out)],
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
        env={**os.environ, "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0"},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert contents(out) == expected


PUBMED = """<?xml version="1.0" encoding="utf-8"?>
<PubmedArticleSet>
{records}
</PubmedArticleSet>
"""
RECORD = """<PubmedArticle><MedlineCitation Status="MEDLINE"><PMID Version="1">{id}</PMID><Article>
<ArticleTitle>{title}</ArticleTitle></Article></MedlineCitation></PubmedArticle>"""


def pubmed(path: Path, records: list[tuple[int, str]], deleted: tuple[int, ...] = ()) -> None:
    body = [RECORD.format(id=number, title=title) for number, title in records]
    if deleted:
        body += ["<DeleteCitation>", *(f'<PMID Version="1">{number}</PMID>' for number in deleted), "</DeleteCitation>"]
    path.write_text(PUBMED.format(records="\n".join(body)), encoding="utf-8")


def test_later_records_replace_earlier_and_deletions_count(ontology: Ontology, tmp_path: Path) -> None:
    pubmed(tmp_path / "pubmed24n0001.xml", [(1, "On asthma"), (2, "On migraine"), (3, "On aspirin"), (4, "Of insulin")])
    pubmed(tmp_path / "pubmed24n0002.xml", [(2, "No longer"), (5, "On IL-2 first"), (5, "On IL-2 again")], (3,))
    pubmed(tmp_path / "pubmed24n0010.xml", [(3, "Of β-catenin"), (6, "On Crohn disease")], (6,))
    files = sorted(tmp_path.glob("*.xml"), reverse=True)
    report = mine(ontology, files, tmp_path / "m")
    rows = pq.read_table(tmp_path / "m" / "mentions.parquet").to_pylist()
    assert {(row["document"], row["surface"]) for row in rows} == {
        *(("1", "asthma"), ("4", "insulin"), ("5", "IL-2"), ("3", "β-catenin")),
    }
    assert report.superseded == 4
    assert next(row["right"] for row in rows if row["document"] == "5") == " again"


def test_excluded_documents_leave_no_trace(ontology: Ontology, corpus: Path, tmp_path: Path) -> None:
    (tmp_path / "ids.txt").write_text("\n".join(f"1-{i}" for i in range(300)) + "\n")
    report = mine(ontology, [corpus], tmp_path / "m", exclude=tmp_path / "ids.txt")
    documents = pq.read_table(tmp_path / "m" / "mentions.parquet").column("document").to_pylist()
    assert report.excluded == 300
    assert not any(name.startswith("1-") for name in documents)


def test_entities_keep_at_most_what_was_asked(ontology: Ontology, corpus: Path, tmp_path: Path) -> None:
    mine(ontology, [corpus], tmp_path / "m", MineConfig(per_entity=3, per_document=1))
    rows = pq.read_table(tmp_path / "m" / "mentions.parquet").to_pylist()
    kept: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        kept.setdefault((row["entity"], row["split"]), []).append(row["document"])
    assert all(len(found) <= 3 and len(set(found)) == len(found) for found in kept.values())
    assert max(map(len, kept.values())) == 3


def complaint(capsys: pytest.CaptureFixture[str]) -> str:
    lines = capsys.readouterr().err.strip().splitlines()
    errors = [line for line in lines if line.startswith("kriss: error: ")]
    assert len(errors) == 1, lines
    return errors[0]


def test_bad_input_is_one_sentence_and_writes_nothing(
    ontology: Ontology, corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    onto, out = str(ontology.artifact.path), tmp_path / "out"
    whole = (corpus / "part2.jsonl.gz").read_bytes()
    (tmp_path / "cut.jsonl.gz").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "bad.xml").write_text("<PubmedArticleSet><PubmedArticle><MedlineCitation>")
    (tmp_path / "empty.jsonl").write_bytes(b"")
    (tmp_path / "folder").mkdir()
    for source, hint in {
        "cut.jsonl.gz": "truncated",
        "bad.xml": "bad.xml",
        "empty.jsonl": "empty",
        "folder": "folder",
        "absent.xml": "absent.xml",
        "*.nothing": "nothing",
    }.items():
        assert kriss(["mine", onto, str(tmp_path / source), "--out", str(out)]) == 1
        assert hint in complaint(capsys)
        assert not out.exists()
    assert kriss(["mine", str(corpus), str(corpus), "--out", str(out)]) == 1
    assert "manifest" in complaint(capsys)
    assert kriss(["mine", onto, str(corpus), "--out", str(out), "--train", "0.9", "--dev", "0.2"]) == 1
    assert "train" in complaint(capsys)
    assert kriss(["mine", onto, str(corpus), "--out", str(out), "--workers", "0"]) == 1
    assert "workers" in complaint(capsys)
    assert kriss(["mine", onto, str(corpus), "--out", str(out), "--engine", "spark"]) == 1
    assert "spark" in complaint(capsys)
    assert kriss(["mine", onto, str(corpus), "--out", str(out), "--casing", "upper"]) == 1
    assert "upper" in complaint(capsys)


def test_bad_files_and_documents_are_skipped_and_named(
    ontology: Ontology, corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = (corpus / "part2.jsonl.gz").read_bytes()
    (tmp_path / "cut.jsonl.gz").write_bytes(whole[: len(whole) // 2])
    lines = ['{"id": "a", "text": "severe asthma"}', "{broken", '{"id": "b", "text": "mild migraine"}']
    (tmp_path / "some.jsonl").write_text("\n".join(lines))
    onto, out = str(ontology.artifact.path), tmp_path / "out"
    sources = [str(tmp_path / "cut.jsonl.gz"), str(tmp_path / "some.jsonl")]
    assert kriss(["mine", onto, *sources, "--out", str(out), "--skip-bad-files"]) == 0
    err = capsys.readouterr().err
    assert "some.jsonl:2" in err
    assert "skipped 1 bad documents" in err
    assert "cut.jsonl.gz" in err
    surfaces = pq.read_table(out / "mentions.parquet").column("surface").to_pylist()
    assert sorted(surfaces) == ["asthma", "migraine"]


def test_no_hit_at_all_is_an_empty_artifact(ontology: Ontology, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("Nothing of note.")
    report = mine(ontology, [tmp_path / "a.txt"], tmp_path / "m")
    assert (report.documents, report.hits, report.mentions) == (1, 0, 0)
    assert pq.read_table(tmp_path / "m" / "mentions.parquet").num_rows == 0


def test_report_and_names(ontology: Ontology, corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    onto = str(ontology.artifact.path)
    assert kriss(["mine", onto, str(corpus), "--out", str(tmp_path / "m")]) == 0
    assert kriss(["mine", "report", str(tmp_path / "m"), "--ontology", onto, "--sample", "5"]) == 0
    shown = capsys.readouterr().out
    for expected_text in ("documents", "1,800", "kept for train", "[[", "asthma"):
        assert expected_text in shown
    assert kriss(["mine", "report", str(tmp_path / "m")]) == 0
    assert "[[" not in capsys.readouterr().out
    assert kriss(["mine", "names", onto]) == 0
    assert "kept" in capsys.readouterr().out
    assert kriss(["mine", "report", onto]) == 1
    assert "mentions" in complaint(capsys)


def test_an_ontology_without_usable_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "n.tsv").write_text("id\tname\nX:1\tab\nX:2\t12\n")
    (tmp_path / "a.txt").write_text("ab 12")
    build_ontology(OntologyConfig(format="tsv"), (tmp_path / "n.tsv",), tmp_path / "o")
    assert kriss(["mine", str(tmp_path / "o"), str(tmp_path / "a.txt"), "--out", str(tmp_path / "m")]) == 1
    assert "no name that can be looked for" in complaint(capsys)
    assert not (tmp_path / "m").exists()


def test_names_go_on_over_the_end_of_a_wrapped_line(ontology: Ontology, tmp_path: Path) -> None:
    long_line = "In this long line of a note there is much to say about breast"
    (tmp_path / "wrapped.txt").write_text(f"{long_line}\nneoplasms, and more.\n\nAspirin\ninsulin\n")
    report = mine(ontology, [tmp_path / "wrapped.txt"], tmp_path / "m")
    surfaces = pq.read_table(tmp_path / "m" / "mentions.parquet").column("surface").to_pylist()
    assert sorted(surfaces) == ["Aspirin", "breast neoplasms", "insulin"]
    assert report.characters == len((tmp_path / "wrapped.txt").read_text())


def test_files_of_one_name_in_two_folders_both_count(ontology: Ontology, tmp_path: Path) -> None:
    for folder, text in (("a", "severe asthma"), ("b", "mild migraine")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "note.txt").write_text(text)
    report = mine(ontology, [tmp_path / "a", tmp_path / "b"], tmp_path / "m")
    assert (report.documents, report.hits, report.superseded) == (2, 2, 0)
