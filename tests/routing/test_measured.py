"""What can be measured without a clock: memory; and that the benchmark and the report run."""

from pathlib import Path

import pytest
import torch

from capstext.benchmarks import routing
from capstext.benchmarks import votes as built


def test_memory_beside_the_input_does_not_grow_with_the_children() -> None:
    few = {
        (point.routing, point.passes): point.peak_bytes
        for point in routing.document_curve(counts=(40_000,), repeats=1)
    }
    for point in routing.document_curve(counts=(160_000,), repeats=1):
        assert point.peak_bytes < 1.1 * few[point.routing, point.passes], point


def test_shared_dynamic_routing_takes_a_fifteenth_of_the_memory_of_built_votes() -> None:
    problems, count, parents, dim = routing.WINDOWS.values()
    children, weights = torch.randn(problems, count, dim), torch.randn(parents, dim, dim)
    ours = routing._passes(routing._ours("dynamic"), children, weights)
    theirs = routing._passes(lambda u, w: built.dynamic(built.shared(u, w)), children, weights)
    for passes in ours:
        assert routing.peak_bytes(theirs[passes]) > 15 * routing.peak_bytes(ours[passes]), passes


def test_the_benchmark_compares_equals(monkeypatch: pytest.MonkeyPatch) -> None:
    """The built votes give the same poses, so the ratios compare the same work."""
    children, weights = torch.randn(3, 7, 4) * 0.5, torch.randn(5, 4, 6) * 0.5
    for name, options in (("dynamic", {}), ("k-means", {"distance": "euclidean"}), ("em", {})):
        ours = routing._ours(name, **options)(children, weights)
        theirs = built.WRITTEN[name](built.shared(children, weights))
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
    full = torch.randn(7, 5, 4, 6) * 0.5
    expected = built.full_by_einsum(children, full)
    for way in built.FULL.values():
        torch.testing.assert_close(way(children, full), expected, rtol=1e-4, atol=1e-5)
    monkeypatch.setattr(routing, "WINDOWS", {"problems": 4, "children": 6, "parents": 3, "dim": 4})
    rows = list(routing.shared_rows(repeats=1))
    assert [(row.routing, row.passes) for row in rows] == [
        (name, passes) for name in ("dynamic", "k-means", "em") for passes in ("forward", "forward+backward")
    ]
    assert all(row.speedup > 0 and row.peak_bytes and row.times_limit for row in rows)


def test_the_report_is_written_with_its_pictures(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from capstext.routing_report import write

    page = write(tmp_path)
    text = page.read_text(encoding="utf-8")
    pictures = sorted(path.name for path in (tmp_path / "routing").iterdir())
    assert pictures == ["alpha.png", "counter-example.png", "loss.png", "settling.png", "shares.png"]
    assert all(f"routing/{name}" in text for name in pictures)


def test_the_benchmark_of_images_compares_equals() -> None:
    """CapsNet gives the same log-odds whichever way its routing is written."""
    from capstext.benchmarks import images

    children = torch.randn(2, 1152, 8) * 0.3
    ours = images._network(images.routing_by_name("dynamic", iterations=images.ITERATIONS)).classes
    for route in built.FULL.values():
        theirs = images._network(images.Written("dynamic", {}, route=route)).classes
        torch.testing.assert_close(ours(children).poses, theirs(children).poses, rtol=1e-4, atol=1e-5)
    rows = images.image_rows(repeats=1, batch=2)
    assert [(row.what, row.beside) for row in rows] == [
        (f"CapsNet, {what}", way) for what in ("capsule layer", "training step") for way in built.FULL
    ]
    assert all(row.speedup > 0 and row.peak_bytes > 0 and row.beside_peak_bytes > 0 for row in rows)
