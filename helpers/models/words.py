"""Vectors of word pieces from their letters and as words, and a recurrent layer that does not read padding."""

import torch
from torch import Tensor, nn

LETTERS = 16  # of a word piece that are read


class Recurrent(nn.Module):
    """A bidirectional LSTM that never reads padding: values B×N×in and mask B×N to B×N×(2 * hidden).

    The backward half reads each row reversed within its own length, which spares packing and so, on a CPU, half the
    time. What stands at masked positions is of no account. Computed in float32.
    """

    def __init__(self, width: int, hidden: int):
        super().__init__()
        self.ahead, self.back = (nn.LSTM(width, hidden, batch_first=True) for _ in range(2))

    def forward(self, values: Tensor, mask: Tensor) -> Tensor:
        size = mask.shape[1]
        place = (mask.sum(1)[:, None] - 1 - torch.arange(size, device=mask.device)) % size

        def turned(rows: Tensor) -> Tensor:
            return rows.gather(1, place[..., None].expand(-1, -1, rows.shape[2]))

        with torch.autocast(values.device.type, enabled=False):
            values = values.float()
            return torch.cat([self.ahead(values)[0], turned(self.back(turned(values))[0])], -1)


class Words(nn.Module):
    """Vectors of word pieces: the word's, given (and then fixed) or learned, and one made of its letters."""

    def __init__(self, vocab_size: int, word_width: int, letter_width: int, given: bool):
        super().__init__()
        self.learned = nn.Embedding(vocab_size, word_width)
        self.letters = nn.Embedding(256, letter_width, padding_idx=0)
        self.speller = Recurrent(letter_width, letter_width // 2)
        self.register_buffer("spelling", torch.zeros(vocab_size, LETTERS, dtype=torch.uint8))
        rows = vocab_size if given else 0
        self.register_buffer("given", torch.zeros(rows, word_width))
        self.register_buffer("is_given", torch.zeros(rows, dtype=torch.bool))
        self.width = word_width + 2 * (letter_width // 2)

    def forward(self, *ids: Tensor) -> list[Tensor]:
        """The vectors of each of ``ids`` (B×N), spelling every distinct word once."""
        distinct, place = torch.cat([one.flatten() for one in ids]).unique(return_inverse=True)
        vectors = self.learned(distinct)
        if len(self.given):
            vectors = torch.where(self.is_given[distinct, None], self.given[distinct], vectors)
        spelling = self.spelling[distinct].long()
        is_letter = spelling > 0
        is_letter[:, 0] = True  # a word of no letters has one, of value 0
        spelt = self.speller(self.letters(spelling), is_letter)
        spelt = spelt.masked_fill(~is_letter[..., None], torch.finfo(spelt.dtype).min).amax(1)
        flat = torch.cat([vectors, spelt], -1)[place]
        return [part.view(*one.shape, -1) for one, part in zip(ids, flat.split([i.numel() for i in ids]), strict=True)]
