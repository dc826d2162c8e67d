"""What the pages say: the overview of all data sets, and the page of one."""

from collections.abc import Mapping, Sequence

from capstext.comparison.report import background, wording
from capstext.comparison.report.blocks import Block, Bullets, Entry, Grid, Heading, Links, Paragraph, Picture
from capstext.comparison.report.cells import BY_ROW, Cell, Table
from capstext.comparison.report.costs import Costs, costs
from capstext.comparison.report.published import Published, figures
from capstext.comparison.report.results import verdict
from capstext.comparison.report.wording import METRIC_NAMES, NOTHING
from capstext.data.catalog import known_dataset

SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
# In the order of the sentence that tells wins and losses.
VERDICTS = (
    *("better", "worse", "better on these rows", "worse on these rows", "better over the runs"),
    *("worse over the runs", "mixed", "not told apart"),
)
Column = tuple[Table, str]  # a table and one of its metrics
Pictures = Mapping[str, Picture]  # of one table, by what they show


def overview(tables: Sequence[Table], *, pages: Mapping[str, str]) -> list[Block]:
    """Models by data sets, published figures below, and what stands behind them."""
    published = (
        "Published figures stand below for orientation: their vectors, rows and splits differ from ours. "
        if any(figures(table.source, table.split) for table in tables)
        else ""
    )
    blocks: list[Block] = [
        Heading(1, "Results"),
        Paragraph(
            "Made by capstext compare from its finished runs. Figures in %: the mean and, after ±, the "
            f"deviation of single runs; the best of ours in a column is bold. {published}Every data set has "
            "a page with tests, costs, pictures and settings:"
        ),
        Links(tuple(pages.items())),
    ]
    for title, several in (("One label a row: accuracy", False), ("Several labels a row", True)):
        chosen = [table for table in tables if table.multi_label == several]
        if chosen:
            columns = [(table, metric) for table in chosen for metric in table.metrics]
            blocks += [Heading(2, title), _matrix(columns)]
    blocks += [Heading(2, "Wins and losses"), Bullets(tuple(_wins_and_losses(table) for table in tables))]
    blocks += [Heading(2, "What stands behind the figures"), *background.overview(tables)]
    return [*blocks, Heading(2, "What the tests mean"), Bullets(background.MEANING)]


def dataset(
    name: str, tables: Sequence[Table], pictures: Mapping[tuple[str, str, str], Pictures]
) -> list[Block]:
    """All that was measured on one data set."""
    known = known_dataset(tables[0].source)
    blocks: list[Block] = [Heading(1, f"Results on {name}")]
    if known is not None:
        blocks.append(Paragraph(f"{known.title}: {known.source}; {known.licence}. {known.note}".strip()))
    blocks.append(
        Paragraph(f"{background.rows(tables)} All figures in %; the overview tells what the tests mean.")
    )
    for table in tables:
        blocks += [Heading(2, f"{table.split} rows, {table.protocol}"), *_table(table, pictures[table.key])]
    return [*blocks, Heading(2, "Settings"), *background.settings_of(tables)]


def _table(table: Table, pictures: Pictures) -> list[Block]:
    sources = _sources(table)
    blocks: list[Block] = [Paragraph(_wins_and_losses(table)), _scores(table, sources)]
    if sources:
        blocks.append(Bullets(tuple(sources), numbered=True))
    blocks += [pictures["scores"], Heading(3, "What it costs"), _costs(table)]
    blocks += [pictures[what] for what in ("time", "parameters") if what in pictures]
    blocks += [Heading(3, "Errors and confidence"), pictures["confusion"], pictures["reliability"]]
    others = _others(table)
    return [*blocks, Heading(3, "Other published figures"), others] if others.rows else blocks


def _wins_and_losses(table: Table) -> str:
    """Losses as open as wins, in one sentence."""
    where = f"{table.dataset}, {table.split}, {table.protocol}"
    capsules = [cell for cell in table.cells if not cell.baseline]
    groups: dict[str, list[str]] = {}
    for cell in capsules:
        against = cell.scores[table.main].against
        said = verdict(table, cell)
        if said is not None and against is not None:
            name = f"{cell.name} {wording.points(against.difference)}"
            groups.setdefault(said, []).append(name)
    if not groups:
        return f"{where}: no capsule network stands beside a baseline yet."
    parts = [f"{said}: {wording.listed(groups[said])}" for said in VERDICTS if said in groups]
    untested = sum(cell.scores[table.main].against is None for cell in capsules)
    rest = f"; {untested} without a reference" if untested else ""
    said = "; ".join(parts)
    return f"{where}: capsules less the best baseline on the same vectors. {said[0].upper()}{said[1:]}{rest}."


def _scores(table: Table, sources: Sequence[str]) -> Grid:
    several = len(table.references) > 1
    by_row = next(metric for metric in table.metrics if metric in BY_ROW)
    header = ["model", "embeddings", *(METRIC_NAMES[metric] for metric in table.metrics), "n"]
    header += [f"{'its' if several else 'the'} reference", "difference (95 %)", "p, rows", "p, runs", "so"]
    header += ["macro-F1", "calibration error", "published"]
    rows = []
    for cell in table.cells:
        against = cell.scores[table.main].against
        difference = NOTHING
        if against is not None:
            difference = wording.points(against.difference)
            if against.low is not None and against.high is not None:
                difference += f" ({wording.points(against.low)} to {wording.points(against.high)})"
        reference = against.reference if against else "is one" if cell.name in table.references else NOTHING
        rows_p = tested.mcnemar_holm if (tested := cell.scores[by_row].against) else None
        runs_p = against.bootstrap_holm if against else None
        cost = costs(cell)
        rows.append(
            (
                Entry(cell.model),
                Entry(cell.embeddings),
                *(_mean(cell, table, metric) for metric in table.metrics),
                Entry(str(cell.n), cell.n),
                Entry(reference),
                Entry(difference, against.difference if against else None),
                Entry(wording.chance(rows_p), rows_p),
                Entry(wording.chance(runs_p), runs_p),
                Entry(verdict(table, cell) or NOTHING),
                Entry(wording.percent(cost.macro_f1), cost.macro_f1),
                Entry(wording.percent(cost.calibration_error), cost.calibration_error),
                _published(cell, table, sources),
            )
        )
    return Grid(tuple(header), tuple(rows), words=2)


