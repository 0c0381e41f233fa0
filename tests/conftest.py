"""Builders of miniature sources in the real formats, and the checks that many tests share."""

from __future__ import annotations

import gzip
import json
import os
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from kriss.cli import run
from kriss.ontology import Ontology, OntologyConfig, build_ontology
from kriss.records import Entity

FIXTURES = Path(__file__).parent / "fixtures"
os.environ["HF_HUB_OFFLINE"] = "1"  # read when huggingface_hub is imported: no test asks the network

_QUIET = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
settings.register_profile("quick", deadline=None, max_examples=8, derandomize=True, suppress_health_check=_QUIET)
settings.register_profile("thorough", deadline=None, max_examples=400, suppress_health_check=_QUIET)
settings.load_profile("quick")


# --- RRF rows, with the columns of the real files ---------------------------------------------


def conso(
    cui: str,
    text: str,
    *,
    lat: str = "ENG",
    ts: str = "P",
    stt: str = "PF",
    ispref: str = "Y",
    sab: str = "MSH",
    tty: str = "MH",
    suppress: str = "N",
) -> str:
    """Return one row of MRCONSO."""
    return f"{cui}|{lat}|{ts}|L01|{stt}|S01|{ispref}|A01||M01|D01|{sab}|{tty}|D01|{text}|0|{suppress}|256|"


def sty(cui: str, tui: str = "T047", stn: str = "B2.2.1.2.1", name: str = "Disease or Syndrome") -> str:
    """Return one row of MRSTY."""
    return f"{cui}|{tui}|{stn}|{name}|AT01||"


def mrdef(cui: str, text: str, *, sab: str = "MSH", suppress: str = "N") -> str:
    """Return one row of MRDEF."""
    return f"{cui}|A01|AT01||{sab}|{text}|{suppress}||"


def rel(first: str, label: str, second: str, rela: str = "", *, sab: str = "MSH", suppress: str = "N") -> str:
    """Return one row of MRREL: what the second concept is to the first."""
    return f"{first}|A01|AUI|{label}|{second}|A02|AUI|{rela}|R01||{sab}|{sab}|||{suppress}||"


def mrcui(old: str, label: str, new: str) -> str:
    """Return one row of MRCUI."""
    return f"{old}|2020AA|{label}|||{new}|Y|"


def write_meta(folder: Path, **tables: Iterable[str]) -> Path:
    """Write a META folder: one file a table."""
    folder.mkdir(parents=True, exist_ok=True)
    for table, rows in tables.items():
        (folder / f"{table}.RRF").write_bytes("".join(row + "\n" for row in rows).encode())
    return folder


# --- tables ------------------------------------------------------------------------------------


def write_tsv(path: Path, header: Iterable[str], *rows: Iterable[str], delimiter: str = "\t") -> Path:
    """Write a table with a header."""
    path.write_text("".join(delimiter.join(row) + "\n" for row in (header, *rows)), encoding="utf-8", newline="")
    return path


def write_jsonl(path: Path, *objects: object) -> Path:
    """Write one JSON value a line."""
    path.write_text("".join(json.dumps(value, ensure_ascii=False) + "\n" for value in objects), encoding="utf-8")
    return path


def write_obo(path: Path, *frames: str) -> Path:
    """Write an OBO file with a term frame for each text of clauses."""
    body = "".join(f"\n[Term]\n{frame.strip()}\n" for frame in frames)
    path.write_text(f"format-version: 1.2\nontology: mini\n{body}", encoding="utf-8")
    return path


def gzipped(path: Path) -> Path:
    """Write a gzipped copy beside a file and return its path."""
    copy = path.with_name(path.name + ".gz")
    copy.write_bytes(gzip.compress(path.read_bytes(), mtime=0))
    return copy


# --- building and looking ----------------------------------------------------------------------


def build(
    out: Path,
    format: Any,
    *sources: Path,
    merge_with: tuple[Path, ...] = (),
    retired: Path | None = None,
    force: bool = False,
    **options: Any,
) -> Ontology:
    """Build an ontology and open it."""
    config = OntologyConfig(format=format, **options)
    build_ontology(config, sources, out, merge_with=merge_with, retired=retired, force=force)
    return Ontology.load(out)


def by_id(entities: Iterable[Entity]) -> dict[str, Entity]:
    """Return entities under their ids; each id once."""
    found = list(entities)
    assert len({entity.id for entity in found}) == len(found)
    return {entity.id: entity for entity in found}


