"""The benchmarks: miniatures in their owners' forms, every way in which one can be bad, and how they are listed."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kriss.cli import run
from kriss.documents.corpora.medmentions import joined, read_tokenized
from kriss.documents.datasets import DATASETS, find_dataset, load, without_repeats
from kriss.documents.read import gold
from kriss.errors import ConfigError, InputError, KrissError
from kriss.evaluate.gold import gold_mentions
from kriss.records import Document, Span

DOCUMENT = "1|t|Wilson disease.\n1|a|WD and breast and ovarian cancer.\n"
NCBI = (
    DOCUMENT + "1\t0\t14\tWilson disease\tSpecificDisease\tD006527\n"
    "1\t16\t18\tWD\tModifier\tOMIM:277900\n"
    "1\t23\t48\tbreast and ovarian cancer\tCompositeMention\tD001943|D010051\n\n"
)
CDR = (
    "2|t|Naloxone reverses pain.\n2|a|A new drug caused rash.\n"
    "2\t0\t8\tNaloxone\tChemical\tD009270\n2\t18\t22\tpain\tDisease\tD010146\n"
    "2\t26\t34\tnew drug\tChemical\t-1\n2\t42\t46\trash\tDisease\t-1\n2\tCID\tD009270\tD010146\n\n"
)
BIORED = (
    "3|t|V600E of BRAF.\n3|a|Melanoma.\n"
    "3\t0\t5\tV600E\tSequenceVariant\tp|SUB|V|600|E\n3\t9\t13\tBRAF\tGeneOrGeneProduct\t673,109880\n"
    "3\t15\t23\tMelanoma\tDiseaseOrPhenotypicFeature\tD008545\n"
    "3\tAssociation\tp|SUB|V|600|E\tD008545\tNovel\n"
)
FULL = (
    "11|t|DCTN4 modifies.\n11|a|Infection.\n11\t0\t5\tDCTN4\tT116,T123\tC4308010\n"
    "11\t16\t25\tInfection\tT046\tC3714514\n\n"
    "12|t|Cystic fibrosis.\n12|a|\n12\t0\t15\tCystic fibrosis\tT047\tC0010674\n\n"
    "13|t|Nothing.\n13|a|\n\n"
)
ST21PV = (
    "11|t|DCTN4 modifies.\n11|a|Infection.\n11\t0\t5\tDCTN4\tT103\tUMLS:C4308010\n\n12|t|Cystic fibrosis.\n12|a|\n\n"
)
REPORT = "The left atrium is moderately dilated.\nNo rash."


def save(path: Path, content: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    raw = content.encode()
    path.write_bytes(gzip.compress(raw) if path.suffix == ".gz" else raw)
    return path


def refuse(name: str, split: str, data: Path, place: str, message: str) -> None:
    with pytest.raises(InputError) as error:
        load(name, split, data)
    assert str(error.value).startswith(place)
    assert message in str(error.value)


def surfaces(documents: list[Document]) -> list[tuple[str, tuple[str, ...]]]:
    return [(document.text[span.start : span.end], span.entities) for document in documents for span in document.spans]


# --- One PubTator file a split ----------------------------------------------------------------


def test_ncbi_disease_with_a_document_that_stands_twice(tmp_path: Path) -> None:
    save(tmp_path / "gold/ncbi-disease/NCBItrainset_corpus.txt", NCBI + NCBI + "4|t|None.\n4|a|\n")
    documents = load("ncbi-disease", "train", tmp_path)
    assert [document.id for document in documents] == ["1", "4"]
    assert surfaces(documents) == [
        ("Wilson disease", ("D006527",)),
        ("WD", ("OMIM:277900",)),
        ("breast and ovarian cancer", ("D001943", "D010051")),
    ]
    as_it_is = find_dataset("ncbi-disease").find(tmp_path, "train")
    assert [document.id for document in as_it_is or ()] == ["1", "1", "4"]


def test_two_documents_of_one_id_that_differ_are_not_repeats() -> None:
    documents = [Document("1", "MS", (Span(0, 2, ("D1",)),)), Document("1", "MS", (Span(0, 2),))]
    assert without_repeats(documents) == documents


def test_bc5cdr_by_type(tmp_path: Path) -> None:
    save(tmp_path / "CDR_Data/CDR.Corpus.v010516/CDR_TestSet.PubTator.txt", CDR + NCBI)
    assert surfaces(load("bc5cdr-d", "test", tmp_path)) == [("pain", ("D010146",)), ("rash", ())]
    chemicals = load("bc5cdr-c", "test", tmp_path)
    assert surfaces(chemicals) == [("Naloxone", ("D009270",)), ("new drug", ())]
    assert [document.id for document in chemicals] == ["2", "1"]  # one without chemicals is still a document


def test_biored_does_not_cut_a_variant_in_pieces(tmp_path: Path) -> None:
    save(tmp_path / "BioRED/Test.PubTator", BIORED + "\n" + NCBI)
    assert surfaces(load("biored", "test", tmp_path))[:3] == [
        ("V600E", ("p|SUB|V|600|E",)),
        ("BRAF", ("673", "109880")),
        ("Melanoma", ("D008545",)),
    ]
    assert surfaces(load("biored-d", "test", tmp_path)) == [("Melanoma", ("D008545",))]
    assert surfaces(load("biored-c", "test", tmp_path)) == []


def test_bad_pubtator(tmp_path: Path) -> None:
    path = save(tmp_path / "gold/bc5cdr/CDR_TestSet.PubTator.txt", DOCUMENT + "1\t0\t99\tWilson\tDisease\tD1\n")
    refuse("bc5cdr-d", "test", tmp_path, f"{path}:3: ", "does not lie in its text of 49 characters")
    refuse("bc5cdr-c", "test", tmp_path, f"{path}:3: ", "does not lie")  # a type that is left out is checked too
    save(path, DOCUMENT + "1\t0\t6\tWillie\tDisease\tD1\n")
    refuse("bc5cdr-d", "test", tmp_path, f"{path}:3: ", "is 'Willie' in the annotation, but 'Wilson' in the text")
    save(path, DOCUMENT + "1\t0\tsix\tWilson\tDisease\tD1\n")
    refuse("bc5cdr-d", "test", tmp_path, f"{path}:3: ", "the end of the row is 'six'")
    path.write_bytes(DOCUMENT.replace("\n", "\r").encode())  # one line to us, and no mention: never a smaller corpus
    refuse("bc5cdr-d", "test", tmp_path, f"{path}:1: ", "a carriage return stands inside the line")


# --- MedMentions ------------------------------------------------------------------------------


def clone(data: Path) -> Path:
    """Lay MedMentions out as its owners' repository has it: only the full corpus comes with lists."""
    folder = data / "MedMentions"
    save(folder / "full/data/corpus_pubtator.txt.gz", FULL)
    save(folder / "st21pv/data/corpus_pubtator.txt.gz", ST21PV)
    save(folder / "full/data/corpus_pubtator_pmids_trng.txt", "12\n")
    save(folder / "full/data/corpus_pubtator_pmids_dev.txt", "\n")
    save(folder / "full/data/corpus_pubtator_pmids_test.txt", "11\r\n\r\n")
    return folder


