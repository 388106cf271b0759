"""The miniature world: small question-answering domains about invented people, towns and companies."""

from helpers.data.mini.domains import DOMAINS, TEST, adversarial, candidates, load_domain
from helpers.data.mini.stories import STORIES
from helpers.data.mini.words import RELATIONS, STYLES, pools
from helpers.data.mini.world import chains, passage

__all__ = [
    "DOMAINS",
    "RELATIONS",
    "STORIES",
    "STYLES",
    "TEST",
    "adversarial",
    "candidates",
    "chains",
    "load_domain",
    "passage",
    "pools",
]