def contents(folder: Path) -> dict[str, bytes]:
    """Return every file below a folder with its bytes."""
    return {file.relative_to(folder).as_posix(): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def assert_acyclic(ontology: Ontology) -> None:
    """Check that no entity is its own ancestor."""
    ups = {entity.id: entity.parents for entity in ontology}
    done: set[str] = set()
    while len(done) < len(ups):
        free = [one for one in ups if one not in done and all(parent in done for parent in ups[one])]
        assert free, f"a cycle among {sorted(set(ups) - done)}"
        done.update(free)


def assert_complete(ontology: Ontology) -> None:
    """Check what every format owes: a name, a type, a tree number, parents that exist, no cycle."""
    assert len(ontology) > 0
    for entity in ontology:
        assert entity.name
        assert entity.types
        assert all(entity.types)
        assert entity.tree_numbers
        assert all(entity.tree_numbers)
        assert all(parent in ontology for parent in entity.parents)
    assert_acyclic(ontology)


Fails = Callable[..., str]


@pytest.fixture
def fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Fails:
    """Run `kriss ontology build ARGUMENTS --out ...`: it must fail with one line and write nothing."""

    def check(*arguments: object) -> str:
        beside = tmp_path / "beside"
        beside.mkdir(exist_ok=True)
        before = sorted(beside.rglob("*"))
        capsys.readouterr()
        status = run(["ontology", "build", *map(str, arguments), "--out", str(beside / "out")])
        printed = capsys.readouterr()
        assert status == 1, printed
        assert printed.out == ""
        [line] = printed.err.splitlines()
        assert line.startswith("kriss: error: ")
        assert "Traceback" not in line
        assert sorted(beside.rglob("*")) == before
        return line

    return check


@pytest.fixture(scope="session")
def umls(tmp_path_factory: pytest.TempPathFactory) -> Ontology:
    """Return the miniature UMLS in tests/fixtures, built with the default settings."""
    return build(tmp_path_factory.mktemp("umls") / "out", "umls", FIXTURES / "META")


@pytest.fixture(scope="session")
def mesh(tmp_path_factory: pytest.TempPathFactory) -> Ontology:
    """Return the miniature MeSH in tests/fixtures, descriptors and supplementary records."""
    sources = (FIXTURES / "desc.xml", FIXTURES / "supp.xml")
    return build(tmp_path_factory.mktemp("mesh") / "out", "mesh", *sources)


@pytest.fixture(scope="session")
def obo(tmp_path_factory: pytest.TempPathFactory) -> Ontology:
    """Return the miniature OBO ontology in tests/fixtures."""
    return build(tmp_path_factory.mktemp("obo") / "out", "obo", FIXTURES / "mini.obo")


# --- a model ------------------------------------------------------------------------------------

_LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
_PIECES = "osis itis emia oma pathy gen in ine ol ic al ed ing tion ly ness er est ism ist um us ae ia".split()
_WORDS = """
    a an and as at be but by for from had has in is it no not of on or that the their this to was were who with
    patient patients disease syndrome acute chronic heart attack kidney liver lung renal failure cold fever pain
    chest blood pressure drug dose cell cells gene protein left right side mention relapsed sclerosis multiple
    myel gastr cardi neur hepat nephr derm arthr diabet insul asp warfar met form
    """.split()
TINY_SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
TINY_VOCABULARY = [
    *TINY_SPECIAL,
    *"!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~",
    *_LETTERS,
    *(f"##{letter}" for letter in _LETTERS),
    *(word for word in _WORDS if len(word) > 1),
    *(f"##{piece}" for piece in _PIECES),
]
"""The word pieces of the models that tests build."""


def tiny_bert(vocabulary: int) -> Any:
    """Return a BERT of two layers with random weights, always the same; wide enough to tell texts apart."""
    import torch
    import transformers

    with torch.random.fork_rng():
        torch.manual_seed(7)
        return transformers.BertModel(  # type: ignore[no-untyped-call]
            transformers.BertConfig(
                vocab_size=vocabulary,
                hidden_size=32,
                num_hidden_layers=2,
                num_attention_heads=2,
                intermediate_size=64,
                max_position_embeddings=128,
                initializer_range=0.2,
            )
        )


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a tiny BERT and its tokenizer, as transformers saves them."""
    folder = tmp_path_factory.mktemp("tiny") / "bert"
    tiny_bert(len(TINY_VOCABULARY)).save_pretrained(folder)
    write_vocabulary(folder, TINY_VOCABULARY)
    return folder


def write_vocabulary(folder: Path, vocabulary: Iterable[str]) -> None:
    """Write the files of a WordPiece tokenizer of old, from which transformers makes a fast one."""
    (folder / "vocab.txt").write_text("".join(f"{piece}\n" for piece in vocabulary), encoding="utf-8")
    settings = {"do_lower_case": True, "model_max_length": 128, "tokenizer_class": "BertTokenizer"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")


@pytest.fixture(scope="session")
def tiny_encoder(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an encoder artifact of the tiny BERT with ONNX graphs, as `kriss export` writes it."""
    out = tmp_path_factory.mktemp("encoder") / "tiny"
    options = ["--int8", "--pooling", "mean", "--window", "24", "--normalize"]
    assert run(["export", str(tiny_model), "--out", str(out), *options]) == 0
    return out


# --- linkers ------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def built(tiny_encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a linker of the miniature world; nobody writes to it."""
    from tests.linker_fixtures import build_world

    return build_world(tiny_encoder, tmp_path_factory.mktemp("linker") / "tiny")


@pytest.fixture
def taught(built: Path, tmp_path: Path) -> Path:
    """Return a copy of that linker that a test may teach."""
    return Path(shutil.copytree(built, tmp_path / "linker"))


@pytest.fixture(scope="session")
def clinic(tiny_encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a linker with ids, types and a retired id as MeSH has them; nobody writes to it."""
    from tests.linker_fixtures import build_clinic

    return build_clinic(tiny_encoder, tmp_path_factory.mktemp("clinic"))


@pytest.fixture
def ward(clinic: Path, tmp_path: Path) -> Path:
    """Return a copy of that linker that a test may teach."""
    return Path(shutil.copytree(clinic, tmp_path / "clinic"))