def test_medmentions_as_cloned(tmp_path: Path) -> None:
    clone(tmp_path)
    (full,) = load("medmentions", "test", tmp_path)
    assert full.spans == (Span(0, 5, ("C4308010",), "T116,T123"), Span(16, 25, ("C3714514",), "T046"))
    (st21pv,) = load("medmentions-st21pv", "test", tmp_path)
    assert st21pv.spans == (Span(0, 5, ("C4308010",), "T103"),)
    assert [document.id for document in load("medmentions", "train", tmp_path)] == ["12"]
    assert load("medmentions", "dev", tmp_path) == []


def test_st21pv_takes_the_lists_from_a_folder_beside_its_own(tmp_path: Path) -> None:
    save(tmp_path / "gold/medmentions-st21pv/corpus_pubtator.txt", ST21PV)
    save(tmp_path / "gold/medmentions/corpus_pubtator_pmids_test.txt", "11\n")
    assert surfaces(load("medmentions-st21pv", "test", tmp_path)) == [("DCTN4", ("C4308010",))]
    refuse("medmentions", "test", tmp_path, "medmentions:test is not there", "corpus_pubtator.txt.gz and full/data/")
    refuse("medmentions-st21pv", "dev", tmp_path, "medmentions-st21pv:dev is not there", "pmids_dev.txt")


