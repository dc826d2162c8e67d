import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from small_runs import CLASSES, TEXTS, save_small_run

from capstext import Classifier, runs
from capstext.routing import ROUTINGS

LONG = " ".join(["film"] * 40)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "run"
    save_small_run(folder)
    return folder


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "several"
    save_small_run(folder, multi_label=True)
    return folder


def python(code: str, *arguments: object) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def by_class(answers: list[list[dict[str, object]]]) -> np.ndarray:
    return np.array([[{a["label"]: a["score"] for a in row}[name] for name in CLASSES] for row in answers])


def test_importing_capstext_imports_nothing_heavy() -> None:
    code = """
import sys, capstext
print([name for name in ("torch", "transformers", "numpy", "yaml") if name in sys.modules])
"""
    assert python(code) == "[]"


def test_a_classifier_needs_no_training_stack(folder: Path) -> None:
    code = """
import sys
from capstext import Classifier
Classifier.load(sys.argv[1]).predict(["a film"])
names = ("transformers", "datasets", "sklearn", "pandas", "scipy", "sympy", "sentencepiece", "pyarrow")
print([name for name in names if name in sys.modules])
"""
    assert python(code, folder) == "[]"


@pytest.mark.parametrize(
    "imports",
    [
        "import capstext\nfrom transformers import pipeline",
        "from transformers import pipeline\nimport capstext",
        "import transformers, capstext\nfrom transformers import pipeline",
    ],
    ids=["capstext first", "transformers first", "between"],
)
def test_a_pipeline_finds_the_model_in_either_order_of_imports(folder: Path, imports: str) -> None:
    code = f"{imports}\nimport sys\nprint(pipeline('text-classification', model=sys.argv[1])('a warm film'))"
    label = Classifier.load(folder).predict(["a warm film"])[0]
    assert f"'label': '{label}'" in python(code, folder)


@pytest.mark.parametrize("name", ["AutoConfig", "AutoTokenizer", "AutoModelForSequenceClassification"])
def test_each_auto_class_alone_knows_a_run(folder: Path, name: str) -> None:
    code = f"""
import sys, capstext
from transformers import {name}
print(type({name}.from_pretrained(sys.argv[1])).__name__)
"""
    expected = {
        "AutoConfig": "CapstextConfig",
        "AutoTokenizer": "TokenizersBackend",
        "AutoModelForSequenceClassification": "CapstextForSequenceClassification",
    }
    assert python(code, folder) == expected[name]


def test_logits_are_the_runs_calibrated_log_odds(folder: Path) -> None:
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    model = AutoModelForSequenceClassification.from_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    batch = tokenizer(TEXTS, padding=True, return_tensors="pt")
    ours = runs.load(folder).model
    with torch.inference_mode():
        expected = ours.calibrated(batch["input_ids"], batch["attention_mask"].bool())
        output = model(**batch, labels=torch.tensor([0, 1, 2, 0]))
    torch.testing.assert_close(output.logits, expected, rtol=0, atol=1e-5)
    expected_loss = torch.nn.functional.cross_entropy(expected, torch.tensor([0, 1, 2, 0]))
    torch.testing.assert_close(output.loss, expected_loss)
    assert model.config.id2label == dict(enumerate(CLASSES))
    assert model.state_dict().keys() == ours.state_dict().keys()
    assert all(torch.equal(tensor, ours.state_dict()[name]) for name, tensor in model.state_dict().items())


@pytest.mark.parametrize("routing", ROUTINGS)
def test_a_run_of_every_routing_loads_here_and_there(tmp_path: Path, routing: str) -> None:
    from transformers import AutoModelForSequenceClassification

    saved = save_small_run(tmp_path, routing=routing)
    ids = torch.tensor([[2, 3, 4, 5, 6], [7, 8, 9, 0, 0]])
    with torch.inference_mode():
        expected = saved.calibrated(ids, ids != 0)
        ours = runs.load(tmp_path).model.calibrated(ids, ids != 0)
        theirs = AutoModelForSequenceClassification.from_pretrained(tmp_path)(ids, ids != 0).logits
    torch.testing.assert_close(ours, expected, rtol=0, atol=1e-5)
    torch.testing.assert_close(theirs, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("batch_size", [1, 6])
def test_a_pipeline_scores_as_the_classifier_does(folder: Path, batch_size: int) -> None:
    from transformers import pipeline

    texts = [*TEXTS, "", LONG]
    answers = pipeline("text-classification", model=str(folder), top_k=None)(texts, batch_size=batch_size)
    np.testing.assert_allclose(by_class(answers), Classifier.load(folder).predict_proba(texts), atol=1e-5)


def test_a_pipeline_scores_labels_one_by_one_where_there_are_several(several: Path) -> None:
    from transformers import pipeline

    answers = pipeline("text-classification", model=str(several), top_k=None)(TEXTS)
    expected = Classifier.load(several).predict_proba(TEXTS)
    np.testing.assert_allclose(by_class(answers), expected, atol=1e-5)
    assert (abs(expected.sum(axis=1) - 1) > 1e-3).any()


def test_several_labels_have_their_loss(several: Path) -> None:
    from transformers import AutoModelForSequenceClassification

    model = AutoModelForSequenceClassification.from_pretrained(several)
    ids, labels = torch.tensor([[2, 3, 4]]), torch.tensor([[1, 0, 1]])
    with torch.inference_mode():
        output = model(input_ids=ids, labels=labels)
    expected = torch.nn.functional.binary_cross_entropy_with_logits(output.logits, labels.float())
    torch.testing.assert_close(output.loss, expected)


def test_save_pretrained_goes_round(folder: Path, tmp_path: Path) -> None:
    from transformers import AutoModelForSequenceClassification

    first = AutoModelForSequenceClassification.from_pretrained(folder)
    first.save_pretrained(tmp_path)
    second = AutoModelForSequenceClassification.from_pretrained(tmp_path)
    ids = torch.tensor([[2, 3, 4, 5], [6, 7, 0, 0]])
    with torch.inference_mode():
        torch.testing.assert_close(
            first(ids, ids != 0).logits, second(ids, ids != 0).logits, rtol=0, atol=1e-5
        )
    for name, tensor in first.state_dict().items():
        assert torch.equal(tensor, second.state_dict()[name]), name


def test_gradients_flow_through_the_adapter(folder: Path) -> None:
    from transformers import AutoModelForSequenceClassification

    model = AutoModelForSequenceClassification.from_pretrained(folder).train()
    model(input_ids=torch.tensor([[2, 3, 4]]), labels=torch.tensor([1])).loss.backward()
    assert model.embedding.trained.grad.abs().sum() > 0
