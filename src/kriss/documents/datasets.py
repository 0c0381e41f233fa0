"""The benchmarks by name: where their files are looked for, how they are read, and how to obtain them.

    load("ncbi-disease", "test", Path("data"))        # documents with their gold mentions
    read(["ncbi-disease:test"], data=Path("data"))    # the same, as a command names it (documents/read.py)

None is shipped with kriss. The licensed ones are read from the user's own copy.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

from kriss.documents.corpora.clinical import N2c2, ShareClef
from kriss.documents.corpora.files import Corpus, PubTatorFiles, candidates
from kriss.documents.corpora.medmentions import MedMentions
from kriss.documents.corpora.statistics import without_repeats
from kriss.errors import ConfigError, InputError
from kriss.records import Document

VARIABLE = "KRISS_DATA"
"""The environment variable that names the data folder where an option does not."""


@dataclass(frozen=True, slots=True)
class Paper:
    """A row of Table 1: all splits together, and the candidates in UMLS."""

    mentions: int
    entities: int
    domain_entities: int


@dataclass(frozen=True, slots=True)
class Dataset:
    """A benchmark: what it is, and where and how it is read."""

    name: str
    title: str
    splits: tuple[str, ...]
    ontology: str
    """What its ids are of."""
    obtain: str
    """Where it is had, and on what terms."""
    folder: str
    """Its folder in `gold` of the data folder, or in the data folder itself."""
    corpus: Corpus
    types: tuple[str, ...] = ()
    """The types of mentions that are kept; none for all. A document without such mentions stays, without mentions."""
    also: tuple[str, ...] = ()
    """Further names that the folder may have."""
    paper: Paper | None = None
    note: str = ""

    def found(self, data: Path) -> dict[str, Path]:
        """Return the folder in which each split lies; a split that is nowhere is left out."""
        places: dict[str, Path] = {}
        for folder in candidates(data, (self.folder, *self.also)):
            for split in self.corpus.splits(folder):
                places.setdefault(split, folder)
        return {split: places[split] for split in self.splits if split in places}

    def of_types(self, document: Document) -> Document:
        """Return the document with the mentions that are kept."""
        kept = tuple(span for span in document.spans if not self.types or span.type in self.types)
        return replace(document, spans=kept)


def data_folder(data: Path | None) -> Path | None:
    """Return the folder that was given, or else that of the environment variable; one that is not there is an error."""
    if data is None and (named := os.environ.get(VARIABLE)):
        data = Path(named)
    if data is not None and not data.is_dir():
        raise InputError(f"there is no data folder {data}; mend --data or {VARIABLE}")
    return data


def read_splits(name: str, splits: Sequence[str], data: Path) -> dict[str, list[Document]]:
    """Read splits as their files have them, a document that stands twice too."""
    dataset = find_dataset(name)
    for split in splits:
        check_split(dataset, split)
    places = dataset.found(data)
    for split in splits:
        if split not in places:
            looked = f"{dataset.corpus.wanted(split)} in {data / 'gold' / dataset.folder} or {data / dataset.folder}"
            raise InputError(f"{name}:{split} is not there; looked for {looked}. {dataset.obtain}")
    read: dict[str, list[Document]] = {}
    for folder in dict.fromkeys(places[split] for split in splits):
        read |= dataset.corpus.read(folder, [split for split in splits if places[split] == folder])
    return {split: list(map(dataset.of_types, found)) for split, found in read.items()}


def load(name: str, split: str, data: Path) -> list[Document]:
    """Return the documents of a split, each once, with their gold mentions."""
    return without_repeats(read_splits(name, [split], data)[split])


def find_dataset(name: str) -> Dataset:
    """Return the dataset of a name; an error lists those that there are."""
    if name not in DATASETS:
        raise ConfigError(f"there is no dataset '{name}'; there are {', '.join(DATASETS)}")
    return DATASETS[name]


def check_split(dataset: Dataset, split: str) -> None:
    """Fail unless the data set has the split."""
    if split not in dataset.splits:
        named = ", ".join(f"{dataset.name}:{one}" for one in dataset.splits)
        raise ConfigError(f"{dataset.name} has no split '{split}'; name one of {named}")


_ALL = ("train", "dev", "test")
_MESH = "MeSH"
_UMLS = "UMLS (2017AA)"
_NCBI_FILES = {split: f"NCBI{split.replace('dev', 'develop')}set_corpus.txt" for split in _ALL}
_CDR_PARTS = {"train": "Training", "dev": "Development", "test": "Test"}
_CDR_FILES = {split: f"CDR_{part}Set.PubTator.txt" for split, part in _CDR_PARTS.items()}
_BIORED_FILES = {split: f"{split.capitalize()}.PubTator" for split in _ALL}
_CDR = "Free, on registration at BioCreative (biocreative.bioinformatics.udel.edu, corpora, V CDR): CDR_Data.zip."
_MEDMENTIONS = "Free (CC0): git clone https://github.com/chanzuckerberg/MedMentions into the folder 'medmentions'."
_BIORED = "Free: https://ftp.ncbi.nlm.nih.gov/pub/lu/BioRED/BIORED.zip."
_CDR_NOTE = "The paper's mentions are the distinct ids of each document, summed; the files have more mentions."


def _biored(name: str, title: str, ontology: str, *types: str) -> Dataset:
    return Dataset(name, title, _ALL, ontology, _BIORED, "biored", PubTatorFiles(_BIORED_FILES), types)


def _bc5cdr(name: str, title: str, kind: str, paper: Paper) -> Dataset:
    corpus = PubTatorFiles(_CDR_FILES)
    return Dataset(name, title, _ALL, _MESH, _CDR, "bc5cdr", corpus, (kind,), ("CDR_Data",), paper, _CDR_NOTE)


DATASETS: Mapping[str, Dataset] = MappingProxyType(
    {
        dataset.name: dataset
        for dataset in (
            Dataset(
                "ncbi-disease",
                "NCBI disease corpus",
                _ALL,
                "MEDIC (MeSH and OMIM)",
                "Free: the corpus zips (train, develop, test) at https://www.ncbi.nlm.nih.gov/CBBresearch/Dogan/DISEASE/.",
                "ncbi-disease",
                PubTatorFiles(_NCBI_FILES),
                also=("ncbi", "ncbi-disease-corpus"),
                paper=Paper(6_892, 790, 16_317),
                note="Document 8528200 stands twice in train, word for word; its 11 mentions are loaded once. "
                "The paper counts each joined id (D1|D2) as an entity.",
            ),
            _bc5cdr("bc5cdr-d", "BioCreative V CDR, diseases", "Disease", Paper(5_818, 1_076, 16_317)),
            _bc5cdr("bc5cdr-c", "BioCreative V CDR, chemicals", "Chemical", Paper(4_409, 1_164, 233_632)),
            Dataset(
                "shareclef",
                "ShARe/CLEF, SemEval-2014 task 7",
                _ALL,
                "UMLS (SNOMED CT, disorders)",
                "Licensed: PhysioNet (https://physionet.org, 'ShARe/CLEF eHealth'), with credentials and an agreement.",
                "shareclef",
                ShareClef(),
                also=("share", "share-clef", "semeval-2014-task-7", "semeval2014"),
                paper=Paper(17_809, 1_866, 82_763),
                note="CLEF 2013 has train and test, SemEval-2014 dev too. A discontinuous mention covers its gap.",
            ),
            Dataset(
                "n2c2",
                "n2c2 2019 track 3, MCN corpus",
                ("train", "test"),
                "UMLS (SNOMED CT, RxNorm)",
                "Licensed: the DBMI portal (https://portal.dbmi.hms.harvard.edu, n2c2 2019), with an agreement.",
                "n2c2",
                N2c2(),
                also=("n2c2-2019", "n2c2-2019-track3", "2019_n2c2_track-3", "mcn"),
                paper=Paper(13_609, 3_791, 423_670),
            ),
            Dataset(
                "medmentions",
                "MedMentions, all types",
                _ALL,
                _UMLS,
                _MEDMENTIONS,
                "medmentions",
                MedMentions("full"),
                also=("medmentions-full",),
                paper=Paper(352_496, 34_724, 3_416_210),
            ),
            Dataset(
                "medmentions-st21pv",
                "MedMentions ST21pv, 21 types",
                _ALL,
                _UMLS,
                _MEDMENTIONS,
                "medmentions-st21pv",
                MedMentions("st21pv"),
                also=("medmentions",),
                paper=Paper(203_282, 25_419, 2_325_023),
                note="In the form of rows of tokens, a document has those of its sentences that have a mention.",
            ),
            _biored("biored", "BioRED, all types", "NCBI Gene, MeSH, OMIM, dbSNP, NCBI Taxonomy, Cellosaurus"),
            _biored("biored-d", "BioRED, diseases", "MeSH and OMIM", "DiseaseOrPhenotypicFeature"),
            _biored("biored-c", "BioRED, chemicals", _MESH, "ChemicalEntity"),
        )
    }
)