def test_a_list_that_does_not_fit_the_corpus(tmp_path: Path) -> None:
    folder = clone(tmp_path)
    path = save(folder / "full/data/corpus_pubtator_pmids_test.txt", "11\n99\n")
    refuse("medmentions", "test", tmp_path, f"{path}:2: ", "document '99' is not in ")


ROW = {"pmid": "11", "tokens": ["In", "cystic", "fibrosis", "."], "start": 1, "end": 3, "cui": "C0010674"}


def test_tokenized_medmentions(tmp_path: Path) -> None:
    bare = {"tokens": ["β", "𝒳"], "start": 0, "end": 1, "cui": "UMLS:C1"}
    lines = [json.dumps(ROW | {"start": 0, "end": 1, "cui": None}), "", json.dumps(ROW), json.dumps(bare)]
    save(tmp_path / "gold/medmentions-st21pv/test.jsonl.gz", "\n".join(lines) + "\n")
    documents = load("medmentions-st21pv", "test", tmp_path)
    assert documents == [
        Document("11", "In cystic fibrosis.", (Span(0, 2), Span(3, 18, ("C0010674",)))),
        Document("test:4", "β 𝒳", (Span(0, 1, ("C1",)),)),
    ]
    assert [surface for surface, _ in surfaces(documents)] == ["In", "cystic fibrosis", "β"]


def test_rows_of_tokens_make_whole_abstracts(tmp_path: Path) -> None:
    first = ["Cystic", "fibrosis", "(", "CF", ")", "in", "short", "-", "lived", "mice", "."]
    rows = [
        {"pmid": 7, "tokens": first, "start": 6, "end": 10, "cui": "C2"},
        {"pmid": 7, "tokens": first, "start": 0, "end": 2, "cui": "C1"},  # in any order, and nested
        {"pmid": 7, "tokens": first, "start": 0, "end": 1, "cui": "C3"},
        {"pmid": 8, "tokens": ["Mice", "."], "start": 0, "end": 1, "cui": "C4"},
        {"pmid": 7, "tokens": ["CF", "kills", "."], "start": 0, "end": 1, "cui": "C1"},
        {"pmid": 7, "tokens": ["CF", "kills", "."], "start": 0, "end": 1, "cui": "C1"},
    ]
    path = save(tmp_path / "rows.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    one, other = read_tokenized(path)
    assert one.text == "Cystic fibrosis (CF) in short-lived mice. CF kills. CF kills."
    found = [one.text[span.start : span.end] for span in one.spans]
    assert found == ["short-lived mice", "Cystic fibrosis", "Cystic", "CF", "CF"]
    assert len({(span.start, span.end) for span in one.spans}) == 5  # a sentence that stands again is another one
    assert [mention.abbreviation for mention in gold_mentions([one])] == [False, False, False, True, True]
    assert (one.id, other.id, other.text) == ("7", "8", "Mice.")


@given(
    st.lists(st.sampled_from(["a", "B2", "(", ")", "-", "/", ".", "'s", "%", ""]), min_size=1, max_size=8), st.data()
)
def test_a_surface_is_the_same_in_any_sentence(tokens: list[str], data: st.DataObject) -> None:
    end = data.draw(st.integers(1, len(tokens)))
    start = data.draw(st.integers(0, end - 1))
    surface = joined(tokens[start:end])
    assert joined(tokens[:end]).endswith(surface)
    assert joined(tokens).startswith(joined(tokens[:end]))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "not valid JSON"),
        ("[]", "the line is not a JSON object"),
        (json.dumps(ROW | {"tokens": "a b"}), "the row has no 'tokens', a list of texts"),
        (json.dumps(ROW | {"tokens": ["a", 1]}), "the row has no 'tokens', a list of texts"),
        (json.dumps(ROW | {"cui": 5}), "the row's 'cui' or 'pmid' is not a text"),
        (json.dumps(ROW | {"end": 5}), "the mention from token 1 to 5 does not lie in the row's 4"),
        (json.dumps(ROW | {"start": 3}), "the mention from token 3 to 3 does not lie"),
        (json.dumps(ROW | {"start": -1}), "the mention from token -1 to 3 does not lie"),
        (json.dumps(ROW | {"start": None}), "the 'start' of the row is None, not a whole number"),
        (json.dumps(ROW | {"tokens": ["a", " ", "", "b"]}), "is nothing but white space"),
        (json.dumps(ROW | {"tokens": ["a", "b", "\ud800"]}), "half of a surrogate pair"),
        (json.dumps(ROW).replace("In", "\0"), "the line holds a NUL character"),
    ],
)
def test_a_bad_row_of_tokens(line: str, message: str, tmp_path: Path) -> None:
    path = save(tmp_path / "test.jsonl", f"{json.dumps(ROW)}\n{line}\n")
    with pytest.raises(InputError) as error:
        list(read_tokenized(path))
    assert str(error.value).startswith(f"{path}:2: ")
    assert message in str(error.value)


