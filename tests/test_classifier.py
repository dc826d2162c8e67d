import tracemalloc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from small_runs import CLASSES, SETTINGS, TEXTS, save_small_run

import capstext
from capstext import classifier as module
from capstext import models, runs
from capstext.classifier import Classifier
from capstext.config import parse
from capstext.errors import CapstextError, UsageError
from capstext.models.text import TextModel

BLANK = ["", "   ", "\t\n", "\u200b", "\u3000"]
ODD = ["film", "zzz qqq", "?", "\x00", "\ud800 film", "电影 很 好", " ".join(["film"] * 100)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "run"
    save_small_run(folder)
    return folder


@pytest.fixture(scope="module")
def classifier(folder: Path) -> Classifier:
    return Classifier.load(folder, device="cpu")


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> Classifier:
    folder = tmp_path_factory.mktemp("runs") / "several"
    save_small_run(folder, multi_label=True)
    return Classifier.load(folder)


def answers(classifier: Classifier, texts: list[str], **options: bool) -> list[module.Answer]:
    return [answer for _, answer in classifier.stream(texts, text=str, **options)]


def test_the_package_offers_the_classifier(folder: Path) -> None:
    assert capstext.Classifier is Classifier
    assert capstext.__version__
    with pytest.raises(AttributeError, match="Klassifier"):
        _ = capstext.Klassifier


def test_a_label_is_the_class_of_the_highest_score(classifier: Classifier) -> None:
    scores = classifier.predict_proba(TEXTS)
    assert scores.shape == (len(TEXTS), len(CLASSES))
    np.testing.assert_allclose(scores.sum(axis=1), 1, atol=1e-6)
    assert classifier.predict(TEXTS) == [CLASSES[place] for place in scores.argmax(axis=1)]
    assert classifier.classes == CLASSES


def test_several_labels_are_those_that_reach_the_threshold(several: Classifier) -> None:
    scores = several.predict_proba(TEXTS)
    threshold = float(np.median(scores))
    found = several.predict(TEXTS, threshold=threshold)
    assert found == [
        [name for name, score in zip(CLASSES, row, strict=True) if score >= threshold] for row in scores
    ]
    assert several.predict(TEXTS, threshold=1.1) == [[], [], [], []]


def test_no_texts_get_no_answers(classifier: Classifier) -> None:
    assert classifier.predict([]) == []
    assert classifier.predict_proba([]).shape == (0, len(CLASSES))


def test_one_text_instead_of_a_list_is_refused(classifier: Classifier) -> None:
    with pytest.raises(TypeError, match="put it in a list"):
        classifier.predict("a film")


@pytest.mark.parametrize("value", [None, float("nan"), 3, b"film"])
def test_what_is_no_text_is_refused(classifier: Classifier, value: object) -> None:
    with pytest.raises(TypeError, match="expected texts"):
        classifier.predict(["a film", value])


def test_a_text_scores_the_same_alone_and_in_any_batch(
    classifier: Classifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = [*TEXTS, *ODD, *BLANK] * 3
    alone = np.concatenate([classifier.predict_proba([text]) for text in texts])
    assert np.ptp(alone, axis=0).max() > 0.01
    for tokens in (1, 20, 100_000):
        monkeypatch.setitem(module.BATCH_TOKENS, "cpu", tokens)
        np.testing.assert_allclose(classifier.predict_proba(texts), alone, atol=1e-5)


def test_order_is_kept_over_windows_and_threads(
    classifier: Classifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FIRST_WINDOW", 1)
    monkeypatch.setattr(module, "WINDOW", 8)
    monkeypatch.setitem(module.BATCH_TOKENS, "cpu", 40)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    texts = [" ".join(TEXTS[place % 4].split()[: 1 + place % 7]) for place in range(100)]
    expected = {text: classifier.predict_proba([text])[0] for text in texts}
    pairs = list(classifier.stream(enumerate(texts), text=lambda item: item[1]))
    assert [item for item, _ in pairs] == list(enumerate(texts))
    for (_, text), answer in pairs:
        np.testing.assert_allclose(answer.scores, expected[text], atol=1e-5)


def test_threads_are_given_back(classifier: Classifier) -> None:
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        classifier.predict(TEXTS)
        with ThreadPoolExecutor() as later:
            assert later.submit(torch.get_num_threads).result() == torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_a_blank_text_gets_the_class_prior_and_is_flagged(classifier: Classifier) -> None:
    prior = [2 / 9, 3 / 9, 4 / 9]
    for answer in answers(classifier, BLANK):
        np.testing.assert_allclose(answer.scores, prior, atol=1e-6)
        assert answer.empty
    assert not any(answer.empty for answer in answers(classifier, [*TEXTS, "zzz"]))


def test_odd_texts_have_defined_scores(classifier: Classifier) -> None:
    assert np.isfinite(classifier.predict_proba(ODD)).all()


def test_long_texts_are_cut_at_the_models_length(classifier: Classifier) -> None:
    texts = [" ".join(["film"] * length) for length in (15, 16, 17, 5000)]
    found = answers(classifier, texts)
    assert [answer.cut for answer in found] == [False, False, True, True]
    np.testing.assert_allclose(found[3].scores, found[1].scores, atol=1e-5)


def test_texts_of_just_the_models_length_are_not_taken_for_cut(classifier: Classifier) -> None:
    full = " ".join(["film"] * 16)
    assert [answer.cut for answer in answers(classifier, [full, full + " film", "film", full])] == [
        *(False, True, False, False),
    ]


def test_rows_before_a_fault_are_answered(classifier: Classifier) -> None:
    def rows() -> Iterator[str]:
        yield from TEXTS * 40
        raise CapstextError("rows.txt:161: bad")

    found = []
    with pytest.raises(CapstextError, match="161"):
        found.extend(classifier.stream(rows(), text=str))
    assert len(found) == 160


def test_reading_stays_a_few_windows_ahead(classifier: Classifier, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WINDOW", 64)
    drawn = 0

    def rows() -> Iterator[str]:
        nonlocal drawn
        while True:
            drawn += 1
            yield "a film"

    stream = classifier.stream(rows(), text=str)
    for answered in range(1, 500):
        next(stream)
        assert drawn <= answered + 3 * 64
    stream.close()


def test_long_texts_make_small_windows(classifier: Classifier, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WINDOW_CHARACTERS", 1000)
    windows = list(module._windows(["x" * 400] * 10, str))
    assert [len(window) for window in windows] == [3, 3, 3, 1]


def test_memory_does_not_grow_with_the_number_of_texts(
    classifier: Classifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "WINDOW", 256)

    def peak(count: int) -> int:
        tracemalloc.start()
        for _ in classifier.stream((f"{TEXTS[place % 4]} {place}" for place in range(count)), text=str):
            pass
        size = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return size

    assert peak(4000) < 1.3 * peak(1000)


def test_answers_that_are_no_numbers_are_an_error(folder: Path) -> None:
    broken = Classifier.load(folder)
    broken.run.model.calibration.scale.fill_(float("nan"))
    with pytest.raises(CapstextError, match="not numbers"):
        broken.predict(TEXTS)


def test_words_add_up_in_the_stream_as_alone(classifier: Classifier) -> None:
    for text, answer in zip(TEXTS, answers(classifier, TEXTS, explain=True), strict=True):
        label = CLASSES[int(answer.scores.argmax())]
        alone = classifier.explain(text, label)
        assert [word.text for word in answer.words] == text.split()
        assert [word.text for word in alone] == text.split()
        np.testing.assert_allclose(
            [word.relevance for word in answer.words], [word.relevance for word in alone], atol=1e-4
        )


def test_words_of_a_cut_text_are_those_that_were_read(classifier: Classifier) -> None:
    text = " ".join(["film"] * 30)
    assert len(answers(classifier, [text], explain=True)[0].words) == 16
    assert classifier.explain("", "good") == []


@pytest.mark.parametrize(("device", "message"), [("gpu", "unknown device gpu"), ("cuda", "finds no GPU")])
def test_a_device_that_is_not_there_is_refused(
    folder: Path, device: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(UsageError, match=message):
        Classifier.load(folder, device=device)
    assert Classifier.load(folder, device="auto").run.model.calibration.prior.device.type == "cpu"


@pytest.fixture(scope="module")
def contextual(tmp_path_factory: pytest.TempPathFactory) -> Classifier:
    """A transformer's outputs under Capsule-A, with a tokenizer that adds special tokens."""
    from tokenizers import Tokenizer, pre_tokenizers, processors
    from tokenizers import models as token_models

    from capstext.encoders import TransformerEmbedding

    folder = tmp_path_factory.mktemp("runs") / "contextual"
    vocabulary = [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        *sorted({word for text in TEXTS for word in text.split()}),
    ]
    tokenizer = Tokenizer(
        token_models.WordLevel({word: place for place, word in enumerate(vocabulary)}, "[UNK]")
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer.add_special_tokens(vocabulary[:4])
    config = parse(SETTINGS | {"embeddings": {"mode": "frozen"}})
    torch.manual_seed(0)
    encoder = {"model_type": "bert", "vocab_size": len(vocabulary), "hidden_size": 16, "num_hidden_layers": 1}
    encoder |= {"num_attention_heads": 2, "intermediate_size": 16, "max_position_embeddings": 20}
    embedding = TransformerEmbedding(config=encoder, trained=False)
    network = models.build_network(config, in_dim=embedding.dim, classes=3)
    runs.save(
        folder,
        model=TextModel(embedding=embedding, network=network, classes=3),
        tokenizer=tokenizer,
        config=config,
        classes=CLASSES,
        multi_label=False,
        metrics={},
        card="",
    )
    return Classifier.load(folder)


def test_a_transformers_run_answers_alike_alone_and_in_a_batch(contextual: Classifier) -> None:
    texts = [*TEXTS, "film", " ".join(["film"] * 40), ""]
    alone = np.concatenate([contextual.predict_proba([text]) for text in texts])
    np.testing.assert_allclose(contextual.predict_proba(texts), alone, atol=1e-5)


def test_special_tokens_are_no_text_and_no_words(contextual: Classifier) -> None:
    blank, short, long = answers(contextual, [" ", "a film", " ".join(["film"] * 40)], explain=True)
    assert (blank.empty, short.empty, long.cut) == (True, False, True)
    assert [word.text for word in short.words] == ["a", "film"]
    assert len(long.words) == 14


def test_transformers_loads_a_transformers_run(contextual: Classifier) -> None:
    from transformers import AutoModelForSequenceClassification

    model = AutoModelForSequenceClassification.from_pretrained(contextual.run.folder)
    ids = torch.tensor([contextual.run.tokenizer.encode(TEXTS[0]).ids])
    with torch.inference_mode():
        expected = contextual.run.model.calibrated(ids, torch.ones_like(ids, dtype=torch.bool))
        torch.testing.assert_close(model(input_ids=ids).logits, expected, rtol=0, atol=1e-6)
