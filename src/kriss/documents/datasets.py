"""The benchmarks by name: where their files are looked for, how they are read, and how to obtain them.

    load("ncbi-disease", "test", Path("data"))        # documents with their gold mentions
    read(["ncbi-disease:test"], data=Path("data"))    # the same, as a command names it (documents/read.py)

None is shipped with kriss. The licensed ones are read from the user's own copy.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType

from kriss.documents.corpora import medmentions
from kriss.documents.corpora.clinical import N2C2_WANTED, n2c2, shareclef, shareclef_wanted
from kriss.documents.corpora.files import candidates, pubtator_file
from kriss.errors import ConfigError, InputError
from kriss.records import Document

VARIABLE = "KRISS_DATA"
"""The environment variable that names the data folder where an option does not."""


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
    documents: Callable[[Path, str], Iterator[Document] | None]
    """The documents of a split below a folder, read as they are wanted; None if its files are not there."""
    wanted: Callable[[str], str]
    """Says which files make a split, for a user who lacks them."""
    types: tuple[str, ...] = ()
    """The types of mentions that are kept; none for all. A document without such mentions stays, without mentions."""
    also: tuple[str, ...] = ()
    """Further names that the folder may have."""
    note: str = ""

    def find(self, data: Path, split: str) -> Iterator[Document] | None:
        """Return the documents of a split as its files have them, one that stands twice too; None if it is not there.

        They have the mentions that are kept.
        """
        found = (self.documents(folder, split) for folder in candidates(data, (self.folder, *self.also)))
        documents = next((one for one in found if one is not None), None)
        return map(self._of_types, documents) if documents is not None else None

    def _of_types(self, document: Document) -> Document:
        kept = tuple(span for span in document.spans if not self.types or span.type in self.types)
        return replace(document, spans=kept)


def data_folder(data: Path | None) -> Path | None:
    """Return the folder that was given, or else that of the environment variable; one that is not there is an error."""
    if data is None and (named := os.environ.get(VARIABLE)):
        data = Path(named)
    if data is not None and not data.is_dir():
        raise InputError(f"there is no data folder {data}; mend --data or {VARIABLE}")
    return data


def load(name: str, split: str, data: Path) -> list[Document]:
    """Return the documents of a split, each once, with their gold mentions."""
    dataset = find_dataset(name)
    check_split(dataset, split)
    if (found := dataset.find(data, split)) is None:
        looked = f"{dataset.wanted(split)} in {data / 'gold' / dataset.folder} or {data / dataset.folder}"
        raise InputError(f"{name}:{split} is not there; looked for {looked}. {dataset.obtain}")
    return without_repeats(found)


def without_repeats(documents: Iterable[Document]) -> list[Document]:
    """Leave out documents that stand again, word for word; two that differ under one id are left as they are."""
    return list(dict.fromkeys(documents))


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
_NCBI_FILES = {split: f"NCBI{split.replace('dev', 'develop')}set_corpus.txt" for split in _ALL}
_CDR_PARTS = {"train": "Training", "dev": "Development", "test": "Test"}
_CDR_FILES = {split: f"CDR_{part}Set.PubTator.txt" for split, part in _CDR_PARTS.items()}
_CDR = "Free, on registration at BioCreative (biocreative.bioinformatics.udel.edu, corpora, V CDR): CDR_Data.zip."
_MEDMENTIONS = "Free (CC0): git clone https://github.com/chanzuckerberg/MedMentions into the folder 'medmentions'."
_BIORED = (
    "Free: https://ftp.ncbi.nlm.nih.gov/pub/lu/BioRED/BIORED.zip.",
    "biored",
    {split: f"{split.capitalize()}.PubTator" for split in _ALL},
)


def _pubtator(
    name: str,
    title: str,
    ontology: str,
    obtain: str,
    folder: str,
    files: Mapping[str, str],
    *types: str,
    also: str = "",
) -> Dataset:
    read = partial(pubtator_file, files)
    return Dataset(name, title, _ALL, ontology, obtain, folder, read, files.__getitem__, types, tuple(also.split()))


def _medmentions(name: str, title: str, part: str, also: str, note: str = "") -> Dataset:
    read, wanted = partial(medmentions.medmentions, part), partial(medmentions.wanted, part)
    return Dataset(name, title, _ALL, "UMLS (2017AA)", _MEDMENTIONS, name, read, wanted, (), (also,), note)


DATASETS: Mapping[str, Dataset] = MappingProxyType(
    {
        dataset.name: dataset
        for dataset in (
            _pubtator(
                "ncbi-disease",
                "NCBI disease corpus",
                "MEDIC (MeSH and OMIM)",
                "Free: the corpus zips (train, develop, test) at https://www.ncbi.nlm.nih.gov/CBBresearch/Dogan/DISEASE/.",
                "ncbi-disease",
                _NCBI_FILES,
                also="ncbi ncbi-disease-corpus",
            ),
            _pubtator(
                "bc5cdr-d", "BioCreative V CDR, diseases", _MESH, _CDR, "bc5cdr", _CDR_FILES, "Disease", also="CDR_Data"
            ),
            _pubtator(
                "bc5cdr-c",
                "BioCreative V CDR, chemicals",
                _MESH,
                _CDR,
                "bc5cdr",
                _CDR_FILES,
                "Chemical",
                also="CDR_Data",
            ),
            Dataset(
                "shareclef",
                "ShARe/CLEF, SemEval-2014 task 7",
                _ALL,
                "UMLS (SNOMED CT, disorders)",
                "Licensed: PhysioNet (https://physionet.org, 'ShARe/CLEF eHealth'), with credentials and an agreement.",
                "shareclef",
                shareclef,
                shareclef_wanted,
                also=("share", "share-clef", "semeval-2014-task-7", "semeval2014"),
                note="CLEF 2013 has train and test, SemEval-2014 dev too. A discontinuous mention covers its gap.",
            ),
            Dataset(
                "n2c2",
                "n2c2 2019 track 3, MCN corpus",
                ("train", "test"),
                "UMLS (SNOMED CT, RxNorm)",
                "Licensed: the DBMI portal (https://portal.dbmi.hms.harvard.edu, n2c2 2019), with an agreement.",
                "n2c2",
                n2c2,
                N2C2_WANTED.format,
                also=("n2c2-2019", "n2c2-2019-track3", "2019_n2c2_track-3", "mcn"),
            ),
            _medmentions("medmentions", "MedMentions, all types", "full", "medmentions-full"),
            _medmentions(
                "medmentions-st21pv",
                "MedMentions ST21pv, 21 types",
                "st21pv",
                "medmentions",
                "In the form of rows of tokens, a document has those of its sentences that have a mention.",
            ),
            _pubtator(
                "biored",
                "BioRED, all types",
                "NCBI Gene, MeSH, OMIM, dbSNP, NCBI Taxonomy, Cellosaurus",
                *_BIORED,
            ),
            _pubtator("biored-d", "BioRED, diseases", "MeSH and OMIM", *_BIORED, "DiseaseOrPhenotypicFeature"),
            _pubtator("biored-c", "BioRED, chemicals", _MESH, *_BIORED, "ChemicalEntity"),
        )
    }
)