# --- ShARe/CLEF -------------------------------------------------------------------------------

PIPE = (
    "r1.txt||Disease_Disorder||C0344720||4||15||30||37\r\n\r\n"
    "r1.txt||Disease_Disorder||CUI-less||42||46\r\nr1.txt||Disease_Disorder||c0015230||42||46\r\n"
)
MARKED = [("left atrium is moderately dilated", ("C0344720",)), ("rash", ()), ("rash", ("C0015230",))]


def test_semeval_has_the_annotations_beside_the_reports(tmp_path: Path) -> None:
    folder = tmp_path / "gold/semeval-2014-task-7/data"
    for split, kind in (("train", "discharge"), ("devel", "echo")):
        save(folder / split / kind / f"{split}.text", REPORT)
        save(folder / split / kind / f"{split}.pipe", PIPE.replace("r1", split))
    save(folder / "train/README.txt", "Not a report.")
    assert surfaces(load("shareclef", "train", tmp_path)) == MARKED
    assert [document.id for document in load("shareclef", "dev", tmp_path)] == ["devel"]
    refuse("shareclef", "test", tmp_path, "shareclef:test is not there", "test/*.text with *.pipe beside them")


def test_clef_has_them_in_folders_of_their_own(tmp_path: Path) -> None:
    folder = tmp_path / "shareclef"
    save(folder / "ALLREPORTS train/r1.txt", REPORT)
    save(folder / "ALLREPORTS train/r2.txt", "Well.")
    save(folder / "ALLREPORTS test/r3.txt", REPORT)
    save(folder / "CLEFPIPEDELIMITED NoDuplicates 3:7:2013/r1.pipe.txt", PIPE)
    save(folder / "Gold_SN2011/r3.txt", "r3.txt||Disease_Disorder||C1||42||46\n")
    save(folder / "Gold_SN2012/r3.txt", "r3.txt||Disease_Disorder||C2||42||46\n")
    train = load("shareclef", "train", tmp_path)
    assert [(document.id, len(document.spans)) for document in train] == [("r1", 3), ("r2", 0)]
    assert surfaces(train) == MARKED
    assert surfaces(load("shareclef", "test", tmp_path)) == [("rash", ("C2",))]
    assert DATASETS["shareclef"].find(tmp_path, "dev") is None


