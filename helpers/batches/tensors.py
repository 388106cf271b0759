"""Sequences on a device, where padded batches are gathered from them."""

import numpy as np
import torch
from torch import Tensor

from helpers.batches.texts import Sequences

SEGMENTS = (0, 1, 0, 2, 0, 0)  # of the five stretches of a template, and of padding


def upload(values: np.ndarray | Tensor, device: torch.device | str) -> Tensor:
    """``values`` on a device; on a GPU by way of pinned memory, so that the host does not wait for the copy."""
    tensor, device = torch.as_tensor(values), torch.device(device)
    if device.type != "cuda" or tensor.device.type != "cpu":
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)


class SequenceTensors:
    """The token pools on a device, from which padded batches are gathered. B rows (or examples with choices)."""

    def __init__(self, sequences: Sequences, device: torch.device | str = "cpu"):
        template, first, second = sequences.template, sequences.first_texts, sequences.second_texts
        specials = np.asarray([template.padding, *template.before, *template.between, *template.after], np.int32)
        before, between, after = len(template.before), len(template.between), len(template.after)
        firsts = len(specials) + first.starts[sequences.first_text_W]
        seconds = len(specials) + len(first.values) + second.starts[sequences.second_text_W] + sequences.first_W
        counts = (before, sequences.first_count_W, between, sequences.count_W, after)
        self.counts = np.stack(np.broadcast_arrays(*counts), 1).astype(np.int32)
        begins = np.stack(np.broadcast_arrays(1, firsts, 1 + before, seconds, 1 + before + between), 1)
        ends = self.counts.cumsum(1)
        lengths, pairs = ends[:, -1], self.counts[:, 1].astype(np.int64) * self.counts[:, 3]

        def tensor(array) -> Tensor:
            return torch.as_tensor(np.ascontiguousarray(array), device=device)

        self.pool = tensor(np.concatenate([specials, first.values, second.values]))
        self.ends = tensor(ends.astype(np.int32))  # of each stretch in its row, and how far it lies behind in the pool
        self.shift = tensor((begins - ends + self.counts).astype(np.int32))
        self.types, self.segments = tensor([*template.types, 0]), tensor(SEGMENTS)
        self.row_lengths, self.token_start = lengths, np.cumsum(lengths) - lengths  # on the host, as its sizes follow
        self.pair_start = np.cumsum(pairs) - pairs
        self.labels = {name: tensor(values) for name, values in sequences.labels.items()}
        self.labels |= {name: values.long() for name, values in self.labels.items() if not values.is_floating_point()}
        self.choices, self.lengths_cpu = sequences.choices, sequences.lengths_W

    def gather(self, index: np.ndarray) -> dict[str, Tensor]:
        """Padded batch of the rows ``index``: input_ids, attention_mask, token_type_ids and segment_ids (0 special or
        padding, 1 first text, 2 second text), B×L, the labels by name (B), and on the host ``lengths``, each row's
        number of tokens (B), and ``text_lengths``, those of its two texts (B×2). With C choices ``index`` counts
        examples, the inputs are B×C×L, and of lengths there are B·C.

        L is the longest row's length, rounded up to a multiple of 8.
        """
        length = -(-int(self.lengths_cpu[index].max()) // 8) * 8
        chosen = upload(index, self.pool.device)
        rows = (chosen[:, None] * self.choices + torch.arange(self.choices, device=chosen.device)).flatten()
        position = torch.arange(length, device=rows.device, dtype=torch.int32).expand(len(rows), -1).contiguous()
        stretch = torch.searchsorted(self.ends[rows], position, right=True)
        mask = stretch < 5
        source = torch.where(mask, position + self.shift[rows].gather(1, stretch.clamp(max=4)), 0)
        inputs = {
            "input_ids": self.pool[source].long(),
            "attention_mask": mask.long(),
            "token_type_ids": self.types[stretch],
            "segment_ids": self.segments[stretch],
        }
        if self.choices > 1:
            inputs = {name: values.view(-1, self.choices, length) for name, values in inputs.items()}
        lengths = self.counts.reshape(-1, self.choices, 5)[index].reshape(-1, 5)
        known = {"lengths": torch.from_numpy(lengths.sum(1)), "text_lengths": torch.from_numpy(lengths[:, [1, 3]])}
        labels = {name: values[chosen] for name, values in self.labels.items()}
        return {**inputs, **labels, **known}

    def gather_sequences(self, values: Tensor, index: np.ndarray) -> Tensor:
        """The rows of ``values``, one a sequence, on the device of the pools. ``values`` may lie elsewhere."""
        return upload(values[upload(index, values.device)], self.pool.device)

    def gather_tokens(self, flat: Tensor, index: np.ndarray, length: int) -> Tensor:
        """The rows of ``flat``, one value a real token of every row in their order, as B×L, padded with 0, on the
        device of the pools. ``flat`` may lie elsewhere."""
        start, count = upload(np.stack([self.token_start[index], self.row_lengths[index]]), flat.device)[..., None]
        position = torch.arange(length, device=flat.device)[None]
        mask = position < count
        return upload(torch.where(mask, flat[torch.where(mask, start + position, 0)], 0), self.pool.device)

    def gather_pairs(self, flat: Tensor, index: np.ndarray) -> Tensor:
        """The rows of ``flat``, one value for each token of the second text (P) and of the first (Q) of every row, all
        of a second text's token together, as B×P×Q, padded with 0, on the device of the pools."""
        counts = self.counts[index][:, [3, 1]]
        facts = np.column_stack([self.pair_start[index], counts])
        start, count, asked = upload(facts, flat.device).T[..., None, None]
        most = (torch.arange(max(1, int(size)), device=flat.device) for size in counts.max(0))
        p, q = torch.meshgrid(*most, indexing="ij")
        mask = (p < count) & (q < asked)
        return upload(torch.where(mask, flat[torch.where(mask, start + p * asked + q, 0)], 0), self.pool.device)


def rows_of(segment_ids: Tensor, text_lengths: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Positions (B×Q) of the first texts' tokens in a batch (B×L) and which are real, and the same (B×P) of the second
    texts'. Positions that are not real are 0. Without ``text_lengths`` (B×2, on the host) it waits for the device."""
    found = []
    for segment in (1, 2):
        is_text = segment_ids == segment
        count, offset = is_text.sum(1, keepdim=True), is_text.int().argmax(1, keepdim=True)
        longest = int(count.max()) if text_lengths is None else max(text_lengths[:, segment - 1].tolist())
        step = torch.arange(max(1, longest), device=segment_ids.device)
        found += [torch.where(step < count, offset + step, 0), step < count]
    return tuple(found)
