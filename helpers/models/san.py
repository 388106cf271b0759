"""A stochastic answer network (Liu, Duh and Gao 2018, arXiv 1804.07888), a head that classifies a pair of texts in
several turns, as MT-DNN has it (Liu et al. 2019, arXiv 1901.11504, section 3, released as module/san.py).

A state that begins as a summary of the second text reads the first, its memory, again and again. Every turn gives
classes, and their mean is the answer.

The released code keeps [CLS] and [SEP] among a text's tokens, and drops features at every step of the head; here only
those of the encoder's output are dropped. It leaves out turns by a factor of 0 or 1/0.9 before their mean, which then
is no distribution; here the mean is over the turns that count.

Shapes: B pairs, P tokens of the memory, Q of the other text, H the encoder's width, T turns, C classes.
"""

import torch
from torch import Tensor, nn
from transformers import AutoConfig, AutoModelForSequenceClassification, PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import SequenceClassifierOutput

from helpers.batches.sequences import text_positions
from helpers.errors import EncoderError
from helpers.models.attention import pool
from helpers.models.dropout import QuickDropout

TURNS, DROP = 5, 0.1  # turns, and the probability that an example's turn is left out in training


class SanConfig(PretrainedConfig):
    """``encoder`` is the configuration of a sequence classifier, of which the encoder is used, and ``dropout`` that of
    the encoder's output."""

    model_type = "san-classifier"
    encoder: dict | None = None
    dropout: float = 0.1


def draw_turns(examples: int, turns: int, drop: float, device: torch.device) -> Tensor:
    """Draw the turns that count in a training step, B×T: each is left out with probability ``drop``, but one of every
    example, drawn at random, counts (stochastic prediction dropout)."""
    counts_BxT = torch.rand(examples, turns, device=device) >= drop
    return counts_BxT.scatter(1, torch.randint(turns, (examples, 1), device=device), True)


def mean_of_turns(logits_BxTxC: Tensor, counts_BxT: Tensor) -> Tensor:
    """Return the logarithm of the mean softmax of the turns that count; B×C, in float32."""
    logs = logits_BxTxC.float().log_softmax(-1).masked_fill(~counts_BxT[:, :, None], -torch.inf)
    return logs.logsumexp(1) - counts_BxT.sum(1, keepdim=True).log()


class AnswerTurns(nn.Module):
    """The head by itself: from the states of both texts to classes."""

    def __init__(self, hidden: int, classes: int, turns: int = TURNS, drop: float = DROP):
        super().__init__()
        self.turns, self.drop = turns, drop
        self.summary = nn.Linear(hidden, 1, bias=False)
        self.bilinear = nn.Linear(hidden, hidden)
        self.update = nn.GRUCell(hidden, hidden)
        self.classes = nn.Linear(4 * hidden, classes)

    def forward(self, start_BxQxH: Tensor, q_BxQ: Tensor, memory_BxPxH: Tensor, p_BxP: Tensor) -> Tensor:
        """Return log-probabilities B×C from the text of the first state, the memory, and which of their tokens are
        real."""
        state_BxH = pool(self.summary(start_BxQxH)[..., 0], start_BxQxH, q_BxQ)
        logits = []
        for _ in range(self.turns):
            scores_BxP = (memory_BxPxH @ self.bilinear(state_BxH)[..., None])[..., 0]
            read_BxH = pool(scores_BxP, memory_BxPxH, p_BxP)
            both = [read_BxH, state_BxH, (read_BxH - state_BxH).abs(), read_BxH * state_BxH]
            logits.append(self.classes(torch.cat(both, -1)))
            state_BxH = self.update(read_BxH, state_BxH)
        examples, device = len(q_BxQ), q_BxQ.device
        counts_BxT = torch.ones(examples, self.turns, dtype=torch.bool, device=device)
        if self.training:
            counts_BxT = draw_turns(examples, self.turns, self.drop, device)
        return mean_of_turns(torch.stack(logits, 1), counts_BxT)


class SanClassifier(PreTrainedModel):
    """An encoder, which is its ``base_model``, and the head. Its logits are log-probabilities."""

    config_class = SanConfig
    base_model_prefix = "encoder"

    def __init__(self, config: SanConfig):
        super().__init__(config)
        classifier = AutoModelForSequenceClassification.from_config(AutoConfig.for_model(**config.encoder))
        self.encoder = classifier.base_model  # a pooler, which other tasks may want, is where the classifier has one
        self.dropout = QuickDropout(config.dropout)
        self.answer = AnswerTurns(classifier.config.hidden_size, config.num_labels)
        self.post_init()

    def forward(self, input_ids: Tensor, attention_mask: Tensor, segment_ids: Tensor, token_type_ids=None, **arguments):
        """Classify padded pairs B×L; ``segment_ids`` are 1 for the first text's tokens and 2 for the second's.
        ``arguments`` go to the encoder. Raises EncoderError where a text stands alone."""
        at_p, p, at_q, q = text_positions(segment_ids)
        if not (p.any(1) & q.any(1)).all():
            raise EncoderError("a stochastic answer network compares two texts, and one stands alone; give pairs")
        if getattr(self.encoder.config, "type_vocab_size", 0):  # others take no token types
            arguments["token_type_ids"] = token_type_ids
        output = self.encoder(input_ids, attention_mask=attention_mask, **arguments)
        states_BxLxH = self.dropout(output.last_hidden_state)
        row = torch.arange(len(input_ids), device=input_ids.device)[:, None]
        logits = self.answer(states_BxLxH[row, at_q], q, states_BxLxH[row, at_p], p)
        return SequenceClassifierOutput(logits=logits, hidden_states=output.hidden_states, attentions=output.attentions)


def with_san(model: PreTrainedModel) -> SanClassifier:
    """Replace a classifier's head by this one, whose weights follow PyTorch's random state. Raises EncoderError where
    the classifier gives a score, which has no distribution."""
    config = model.config
    if config.num_labels < 2:
        raise EncoderError("a stochastic answer network gives classes, not a score; keep the encoder's own head for it")
    labels = {"id2label": config.id2label, "label2id": config.label2id}
    dropout = getattr(config, "hidden_dropout_prob", 0.1)
    wrapped = SanClassifier(SanConfig(encoder=config.to_dict(), dropout=dropout, **labels))
    wrapped.encoder = model.base_model
    return wrapped


AutoConfig.register(SanConfig.model_type, SanConfig)
AutoModelForSequenceClassification.register(SanConfig, SanClassifier)