def test_a_report_without_mentions_may_have_an_empty_file(tmp_path: Path) -> None:
    folder = tmp_path / "shareclef/train"
    save(folder / "r1.text", "")
    save(folder / "r1.pipe", "")
    assert load("shareclef", "train", tmp_path) == [Document("r1", "", ())]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("r1.txt||Disease_Disorder||C1||0", "the line has 4 columns, but is to be of the form 'report||"),
        ("r1.txt|0-3|C1|no", "the line has 1 columns"),
        ("r1.txt||Disease_Disorder||C1||0||3||5", "the line is not of the form 'report||Disease_Disorder||CUI||start"),
        ("r1.txt||Disease_Disorder||C1||0||||3||5||", "an offset of the line is ''"),
        ("r1.txt||Disease_Disorder||C1||0||x", "an offset of the line is 'x', not a whole number"),
        (
            "r1.txt||Disease_Disorder||C1||0||99",
            "document 'r1': the mention from 0 to 99 does not lie in its text of 47",
        ),
        ("r1.txt||Disease_Disorder||C1||-1||3", "the mention from -1 to 3 does not lie"),
        ("r1.txt||Disease_Disorder||C1||0||3||9||9", "the piece from 9 to 9 is empty"),
        ("r1.txt||Disease_Disorder||C1||3||4", "is nothing but white space"),
        ("r2.txt||Disease_Disorder||C1||0||3", "the line belongs to report 'r2.txt', but the file to 'r1'"),
    ],
)
def test_a_bad_line_of_shareclef(line: str, message: str, tmp_path: Path) -> None:
    save(tmp_path / "shareclef/train/r1.text", REPORT)
    path = save(tmp_path / "shareclef/train/r1.pipe", f"{PIPE}{line}\n")
    refuse("shareclef", "train", tmp_path, f"{path}:5: ", message)


def test_reports_and_annotations_that_do_not_pair(tmp_path: Path) -> None:
    folder = tmp_path / "shareclef"
    save(folder / "train/r1.text", REPORT)
    save(folder / "pipes a/r1.pipe", PIPE)
    lone = save(folder / "pipes a/r9.pipe", PIPE)
    refuse("shareclef", "train", tmp_path, f"{lone}: ", "there is no report of this name; put its text into a folder")
    lone.unlink()
    save(folder / "pipes b/r1.pipe", PIPE)
    refuse(
        "shareclef", "train", tmp_path, f"{folder / 'pipes a/r1.pipe'}: ", "two annotation files go with this report"
    )
    second = save(folder / "train/more/r1.text", REPORT)
    refuse("shareclef", "train", tmp_path, f"{folder / 'train/r1.text'}: ", f"the other is {second}; keep one")


# --- n2c2 -------------------------------------------------------------------------------------

NOTE = "Pain in the left arm and leg.\nAspirin.\n"
NORM = "N000||C0564820||0||16||25||28\nN001||CUI-less||30||37\n"


def mcn(data: Path) -> Path:
    folder = data / "gold/2019_n2c2_track-3"
    for name in ("0034", "0012"):
        save(folder / f"train/train_note/{name}.txt", NOTE)
        save(folder / f"train/train_norm/{name}.norm", NORM)
    save(folder / "train/train_file_list.txt", "0034\n0012\n")
    save(folder / "test/test_note/0099.txt", NOTE)
    save(folder / "test/test_norm_cui_replaced_with_unk/0099.norm", "N002||unk||0||16||25||28\nN003||unk||30||37\n")
    save(folder / "test/test_file_list.txt", "0099||x\n")
    return folder


def test_n2c2(tmp_path: Path) -> None:
    folder = mcn(tmp_path)
    train = load("n2c2", "train", tmp_path)
    assert [document.id for document in train] == ["0034", "0012"]
    assert train[0].text == NOTE
    assert train[0].spans == (Span(0, 28, ("C0564820",), "", "N000"), Span(30, 37, (), "", "N001"))
    (folder / "train/train_file_list.txt").unlink()
    assert [document.id for document in load("n2c2", "train", tmp_path)] == ["0012", "0034"]


