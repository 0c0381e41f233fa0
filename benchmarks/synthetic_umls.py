"""Write a UMLS that anybody may have: the RRF files of a Metathesaurus, with made-up content.

The real one needs a licence, so it cannot be a benchmark that others repeat. This one has its
size and its awkward sides: several languages, suppressed and obsolete rows, one string in several
vocabularies, names that several concepts share, concepts that no English row names.

    python benchmarks/synthetic_umls.py out/bench/META --concepts 4000000

4 million concepts give 9 million English rows that pass the default filters, among 15 million.
One seed gives the same bytes. Work goes by chunks of concepts, so memory does not grow with them.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

FORMAT = 2
"""Raised when the same arguments would give other files; kept in the stamp that `--work` reuses."""
STAMP = "synthetic.json"
MOST_CONCEPTS = 4_900_000
CHUNK = 1 << 17
Ints = NDArray[np.int64]

# Parts of a name, in the order in which they are joined. A name is the number whose digits choose the parts.
ENGLISH = (
    [""] + [f"{word} " for word in (
        "acute chronic Acute Chronic primary secondary congenital familial idiopathic recurrent benign malignant "
        "Malignant juvenile severe mild left right bilateral Entire Structure-of anterior posterior proximal distal "
        "human mouse recombinant synthetic oral topical transient persistent progressive diffuse focal multiple "
        "solitary early late X-linked autosomal"
    ).split()],
    "hyper hypo peri endo epi sub supra intra inter trans poly oligo mono pan hemi pseudo neo para meta micro macro "
    "dys anti auto allo iso cyclo fluoro chloro methyl ethyl hydroxy amino oxo sulfo phospho glyco lipo keto nitro "
    "2,4-di 3β- α- 1,1'-bi".split(),
    "cardi nephr hepat gastr enter col pulmon bronch rhin ot ophthalm retin kerat derm oste arthr chondr my ten neur "
    "encephal mening myel cerebr thyr adren pancreat splen lymph hemat leuk erythr thromb angi phleb arteri aort "
    "ventricul atri valvul ureter cyst prostat orchi ovar salping hyster cervic vagin mast lact cran spondyl pelv cost "
    "stern brachi carp phalang femor gon tars odont gingiv gloss laryng trache pleur peritone chol lith sarc carcin "
    "aden fibr lip melan glob kin prote pept nucle rib gluc fruct chol stear palmit ole purin pyrid thiaz imid".split(),
    "itis osis oma pathy ectomy otomy ostomy plasty scopy graphy emia uria algia megaly rrhagia rrhea sclerosis "
    "malacia trophy plegia paresis ptosis stenosis ectasia genesis lysis ine ol ate ide ase in one amide azole statin "
    "cillin mycin mab tinib sartan prilol dipine virus coccus bacter ella".split(),
    [""] + [f" {link} {site}" for link in ("of", "of the", "in", "involving", "and") for site in (
        "kidney,liver,lower lobe,upper extremity,mitral valve,left ventricle,thoracic spine,femoral head,optic nerve,"
        "basal ganglia,small intestine,sigmoid colon,bone marrow,salivary gland,skin,oral mucosa,tibia,hip joint,"
        "renal artery,portal vein,lymph node,pituitary gland,bile duct,cerebral cortex,breast"
    ).split(",")],
    [""] + [f"{start}{number}" for start in (
        ", type ", " stage ", " grade ", " subtype ", " - variant ", ", NOS ", " (disorder) ", " [Mass/volume] ",
        " 10 MG Oral Tablet ", " strain ", " gene ", " protein ", ", unspecified ", " due to trauma ", " with oedema ",
        " MG/ML Injectable Solution ",
    ) for number in (*range(1, 25), "IIa", "IIIb", "A1", "p53", "Sjögren", "É-12", "TNF-α", "HLA-B")],
)  # fmt: skip
SPANISH = (
    "enfermedad síndrome lesión inflamación trastorno fármaco estructura tumor".split(),
    " crónica, aguda, congénita, del riñón, del corazón, del hígado, de la médula ósea, del niño pequeño".split(","),
    [f" {word}" for word in "sin con tras según español señal niñez pulmón índice órgano ácido úlcera".split()],
    [f" {number}" for number in range(1, 200)],
)
FRENCH = (
    "maladie syndrome lésion hépatite œdème néphropathie fièvre médicament".split(),
    " aiguë, chronique, congénitale, du rein, du cœur, à l'hôpital, de l'œil, héréditaire".split(","),
    [f" {word}" for word in "sévère bénin évolué précoce généralisé différé français naïf".split()],
    [f" {number}" for number in range(1, 300)],
)
JAPANESE = (
    "急性 慢性 先天性 悪性 良性 特発性 家族性 再発性".split(),
    "心筋 腎 肝 肺 胃 脳 骨髄 皮膚 網膜 甲状腺 リンパ ヘモグロビン".split(),
    "炎 症 腫瘍 障害 症候群 欠損 梗塞 出血 テスト".split(),
    [f"、{number}型" for number in range(1, 300)],
)
FOREIGN = (("SPA", SPANISH, "SCTSPA MSHSPA MDRSPA"), ("FRE", FRENCH, "MSHFRE MDRFRE MTHMSTFRE"),
           ("JPN", JAPANESE, "MSHJPN MDRJPN"))  # fmt: skip
VOCABULARIES = (
    "SNOMEDCT_US:PT SNOMEDCT_US:SY SNOMEDCT_US:FN SNOMEDCT_US:IS MSH:MH MSH:ET MSH:PM MSH:NM MSH:PEP NCI:PT NCI:SY "
    "NCI:AB RXNORM:SCD RXNORM:SBD RXNORM:IN NCBI:SCN NCBI:SY LNC:LC LNC:LN LNC:OSN MDR:LLT MDR:PT MTH:PN GO:PT GO:SY "
    "OMIM:PT OMIM:PTAV HGNC:PT HGNC:SYN ICD10CM:PT ICD10CM:HT ICD9CM:PT FMA:PT FMA:SY MEDCIN:PT CHV:PT CHV:SY CPT:PT "
    "NDDF:CDD HPO:PT HPO:SY NDFRT:PT ICD10:PT UWDA:PT RCD:PT SNMI:PT"
).split()
TYPES = [
    entry.split(" ", 2)
    for entry in (
        "T116 A1.4.1.2.1.7 Amino Acid, Peptide, or Protein; T121 A1.4.1.1.1 Pharmacologic Substance; "
        "T109 A1.4.1.2.1 Organic Chemical; T123 A1.4.1.1.3 Biologically Active Substance; T200 A1.3.3 Clinical Drug; "
        "T002 A1.1.3.3 Plant; T204 A1.1.3 Eukaryote; T007 A1.1.2 Bacterium; T005 A1.1.4 Virus; T004 A1.1.3.2 Fungus; "
        "T047 B2.2.1.2.1 Disease or Syndrome; T033 A2.2 Finding; T037 B2.3 Injury or Poisoning; "
        "T061 B1.3.1.3 Therapeutic or Preventive Procedure; T191 B2.2.1.2.1.2 Neoplastic Process; "
        "T023 A1.2.3.1 Body Part, Organ, or Organ Component; T201 A2.3.1 Clinical Attribute; "
        "T028 A1.2.3.5 Gene or Genome; T059 B1.3.1.1 Laboratory Procedure; T060 B1.3.1.2 Diagnostic Procedure; "
        "T074 A1.3.1 Medical Device; T170 A2.4 Intellectual Product; T126 A1.4.1.1.3.3 Enzyme; "
        "T129 A1.4.1.1.3.5 Immunologic Factor; T114 A1.4.1.2.1.5 Nucleic Acid, Nucleoside, or Nucleotide; "
        "T046 B2.2.1.2 Pathologic Function; T184 A2.2.2 Sign or Symptom; T019 A1.2.2.1 Congenital Abnormality; "
        "T048 B2.2.1.2.1.1 Mental or Behavioral Dysfunction; T044 B2.2.1.1.4 Molecular Function; "
        "T043 B2.2.1.1.3 Cell Function; T025 A1.2.3.3 Cell; T026 A1.2.3.4 Cell Component; "
        "T029 A2.1.5.2 Body Location or Region; T031 A1.4.2 Body Substance; T034 A2.2.1 Laboratory or Test Result; "
        "T080 A2.1.2 Qualitative Concept; T081 A2.1.3 Quantitative Concept; T082 A2.1.5 Spatial Concept; "
        "T168 A1.4.3 Food; T195 A1.4.1.1.1.1 Antibiotic; T197 A1.4.1.2.2 Inorganic Chemical; T012 A1.1.3.1.1.2 Bird; "
        "T013 A1.1.3.1.1.3 Fish; T015 A1.1.3.1.1.4 Mammal"
    ).split("; ")
]
CLAUSES = (
    "An inflammatory process|A disorder characterized by loss|A member of the family|A substance that inhibits"
    "|The surgical removal|A neoplasm arising from cells|Any impairment|A protein that takes part in the maintenance",
    " of the affected tissue| of smooth muscle| of the proximal tubule| of receptor signalling",
    ", usually in the first decade of life;|, most often after exposure to a virus;|, with or without fever;",
    " it is seen in one of 10,000 births| the course is progressive, and the cause is not known in most of the cases"
    "| used in the treatment of hypertension and of heart failure; see also the related entries",
    "|".join(f" (ref. {number})." for number in range(1, 5000)),
)
NAMES_A_CONCEPT = {1: 0.55, 2: 0.21, 3: 0.10, 4: 0.05, 5: 0.03, 6: 0.015, 8: 0.015, 12: 0.01, 15: 0.01, 30: 0.0048}
"""Share of concepts with so many English rows; what is missing to one goes to 1. On average 2.25."""


class Rows:
    """An RRF file being written: columns in, lines out, each column an array or one string for all rows."""

    def __init__(self, folder: Path, table: str) -> None:
        self.file: BinaryIO = (folder / f"{table}.RRF").open("wb")
        self.count = 0

    def write(self, *columns: pa.Array | str) -> None:
        """Append rows; the joined array's buffer is the text of the file already."""
        lines = pc.binary_join_element_wise(*columns, "\n", "|")
        offsets = np.frombuffer(lines.buffers()[1], np.int32)[lines.offset : lines.offset + len(lines) + 1]
        self.file.write(memoryview(lines.buffers()[2])[offsets[0] : offsets[-1]])
        self.count += len(lines)


