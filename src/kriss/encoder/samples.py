"""Thirty-two sentences of biomedical English to compare two forms of one encoder on.

They differ in length, so that batches are padded and windows cut. The wording is our own: nothing
here comes from a corpus or an ontology.
"""

from __future__ import annotations

from kriss.records import Entity, Excerpt

_SENTENCES = (
    "[MS]",
    "[heart attack]",
    "acute [renal failure]",
    "[Aspirin] was stopped.",
    "No sign of [pneumonia].",
    "She denies [chest pain] at rest.",
    "A [BRCA1] variant of unknown meaning was found.",
    "The [cold] had lasted for nine days.",
    "Knees and [hips] were tender on both sides.",
    "He was given 5 mg of [warfarin] every evening.",
    "The nerve was hypoechoic, as in [carpal tunnel syndrome].",
    "Mice without the [insulin receptor] in the liver gained no weight.",
    "Fever, rash and [arthralgia] appeared two weeks after the second dose.",
    "We measured [serum creatinine] before and 48 h after contrast was given.",
    "Of 212 patients with [multiple sclerosis], 61 (28.8%) relapsed within a year.",
    "[Hypertension] was defined as a blood pressure above 140/90 mmHg at two visits.",
    "The tumour stained for CD20 and BCL6 but not for CD10, in keeping with a [diffuse large B-cell lymphoma].",
    "In cultured [astrocytes], blocking the channel lowered calcium peaks by a third (p = 0.003).",
    "After the [hip replacement] she walked with a frame, then with a stick, and went home on the ninth day.",
    "Sequencing showed a heterozygous deletion in the parents of both children with [cystic fibrosis].",
    "The effect of [metformin] on weight was small in adults, absent in children, and lost when it was withdrawn.",
    "Three of the infants had [jaundice] that needed light therapy; none had signs of haemolysis or of infection.",
    "Dust mites are a common cause of [allergic rhinitis] in this region, followed by grass pollen, cats and moulds.",
    "Because [atrial fibrillation] may come and go unnoticed, a recorder was worn for thirty days by everyone who had "
    "had a stroke without another cause.",
    "Biopsies of the duodenum showed blunted villi and many lymphocytes, and antibodies against transglutaminase were "
    "raised tenfold, so [coeliac disease] was thought certain and a diet without gluten was begun the same week.",
    "The enzyme cuts the peptide behind its third [arginine], at a rate that depends on salt, on warmth and on zinc.",
    "Nobody knew why [sleep apnoea] was so common among drivers of this depot: neither weight nor age nor smoking "
    "explained it, and the rate among office workers of the same town was less than half as high.",
    "At the age of six he had seizures, a port-wine stain over the left brow and glaucoma of the same side, which "
    "together led to the diagnosis of [Sturge-Weber syndrome] long before a scan of the brain was made.",
    "[Vitamin D] was low in winter, as one would expect so far north; supplements raised it to the summer's level, "
    "but falls, fractures and hospital stays were as frequent as among those who had been given oil alone.",
    "Rats that had learned to press the lever for food, and were then given the antagonist into the [amygdala] "
    "went on to press it as before, yet no longer froze at the tone that had announced a shock, while those given "
    "saline did both; a second injection a week later changed nothing, and neither did one into the hippocampus.",
    "Over eleven years the registry gathered 4,318 people with [type 2 diabetes] who began dialysis: two thirds were "
    "men, half were older than 67, one in five had lost a toe or more, and most took four drugs or more against high "
    "blood pressure, of which a water tablet and an inhibitor of angiotensin were by far the most frequent pair.",
    "On the second night he grew confused, pulled at his lines and saw insects on the wall; sodium, sugar and oxygen "
    "were normal, the scan showed nothing new, and as he had drunk a bottle of spirits a day until his admission, "
    "[delirium tremens] was suspected, thiamine was given before glucose, and lorazepam was raised until he slept.",
)


def sample_mentions() -> list[Excerpt]:
    """Return a mention in each sentence."""
    found = []
    for sentence in _SENTENCES:
        left, _, rest = sentence.partition("[")
        surface, _, right = rest.partition("]")
        found.append(Excerpt(left, surface, right))
    return found


def sample_entities() -> list[Entity]:
    """Return an entity for each mention: with few or many names, with and without the other fields."""
    mentions = sample_mentions()
    return [
        Entity(
            id=str(number),
            name=mention.surface,
            aliases=tuple(other.surface for other in mentions[: number % 7]),
            types=("Disease or Syndrome",) if number % 2 else (),
            tree_numbers=(f"C10.{100 + number}.{number % 10}",) if number % 3 else (),
            definition=mention.left + mention.surface + mention.right if number % 4 else "",
        )
        for number, mention in enumerate(mentions)
    ]