def test_the_concepts_of_the_n2c2_test_set_come_apart_or_in_norm_files(tmp_path: Path) -> None:
    folder = mcn(tmp_path)
    refuse("n2c2", "test", tmp_path, "n2c2:test is not there", "the folders test_note and test_norm, or test_norm.txt")
    path = save(folder / "gold/test_norm.txt", "C0564820\nCUI-less\n")
    expected = [("Pain in the left arm and leg", ("C0564820",)), ("Aspirin", ())]
    assert surfaces(load("n2c2", "test", tmp_path)) == expected
    save(path, "C0564820\n")
    spans = folder / "test/test_norm_cui_replaced_with_unk/0099.norm"
    refuse("n2c2", "test", tmp_path, f"{spans}:2: ", "more mentions here than lines of concepts")
    save(path, "C0564820\nCUI-less\nC1\n")
    refuse("n2c2", "test", tmp_path, f"{path}:3: ", "more concepts here than mentions")
    save(folder / "gold/test/test_norm/0099.norm", NORM)
    assert surfaces(load("n2c2", "test", tmp_path)) == expected


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("N9||C1", "the line is not of the form 'id||CUI||start||end'"),
        ("N9||C1||0||4||9", "the line is not of the form"),
        ("N9||C1||0||four", "an offset of the line is 'four'"),
        ("N9||C1||0||400", "document '0034': the mention 'N9' from 0 to 400 does not lie in its text of 39"),
        ("N9||unk||0||4", "the concept is 'unk', as in the files for participants"),
    ],
)
def test_a_bad_line_of_n2c2(line: str, message: str, tmp_path: Path) -> None:
    path = save(mcn(tmp_path) / "train/train_norm/0034.norm", f"{NORM}{line}\n")
    refuse("n2c2", "train", tmp_path, f"{path}:3: ", message)


def test_a_list_may_not_leave_a_note_out(tmp_path: Path) -> None:
    listed = save(mcn(tmp_path) / "train/train_file_list.txt", "0034\n")
    refuse("n2c2", "train", tmp_path, f"{listed}: ", "the list does not name note '0012', which has a norm file")


def test_notes_and_norm_files_that_do_not_pair(tmp_path: Path) -> None:
    folder = mcn(tmp_path)
    listed = folder / "train/train_file_list.txt"
    (folder / "train/train_norm/0012.norm").unlink()
    refuse("n2c2", "train", tmp_path, f"{listed}:2: ", "note '0012' has no file ")
    listed.unlink()
    refuse("n2c2", "train", tmp_path, f"{folder / 'train/train_note/0012.txt'}: ", "note '0012' has no file ")


# --- By name ----------------------------------------------------------------------------------


def test_what_is_known_of_every_dataset(tmp_path: Path) -> None:
    assert {"ncbi-disease", "bc5cdr-d", "bc5cdr-c", "medmentions", "medmentions-st21pv", "shareclef", "n2c2"} <= set(
        DATASETS
    )
    for name, dataset in DATASETS.items():
        assert dataset.name == name
        for split in dataset.splits:
            refuse(name, split, tmp_path, f"{name}:{split} is not there; looked for ", dataset.obtain)