def numbered(letter: str, numbers: Ints, width: int) -> pa.Array:
    """Return identifiers such as C0000123."""
    digits = np.empty((len(numbers), width + 1), np.uint8)
    digits[:, 0] = ord(letter)
    rest = numbers.copy()
    for place in range(width, 0, -1):
        rest, digit = np.divmod(rest, 10)
        digits[:, place] = digit + ord("0")
    offsets = np.arange(len(numbers) + 1, dtype=np.int32) * (width + 1)
    return pa.StringArray.from_buffers(len(numbers), pa.py_buffer(offsets), pa.py_buffer(digits))


def chosen(values: Iterable[str], index: NDArray[np.integer]) -> pa.Array:
    """Return the value that each index stands for."""
    return pa.array(list(values), pa.string()).take(pa.array(index))


def composed(parts: tuple[list[str], ...], codes: Ints) -> pa.Array:
    """Return the text of each code: its digits, in the bases of the lists, choose the parts."""
    columns = []
    for part in reversed(parts):
        codes, digit = np.divmod(codes, len(part))
        columns.append(chosen(part, digit))
    return pc.binary_join_element_wise(*reversed(columns), "")


def space(parts: tuple[list[str], ...]) -> int:
    """Return how many texts the parts can make."""
    return int(np.prod([len(part) for part in parts], dtype=np.int64))


