"""From a run and a split to README.md and pictures beside it."""

from pathlib import Path

from capstext.comparison.report.tables import markdown
from capstext.comparison.report.wording import percent
from capstext.data.image_corpora import ImageCorpus
from capstext.errors import CapstextError
from capstext.files import write_text, write_whole
from capstext.inside import sections
from capstext.inside.examples import see
from capstext.inside.page import Page
from capstext.runs import Run

PAGE = "README.md"


def write(run: Run, corpus: ImageCorpus, split: str, folder: Path, *, seed: int = 0) -> Path:
    """Look into a run on a split; the path of the page is returned."""
    try:
        import matplotlib  # noqa: F401
    except ModuleNotFoundError as error:
        raise CapstextError(f"{error.name} is not installed; pip install 'capstext[report]'") from None
    page = Page(see(run, corpus.split(split)), seed=seed)
    _introduce(page, run, corpus, split)
    if page.seen.decoder is None:
        page.say("The model has no decoder, so it cannot draw; its couplings are what there is to see.")
    else:
        for section in (sections.reconstructions, sections.overlaps, sections.dimensions):
            section(page)
    sections.origins(page)
    folder.mkdir(parents=True, exist_ok=True)
    for file, image in page.pictures.items():
        write_whole(folder / file, lambda path: _fill(path, image))  # noqa: B023
    write_text(folder / PAGE, markdown(page.blocks))
    return folder / PAGE


def _introduce(page: Page, run: Run, corpus: ImageCorpus, split: str) -> None:
    model, right = run.config.model.name, page.seen.right
    page.head(f"Inside {model} on {corpus.name}", level=1)
    page.say(
        f"Made by capstext report inside, seed {page.seed}. Run: {run.folder}, {model} with "
        f"{run.config.routing.name} routing, trained on {run.config.data.name}. Images: {corpus.name} "
        f"({corpus.origin}), {split}."
    )
    if corpus.notes:
        page.say(f"Of these images: {'; '.join(corpus.notes)}.")
    page.say(
        f"Right are {right.sum():,} of {len(right):,} images, {percent(float(right.mean()))} %: those whose "
        "most active capsules, as many as the image has classes, are those of its classes. A number behind a "
        "class is how active its capsule is: the length of its pose, or in matrix capsules its activation. "
        "Images are drawn by lot, of as many classes as possible."
    )


def _fill(path: Path, image: bytes) -> None:
    path.write_bytes(image)