def test_gold_by_dataset_and_split(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(tmp_path / "ncbi-disease/NCBItestset_corpus.txt", NCBI)
    monkeypatch.delenv("KRISS_DATA", raising=False)
    with pytest.raises(
        ConfigError, match="ncbi-disease:test is read from a data folder; give --data DIR or set KRISS_"
    ):
        gold("ncbi-disease:test", None)
    assert len(gold("ncbi-disease:test", tmp_path)) == 1
    monkeypatch.setenv("KRISS_DATA", str(tmp_path))
    assert gold("ncbi-disease:test", None) == gold("ncbi-disease:test", tmp_path)
    monkeypatch.setenv("KRISS_DATA", str(tmp_path / "no"))
    with pytest.raises(InputError, match=r"there is no data folder .*no; mend --data or KRISS_DATA"):
        gold("ncbi-disease:test", None)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("ncbi-disease", "ncbi-disease has no split ''; name one of ncbi-disease:train, ncbi-disease:dev"),
        ("n2c2:dev", "n2c2 has no split 'dev'; name one of n2c2:train, n2c2:test"),
        ("nonsense:test", "no such file or folder; nor is it a data set (ncbi-disease, bc5cdr-d"),
        ("no/such/file", "no such file or folder"),
        (" ", "a source is named by nothing"),
    ],
)
def test_gold_that_is_not_there(source: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(KrissError) as error:
        gold(source, tmp_path)
    assert message in str(error.value)


def test_gold_from_files(tmp_path: Path) -> None:
    span = {"start": 0, "end": 2, "entity": "D1"}
    passage = {"offset": 0, "text": "MS.", "annotations": [_annotation()]}
    bioc = save(tmp_path / "a.json", json.dumps({"documents": [{"id": "1", "passages": [passage]}]}))
    jsonl = save(tmp_path / "a.jsonl", json.dumps({"id": "1", "text": "MS.", "mentions": [span]}))
    pubtator = save(tmp_path / "p/a.txt", "1|t|MS.\n1|a|\n1\t0\t2\tMS\tDisease\tD1\n")
    save(tmp_path / "b/a.txt", "MS.")
    brat = save(tmp_path / "b/a.ann", "T1\tDisease 0 2\tMS\nN1\tReference T1 D1\tx\n")
    for source in (str(bioc), str(jsonl), str(pubtator), str(brat), f"{tmp_path}/b/*.ann"):
        assert surfaces(gold(source, None)) == [("MS", ("D1",))]


def _annotation() -> dict[str, object]:
    return {"id": "1", "infons": {"identifier": "D1"}, "locations": [{"offset": 0, "length": 2}], "text": "MS"}


# --- The command ------------------------------------------------------------------------------


def test_the_list(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for word in ("train", "develop", "test"):
        save(tmp_path / f"gold/ncbi-disease/NCBI{word}set_corpus.txt", NCBI + (NCBI if word == "train" else ""))
    clone(tmp_path)
    (tmp_path / "MedMentions/full/data/corpus_pubtator_pmids_dev.txt").unlink()
    assert run(["datasets", "--data", str(tmp_path)]) == 0
    rows = {line.split()[1]: line.split("│") for line in capsys.readouterr().out.splitlines() if "│" in line}
    assert [cell.strip() for cell in rows["ncbi-disease"][2:6]] == ["found", "4", "12", "4"]
    assert "Free (CC0)" in rows["medmentions"][2]  # the second table, of what is still missing
    assert "PhysioNet" in rows["shareclef"][2]
    monkeypatch.setenv("KRISS_DATA", str(tmp_path))
    assert run(["datasets"]) == 0
    assert "partly: train, test; not dev" in capsys.readouterr().out
    monkeypatch.delenv("KRISS_DATA")
    assert run(["datasets"]) == 0
    printed = capsys.readouterr()
    assert "found" not in printed.out.replace("not found", "")
    assert "give --data DIR or set KRISS_DATA" in printed.err


def test_a_damaged_dataset_does_not_hide_the_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save(tmp_path / "gold/ncbi-disease/NCBItestset_corpus.txt", NCBI + "nonsense\n")
    save(tmp_path / "gold/bc5cdr/CDR_TestSet.PubTator.txt", DOCUMENT)
    assert run(["datasets", "--data", str(tmp_path)]) == 1
    shown = capsys.readouterr()
    rows = {line.split()[1]: line.split("│") for line in shown.out.splitlines() if "│" in line}
    assert rows["ncbi-disease"][2].strip() == "damaged"
    assert "partly: test" in shown.out
    assert shown.err.count("NCBItestset_corpus.txt:") == 1


def test_one_dataset(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save(tmp_path / "gold/ncbi-disease/NCBItrainset_corpus.txt", NCBI + NCBI)
    assert run(["datasets", "ncbi-disease", "--data", str(tmp_path)]) == 0
    text = capsys.readouterr().out
    for fact in ("partly: train; not dev, test", "MEDIC", "NCBItestset_corpus.txt"):
        assert fact in text
    row = next(line.split("│") for line in text.splitlines() if "│ train" in line)
    assert [cell.strip() for cell in row[2:-1]] == ["2", "6", "4"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nonsense"], "there is no dataset 'nonsense'; there are ncbi-disease, "),
        (["--data", "no-such-folder"], "there is no data folder no-such-folder"),
        (["ncbi-disease", "--data", "."], "NCBItestset_corpus.txt:3: document '1': the mention from 0 to 99 does not"),
        (["--data", "."], "NCBItestset_corpus.txt:3: document '1': the mention from 0 to 99 does not lie"),
    ],
)
def test_errors_are_one_line(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    save(tmp_path / "ncbi/NCBItestset_corpus.txt", DOCUMENT + "1\t0\t99\tWilson\tDisease\tD1\n")
    monkeypatch.chdir(tmp_path)
    assert run(["datasets", *arguments]) == 1
    error = capsys.readouterr().err
    assert error.startswith("kriss: error: ")
    assert error.count("\n") == 1
    assert message in error