def name_codes(serials: Ints) -> Ints:
    """Spread serial numbers over the space of names, no two at one place."""
    return serials * 39_916_801 % space(ENGLISH)


def cui(concepts: Ints) -> pa.Array:
    """Return the CUIs of concepts: even numbers, so that the odd ones are free for the retired."""
    return numbered("C", concepts * 2 + 10, 7)


class Generator:
    """Writes all files of a META folder, chunk by chunk of concepts."""

    def __init__(self, folder: Path, concepts: int, seed: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.concepts, self.seed = concepts, seed
        self.total = concepts + concepts // 100
        """Every 101st concept has no English row that passes the filters: the build must leave it out."""
        self.tables = {name: Rows(folder, name) for name in "MRCONSO MRSTY MRDEF MRREL MRCUI MRRANK".split()}
        self.names = self.atoms = self.relations = self.passing = 0

    def run(self) -> dict[str, int]:
        """Write everything; return the number of rows of each file."""
        self.ranks()
        for start in range(0, self.total, CHUNK):
            concepts = np.arange(start, min(start + CHUNK, self.total), dtype=np.int64)
            rng = np.random.default_rng((self.seed, start))
            self.terms(concepts, rng)
            self.types(concepts, rng)
            self.definitions(concepts, rng)
            self.parents(concepts, rng)
        self.retired(np.random.default_rng((self.seed, self.total)))
        for rows in self.tables.values():
            rows.file.close()
        return {name: rows.count for name, rows in self.tables.items()} | {"passing": self.passing}

    def ranks(self) -> None:
        """MRRANK: every vocabulary and term type, in each state of suppression."""
        pairs = [(pair, flag) for flag in "YON" for pair in reversed(VOCABULARIES)]
        self.tables["MRRANK"].write(
            pa.array([f"{place:04}" for place in range(1, len(pairs) + 1)]),
            pa.array([pair.partition(":")[0] for pair, _ in pairs]),
            pa.array([pair.partition(":")[2] for pair, _ in pairs]),
            pa.array([flag for _, flag in pairs]),
        )

    def terms(self, concepts: Ints, rng: np.random.Generator) -> None:
        """MRCONSO: English rows, then suppressed ones and those of other languages, sorted by concept."""
        named = concepts[concepts % 101 != 100]
        sizes = np.array(list(NAMES_A_CONCEPT))
        shares = np.array(list(NAMES_A_CONCEPT.values()))
        shares[0] += 1 - shares.sum()
        english = np.repeat(named, rng.choice(sizes, len(named), p=shares))
        self.passing += len(english)
        hidden = rng.choice(concepts, int(len(concepts) * 0.5))
        spoken = rng.choice(concepts, int(len(concepts) * 0.3))
        other = np.repeat(spoken, rng.integers(1, 6, len(spoken)))
        unnamed = concepts[concepts % 101 == 100]
        owner = np.concatenate([english, hidden, other, unnamed])
        state = np.repeat([0, 1, 2, 1], [len(english), len(hidden), len(other), len(unnamed)])

        language = np.where(state == 2, 1 + rng.choice(3, len(owner), p=[0.5, 0.3, 0.2]), 0)
        order = np.lexsort((language, state == 1, owner))
        owner, state, language = owner[order], state[order], language[order]
        first = np.concatenate(([True], owner[1:] != owner[:-1]))
        atom = self.atoms + np.arange(len(owner))
        self.atoms += len(owner)

        text, sab, tty = self._strings(first, language, rng)
        suppress = np.where(state == 1, rng.choice(3, len(owner), p=[0.7, 0.2, 0.1]), 3)
        code = numbered("D", rng.integers(0, 10**7, len(owner)), 7)
        self.tables["MRCONSO"].write(
            cui(owner),
            chosen(("ENG", *(entry[0] for entry in FOREIGN)), language),
            chosen("PS", np.where(first, 0, rng.random(len(owner)) > 0.1).astype(np.int64)),
            numbered("L", atom + 5, 8),
            chosen(("PF", "VO", "VC"), np.where(first, 0, rng.integers(0, 3, len(owner)))),
            numbered("S", atom + 7, 8),
            chosen("YN", (~first & (rng.random(len(owner)) < 0.3)).astype(np.int64)),
            numbered("A", atom + 11, 8),
            "",
            numbered("M", owner + 3, 7),
            code,
            sab,
            tty,
            code,
            text,
            "0",
            chosen("OYEN", suppress),
            "256",
        )

    def _strings(
        self, first: NDArray[np.bool_], language: Ints, rng: np.random.Generator
    ) -> tuple[pa.Array, pa.Array, pa.Array]:
        """Return STR, SAB and TTY of the rows."""
        n = len(language)
        # A name of its own; or an earlier one, and then two concepts share it; or the row above's, from another SAB.
        # 8.5% of the rows copy, for many copy a row that the filters drop: about 5% of the names kept are shared.
        serial = self.names + np.arange(n)
        self.names += n
        kind = rng.random(n)
        serial = np.where(kind < 0.085, (serial * rng.random(n)).astype(np.int64), serial)
        serial = np.where((kind > 0.9) & ~first, np.roll(serial, 1), serial)
        source = rng.integers(0, len(VOCABULARIES), n)
        text = composed(ENGLISH, name_codes(serial))
        sab = chosen([pair.partition(":")[0] for pair in VOCABULARIES], source)
        tty = chosen([pair.partition(":")[2] for pair in VOCABULARIES], source)
        for number, (_, parts, sources) in enumerate(FOREIGN, start=1):
            here = np.flatnonzero(language == number)
            if len(here):
                mask = pa.array(language == number)
                names = composed(parts, rng.integers(0, space(parts), len(here)))
                text = pc.replace_with_mask(text, mask, names)
                sabs = sources.split()
                sab = pc.replace_with_mask(sab, mask, chosen(sabs, rng.integers(0, len(sabs), len(here))))
        return text, sab, tty

    def types(self, concepts: Ints, rng: np.random.Generator) -> None:
        """MRSTY: one type a concept, a second for one in ten; a few types hold most concepts."""
        weights = 1 / np.arange(1, len(TYPES) + 1)
        kind = rng.choice(len(TYPES), len(concepts), p=weights / weights.sum())
        second = np.flatnonzero(rng.random(len(concepts)) < 0.1)
        owner = np.concatenate([concepts, concepts[second]])
        kind = np.concatenate([kind, (kind[second] + rng.integers(1, len(TYPES), len(second))) % len(TYPES)])
        order = np.lexsort((kind, owner))
        owner, kind = owner[order], kind[order]
        self.tables["MRSTY"].write(
            cui(owner),
            *(chosen([row[column] for row in TYPES], kind) for column in range(3)),
            numbered("A", self.tables["MRSTY"].count + np.arange(len(owner)), 8),
            "256",
        )

    def definitions(self, concepts: Ints, rng: np.random.Generator) -> None:
        """MRDEF: 6% of the concepts, some from two vocabularies."""
        defined = np.sort(rng.choice(concepts, int(len(concepts) * 0.06), replace=False))
        owner = np.repeat(defined, rng.choice([1, 2], len(defined), p=[0.7, 0.3]))
        serial = self.tables["MRDEF"].count + np.arange(len(owner))
        clauses = tuple(part.split("|") for part in CLAUSES)
        self.tables["MRDEF"].write(
            cui(owner),
            numbered("A", serial, 8),
            numbered("A", serial + 17, 8),
            "",
            chosen(("MSH", "NCI", "SNOMEDCT_US", "GO", "HPO"), rng.integers(0, 5, len(owner))),
            composed(clauses, rng.integers(0, space(clauses), len(owner))),
            "N",
            "256",
        )

    def parents(self, concepts: Ints, rng: np.random.Generator) -> None:
        """MRREL: three parents for two concepts, of smaller numbers, told from both ends; and other relations."""
        below = np.repeat(concepts, rng.choice([0, 1, 2, 5], len(concepts), p=[0.1, 0.5, 0.3, 0.1]))
        below = below[below > 0]
        above = (below * rng.random(len(below))).astype(np.int64)
        hints = np.flatnonzero(rng.random(len(concepts)) < 0.3)
        noise, target = concepts[hints], rng.integers(0, self.total, len(hints))
        kind = np.repeat([0, 1, 2], [len(below), len(below), len(noise)])
        is_a = np.tile(rng.random(len(below)) < 0.5, 2)
        label = np.concatenate([np.where(is_a, kind[: len(is_a)], 3), np.full(len(noise), 2)])
        serial = self.relations + np.arange(len(kind))
        self.relations += len(kind)
        left, right = np.concatenate([below, above, noise]), np.concatenate([above, below, target])
        self.tables["MRREL"].write(
            cui(left),
            numbered("A", left, 8),
            "AUI",
            chosen(("PAR", "CHD", "RO"), kind),
            cui(right),
            numbered("A", right, 8),
            "AUI",
            chosen(("inverse_isa", "isa", "has_finding_site", ""), label),
            numbered("R", serial, 9),
            "",
            chosen(("SNOMEDCT_US", "MSH", "NCI"), rng.integers(0, 3, len(kind))),
            "SNOMEDCT_US",
            "",
            "",
            chosen("NO", (rng.random(len(kind)) < 0.02).astype(np.int64)),
            "",
        )

    def retired(self, rng: np.random.Generator) -> None:
        """MRCUI: one retired CUI for twenty concepts, one in fifty through another retired one; and deleted CUIs."""
        old = np.arange(self.concepts // 20, dtype=np.int64) * 20 * 2 + 11
        new = rng.integers(0, self.total, len(old)) * 2 + 10
        chained = np.flatnonzero(rng.random(len(old)) < 0.02)
        chained = chained[chained > 0]
        new[chained] = old[(chained * rng.random(len(chained))).astype(np.int64)]
        rows = self.tables["MRCUI"]
        rows.write(numbered("C", old, 7), "2019AB", "SY", "", "", numbered("C", new, 7), "Y")
        gone = old[: len(old) // 4] + 2
        rows.write(numbered("C", gone, 7), "2015AA", "DEL", "", "", "", "")
        wider = numbered("C", rng.integers(0, self.total, len(gone)) * 2 + 10, 7)
        rows.write(numbered("C", gone + 2, 7), "2017AA", "RB", "", "", wider, "Y")


def main() -> None:
    """Read the arguments, write the files and a stamp that says what they are."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, metavar="OUT", help="folder for the RRF files")
    parser.add_argument("--concepts", type=int, default=4_000_000, help="concepts with an English name")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    if not 1000 <= given.concepts <= MOST_CONCEPTS:
        parser.error(f"--concepts must be from 1000 to {MOST_CONCEPTS}: CUIs have seven digits")
    began = time.perf_counter()
    (given.out / STAMP).unlink(missing_ok=True)
    counts = Generator(given.out, given.concepts, given.seed).run()
    stamp = {"format": FORMAT, "concepts": given.concepts, "seed": given.seed, "rows": counts}
    (given.out / STAMP).write_text(json.dumps(stamp, indent=2) + "\n", encoding="utf-8")
    for name, count in counts.items():
        print(f"{name:8} {count:>12,} rows")
    print(f"written in {time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