def _mean(cell: Cell, table: Table, metric: str) -> Entry:
    score = cell.scores[metric]
    best = max(other.scores[metric].mean for other in table.cells)
    return Entry(wording.plus_minus(score.mean, score.std), score.mean, strong=score.mean == best)


def _published(cell: Cell, table: Table, sources: Sequence[str]) -> Entry:
    """The nearest figures of every metric, each with the number of its source."""
    found = [figure for metric in table.metrics for figure in cell.scores[metric].published]
    texts = []
    for figure in found:
        metric = "" if len(table.metrics) == 1 else f" {METRIC_NAMES[figure.metric]}"
        number = str(sources.index(_source(figure)) + 1).translate(SUPERSCRIPTS)
        texts.append(f"{wording.percent(figure.value)}{metric} {number}")
    return Entry(", ".join(texts) or NOTHING, found[0].value if found else None)


def _sources(table: Table) -> list[str]:
    found = (figure for cell in table.cells for score in cell.scores.values() for figure in score.published)
    return sorted({_source(figure) for figure in found})


def _source(figure: Published) -> str:
    """Where it was read; a note that holds figures of one row only stays in results.json."""
    note = "" if figure.note.startswith("precision") else figure.note
    return f"{figure.source}{f'; {note}' if note else ''}"


def _costs(table: Table) -> Grid:
    header = ("model", "embeddings", "parameters", "trained", "training", "best epoch", "of")
    rows = []
    for cell in table.cells:
        cost = costs(cell)
        rows.append(
            (
                Entry(cell.model),
                Entry(cell.embeddings),
                Entry(wording.count(cost.parameters), cost.parameters),
                Entry(wording.count(cost.trained_parameters), cost.trained_parameters),
                Entry(wording.seconds(cost.training_seconds), cost.training_seconds),
                *_epochs(cost),
                Entry(wording.per_second(cost.texts_per_second), cost.texts_per_second),
                Entry(wording.memory(cost.peak_memory), cost.peak_memory),
            )
        )
    return Grid((*header, "rows a second", "peak memory"), tuple(rows), words=2)


def _epochs(cost: Costs) -> tuple[Entry, Entry]:
    """The best epoch and how many there were; a solved model has none."""
    if not cost.best_epoch:
        return Entry(NOTHING), Entry(NOTHING)
    return Entry(f"{cost.best_epoch:.1f}", cost.best_epoch), Entry(f"{cost.epochs:.1f}", cost.epochs)


def _others(table: Table) -> Grid:
    """Published systems that no row of the table stands for."""
    beside = {figure for cell in table.cells for score in cell.scores.values() for figure in score.published}
    others = [figure for figure in figures(table.source, table.split) if figure not in beside]
    others.sort(key=lambda figure: (figure.metric, -figure.value, figure.system))
    return Grid(
        ("system", "source", "note", "metric", "%"),
        tuple(
            (
                Entry(figure.system),
                Entry(figure.source),
                Entry(figure.note or NOTHING),
                Entry(METRIC_NAMES[figure.metric]),
                Entry(wording.percent(figure.value), figure.value),
            )
            for figure in others
        ),
        words=4,
    )


def _matrix(columns: Sequence[Column]) -> Grid:
    """A row for each model with its embeddings, baselines first; then the published systems."""
    several = any(len(table.metrics) > 1 for table, _ in columns)
    parts = background.parts([table for table, _ in columns])
    names = [
        ", ".join((*parts[table.key], *((METRIC_NAMES[metric],) if several else ())))
        for table, metric in columns
    ]
    cells = {
        (cell.baseline, cell.model, cell.embeddings): None for table, _ in columns for cell in table.cells
    }
    rows = []
    for baseline, model, embeddings in sorted(cells, key=lambda key: (not key[0], *key[1:])):
        entries = []
        for table, metric in columns:
            key = baseline, model, embeddings
            found = (one for one in table.cells if (one.baseline, one.model, one.embeddings) == key)
            cell = next(found, None)
            entries.append(_mean(cell, table, metric) if cell else Entry(NOTHING))
        rows.append((Entry(model), Entry(embeddings), *entries))
    return Grid(("model", "embeddings", *names), (*rows, *_published_rows(columns)), words=2)


def _published_rows(columns: Sequence[Column]) -> list[tuple[Entry, ...]]:
    """Systems like one of ours, or known on two columns at least."""
    found: dict[tuple[str, str], dict[int, Published]] = {}
    for number, (table, metric) in enumerate(columns):
        for figure in figures(table.source, table.split):
            if figure.metric == metric:
                name = figure.system, figure.source.partition(",")[0]
                found.setdefault(name, {})[number] = figure
    rows = []
    for (system, source), values in found.items():
        if len(values) > 1 or any(figure.model for figure in values.values()):
            entries = [
                Entry(wording.percent(values[number].value), values[number].value)
                if number in values
                else Entry(NOTHING)
                for number in range(len(columns))
            ]
            rows.append((Entry(system), Entry(f"published: {source}"), *entries))
    return rows
