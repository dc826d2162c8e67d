import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from torch import nn

from capstext import explain
from capstext.explain import Word, relevances, words
from capstext.models.text import TextModel

torch.set_num_threads(1)


class Lookup(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim
        self.table = nn.Embedding(20, dim)

    def forward(self, ids, mask):
        return self.table(ids) * mask.unsqueeze(-1)


class Sum(nn.Module):
    """Log-odds that are a sum over the tokens, so that each token's part is known."""

    def __init__(self, dim, classes):
        super().__init__()
        self.linear = nn.Linear(dim, classes)

    def forward(self, embedded, mask):
        return self.linear(embedded.sum(1))


class Neighbours(nn.Module):
    """Log-odds in which neighbouring tokens interact, with dropout as a trap."""

    def __init__(self, dim, classes):
        super().__init__()
        self.convolution = nn.Conv1d(dim, 8, 3, padding=1)
        self.dropout = nn.Dropout(0.5)
        self.linear = nn.Linear(8, classes)

    def forward(self, embedded, mask):
        features = self.convolution(embedded.mT).relu().mT * mask.unsqueeze(-1)
        return self.linear(self.dropout(features).sum(1))


def build(network, *, dim=6, classes=3):
    torch.manual_seed(0)
    return TextModel(embedding=Lookup(dim), network=network(dim, classes), classes=classes).eval()


@pytest.fixture
def batch():
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(1, 20, (3, 7), generator=generator)
    mask = torch.arange(7) < torch.tensor([[7], [4], [1]])
    return ids * mask, mask, torch.tensor([2, 0, 1])


def test_tokens_of_a_sum_get_exactly_their_part(batch):
    ids, mask, target = batch
    model = build(Sum)
    parts = model.embedding(ids, mask) @ model.network.linear.weight.T
    expected = parts.gather(2, target[:, None, None].expand(-1, 7, 1)).squeeze(2)
    torch.testing.assert_close(relevances(model, ids, mask, target), expected.detach(), atol=1e-5, rtol=1e-5)


def test_relevance_is_the_fall_without_the_token_one_by_one(batch):
    ids, mask, target = batch
    model = build(Neighbours)
    found = relevances(model, ids, mask, target)
    for row in range(3):
        embedded = model.embedding(ids, mask)[row : row + 1]
        whole = model.network(embedded, mask[row : row + 1])[0, target[row]]
        for place in range(int(mask[row].sum())):
            without = embedded.clone()
            without[0, place] = 0
            left = model.network(without, mask[row : row + 1])[0, target[row]]
            assert found[row, place].item() == pytest.approx((whole - left).item(), abs=1e-5)


def test_padding_has_no_relevance(batch):
    ids, mask, target = batch
    found = relevances(build(Neighbours), ids, mask, target)
    assert not found[~mask].any()
    assert found[mask].all()


@pytest.mark.parametrize("block_tokens", [1, 20, 50])
def test_blocks_agree_with_one_pass(batch, block_tokens, monkeypatch):
    model = build(Neighbours)
    expected = relevances(model, *batch)
    monkeypatch.setattr(explain, "BLOCK_TOKENS", block_tokens)
    torch.testing.assert_close(relevances(model, *batch), expected)


def test_a_model_in_training_is_explained_without_dropout_and_goes_on_training(batch):
    model = build(Neighbours)
    expected = relevances(model, *batch)
    model.train()
    torch.testing.assert_close(relevances(model, *batch), expected)
    assert model.training
    assert all(parameter.grad is None for parameter in model.parameters())


def test_a_batch_without_tokens_has_no_relevance():
    found = relevances(build(Sum), torch.zeros(2, 3).long(), torch.zeros(2, 3).bool(), torch.tensor([0, 1]))
    assert found.shape == (2, 3)
    assert not found.any()


def test_words_are_spans_of_the_original_text():
    text = "A  GOOD film."
    found = words(text, [(0, 1), (3, 7), (8, 12), (12, 13)], [0.1, 0.5, 0.2, 0.0])
    assert [word.text for word in found] == ["A", "GOOD", "film", "."]
    assert all(text[word.start : word.end] == word.text for word in found)
    assert found[1] == Word("GOOD", 3, 7, 0.5)


def test_pieces_of_a_word_add_up():
    found = words(
        "unwatchable, isn't it", [(0, 2), (2, 7), (7, 11), (11, 12), (13, 15), (15, 18), (19, 21)], [1] * 7
    )
    assert [(word.text, word.relevance) for word in found] == [
        ("unwatchable", 3),
        (",", 1),
        ("isn't", 2),
        ("it", 1),
    ]


def test_pieces_that_carry_their_space_stay_apart():
    found = words("very good", [(0, 4), (4, 9)], [1.0, 2.0])
    assert found == [Word("very", 0, 4, 1.0), Word("good", 5, 9, 2.0)]


def test_special_tokens_have_no_word():
    assert words("good", [(0, 0), (0, 4), (0, 0)], [9.0, 1.0, 9.0]) == [Word("good", 0, 4, 1.0)]
    assert words("", [], []) == []


def test_chinese_tokens_stay_apart():
    assert [word.text for word in words("很好看", [(0, 1), (1, 3)], [1.0, 2.0])] == ["很", "好看"]


def test_bytes_of_one_letter_are_one_word():
    assert words("é!", [(0, 1), (0, 1), (1, 2)], [1.0, 2.0, 0.5]) == [
        Word("é", 0, 1, 3.0),
        Word("!", 1, 2, 0.5),
    ]


def test_offsets_of_a_real_tokenizer_fit():
    tokenizer = Tokenizer(models.WordLevel({"<unk>": 0, "good": 1}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    text = "so good, naïve 😀 film"
    encoding = tokenizer.encode(text)
    found = words(text, encoding.offsets, [1.0] * len(encoding.ids))
    assert [word.text for word in found] == ["so", "good", ",", "naïve", "😀", "film"]


def test_offsets_and_relevances_must_match():
    with pytest.raises(ValueError, match="shorter"):
        words("a b", [(0, 1), (2, 3)], [1.0])
