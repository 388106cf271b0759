"""The playground: which models of a preset are trained, what they can be asked about, and what they say."""

import re
from functools import cached_property
from html import escape

from IPython.display import HTML

from helpers import papers
from helpers.data.examples import Choice, DataError, Example, Pair
from helpers.models.pretrained import EncoderError
from helpers.notebooks import pages, session
from helpers.notebooks.parameters import preset_for
from helpers.tasks import asking
from helpers.tasks.asking import Model
from helpers.training import engine
from helpers.training.cached import CachedTraining

NOTHING = "Nothing of this kind is trained yet."


class Playground:
    """The trained models that a notebook's ``parameters`` lead to. ``words`` choose by name those that are asked:
    every part, between commas, has to be in it ("IMM, seed 0")."""

    def __init__(self, parameters: dict[str, object], words: str = ""):
        self.parameters, self.words = parameters, words
        self.trained: dict[str, CachedTraining] = {}
        self.missing: dict[str, str] = {}  # notebook -> what of it is not trained, or why that is not known
        for card in (card for paper in papers.ALL for card in paper.notebooks):
            try:
                needed = session.needed_by(card, preset_for(parameters, card.name))
            except (DataError, EncoderError) as error:
                self.missing[card.name] = str(error)
                continue
            done = {key: task for key, task in needed.items() if engine.is_done(task)}
            self.trained |= done
            if len(done) < len(needed):
                self.missing[card.name] = f"{len(done)} of {len(needed)} trainings done"

    @cached_property
    def models(self) -> list[Model]:
        """All of them, by each of their heads."""
        return [model for training in self.trained.values() for model in asking.models_of(training)]

    @cached_property
    def topics(self) -> dict[str, dict[str, list[tuple[Model, str]]]]:
        """By kind ("spans", "labels" or "choices") and name what can be asked about, with the models that are for it
        and what it is to each."""
        topics: dict[str, dict[str, list[tuple[Model, str]]]] = {kind: {} for kind in ("spans", "labels", "choices")}
        for model in self.models:
            for domain in asking.domains_of(model):
                topics[model.gives.kind].setdefault(asking.topic_of(model, domain), []).append((model, domain))
        return topics

    def examples(self, kind: str, topic: str) -> list:
        """The test examples of a topic."""
        model, domain = self.topics[kind][topic][0]
        return asking.examples_of(model, domain, "test")

    def asked(self, kind: str, topic: str, words: str | None = None) -> dict[str, Model]:
        """By name the models that are asked about a topic: readers about any, others about their own."""
        parts = (self.words if words is None else words).split(",")
        patterns = [rf"\b{re.escape(part.strip())}\b" for part in parts if part.strip()]
        readers = [model for model in self.models if model.gives.kind == "spans"]
        asked: dict[str, Model] = {}
        for model in readers if kind == "spans" else (model for model, _ in self.topics[kind][topic]):
            if all(re.search(pattern, model.name) for pattern in patterns):
                alike = sum(name.partition(" | ")[0] == model.name for name in asked)
                asked[f"{model.name} | {alike + 1}" if alike else model.name] = model
        return asked

    def overview(self) -> HTML:
        """How many models there are, and by which command what is missing is trained."""
        given = {name: value for name, value in self.parameters.items() if name in papers.parameters() and value}
        options = "".join(f" -p {name} {value}" for name, value in given.items())
        preset, lines = self.parameters["preset"], [f"{len(self.trained)} trainings are done."]
        for notebook, reason in self.missing.items():
            command = f"python -m helpers run {notebook} --preset {preset}{options}"
            lines.append(f"{notebook}: {escape(reason)}. The rest is trained by <code>{escape(command)}</code>")
        return HTML("<br>".join(lines))

    def example(self, kind: str) -> HTML:
        """What the models say of the first example of the first topic."""
        if not (names := list(self.topics[kind])):
            return HTML(NOTHING)
        example = self.examples(kind, names[0])[0]
        return self.page(kind, names[0], example)

    def page(
        self,
        kind: str,
        topic: str,
        example: Example | Pair | Choice,
        words: str | None = None,
        by: str = "",
        attention: bool = False,
    ) -> HTML:
        """What the models say of an example, the surest first; of a passage the words are shaded as the reader called
        ``by`` sees them, or the surest, with its ``attention`` if that is asked for. Raises DataError."""
        if not (models := self.asked(kind, topic, words)):
            return HTML("No trained model has such a name.")
        if kind != "spans":
            said = {name: asking.judge(model, example) for name, model in models.items()}
            return HTML(pages.judged(topic, example, said))
        said = {name: asking.answer(model, example.question, example.context) for name, model in models.items()}
        said = dict(sorted(said.items(), key=lambda item: -item[1].prediction.probability))
        seen = by if by in said else next(iter(said))
        looked = None
        if attention:
            looked = asking.answer(models[seen], example.question, example.context, attention=True).attention
        return HTML(pages.answered(topic, example, said, seen, looked))
