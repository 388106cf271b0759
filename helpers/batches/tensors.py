"""Windows on a device, where padded batches are gathered from them."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from helpers.batches.sequences import Windows


class WindowTensors:
    """The token pools on a device, from which padded batches are gathered."""

    def __init__(self, windows: Windows, device: torch.device | str = "cpu"):
        cls, sep, pad = windows.special_ids
        pools = (np.asarray([cls, sep, pad], np.int32), windows.questions.values, windows.contexts.values)
        as_tensor = lambda array: torch.as_tensor(np.ascontiguousarray(array), device=device)  # noqa: E731
        self.pool = as_tensor(np.concatenate(pools))
        question_start = 3 + windows.questions.starts[windows.question_W]
        context_start = 3 + len(pools[1]) + windows.contexts.starts[windows.context_W] + windows.first_W
        self.question_start, self.context_start = as_tensor(question_start), as_tensor(context_start)
        self.prefix, self.lengths = as_tensor(windows.prefix_W), as_tensor(windows.lengths_W)
        self.lengths_cpu, self.prefix_cpu = windows.lengths_W, windows.prefix_W
        pairs = (windows.prefix_W - 2).astype(np.int64) * windows.count_W
        self.pair_start = as_tensor(np.cumsum(pairs) - pairs)
        self.token_start = as_tensor(np.cumsum(windows.lengths_W, dtype=np.int64) - windows.lengths_W)
        self.start, self.end = as_tensor(windows.start_W).long(), as_tensor(windows.end_W).long()

    def gather(self, index: np.ndarray, multiple_of: int = 8) -> dict[str, torch.Tensor]:
        """Padded batch of the windows ``index``: input_ids, token_type_ids, attention_mask (B×L), start, end (B).

        L is the longest window's length, rounded up to ``multiple_of``.
        """
        length = -(-int(self.lengths_cpu[index].max()) // multiple_of) * multiple_of
        rows = torch.as_tensor(index, device=self.pool.device)
        position = torch.arange(length, device=self.pool.device)[None]
        prefix, total = self.prefix[rows][:, None], self.lengths[rows][:, None]
        source = torch.where(
            position < prefix,
            self.question_start[rows][:, None] + position - 1,
            self.context_start[rows][:, None] + position - prefix,
        )
        source = torch.where(position == 0, 0, source)
        source = torch.where((position == prefix - 1) | (position == total - 1), 1, source)
        mask = position < total
        source = torch.where(mask, source, 2)
        return {
            "input_ids": self.pool[source].long(),
            "token_type_ids": ((position >= prefix) & mask).long(),
            "attention_mask": mask.long(),
            "start": self.start[rows],
            "end": self.end[rows],
        }

    def gather_tokens(self, flat: torch.Tensor, index: np.ndarray, length: int) -> torch.Tensor:
        """The rows of ``flat``, one value a real token of every window in window order, as B×L, padded with 0."""
        rows = torch.as_tensor(index, device=flat.device)
        position = torch.arange(length, device=flat.device)[None]
        mask = position < self.lengths[rows][:, None]
        return torch.where(mask, flat[torch.where(mask, self.token_start[rows][:, None] + position, 0)], 0)

    def gather_pairs(self, flat: torch.Tensor, index: np.ndarray) -> torch.Tensor:
        """The rows of ``flat``, one value for each passage token and question token of every window, passage token
        after passage token, as B×P×Q, padded with 0."""
        rows = torch.as_tensor(index, device=flat.device)
        asked = self.prefix[rows] - 2
        count = self.lengths[rows] - self.prefix[rows] - 1
        most_asked = int(self.prefix_cpu[index].max()) - 2
        most = int((self.lengths_cpu[index] - self.prefix_cpu[index]).max()) - 1
        p, q = torch.arange(max(1, most), device=flat.device), torch.arange(max(1, most_asked), device=flat.device)
        mask = (p[:, None] < count[:, None, None]) & (q < asked[:, None, None])
        place = self.pair_start[rows][:, None, None] + p[:, None] * asked[:, None, None] + q
        return torch.where(mask, flat[torch.where(mask, place, 0)], 0)


def rows_of(attention_mask: Tensor, token_type_ids: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Positions (B×Q) of the question's tokens in windows "[CLS] question [SEP] passage [SEP]" (B×L) and which are
    real, and the same (B×P) of the passage's tokens. Positions that are not real are 0."""
    total = attention_mask.sum(1)
    prefix = total - token_type_ids.sum(1)
    asked, count = prefix - 2, total - prefix - 1
    at_q = 1 + torch.arange(max(1, int(asked.max())), device=total.device)[None].expand(len(total), -1)
    at_p = prefix[:, None] + torch.arange(max(1, int(count.max())), device=total.device)
    q, p = at_q <= asked[:, None], at_p < (total - 1)[:, None]
    return torch.where(q, at_q, 0), q, torch.where(p, at_p, 0), p
