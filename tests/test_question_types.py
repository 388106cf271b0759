"""Question types, by hand and on real questions."""

import hashlib

from helpers.data.question_types import by_type, question_word
from helpers.data.questions import read_questions

FILES = (
    "wikipedia/new_wiki_v1.0.json",
    "amazon/amazon_reviews_v1.0.json",
    "reddit/reddit_v1.0.json",
    "news/newsqa.json",
)
BY_HAND = {
    "what": ("What did she sell?", "In what year was Ada born?", "Can you guess what Ada plays?"),
    "who": ("WHO is it?", "At whose house did they meet, and when?", "To whom did he write?", "Whatever whose-name"),
    "which": ("In which town?",),
    "how": ("How many?", "how old ada abbot"),
    "where": ("Where's Ada?", "Name one other place where Ada lived."),
    "when": ("Ada was born when?",),
    "why": ("Does it say why she left?",),
    "other": ("Is Ada a baker?", "Name the trade of Ada.", "ada abbot trade", "trade ada abbot", "Somehow?", ""),
}
# Of each file the ten questions whose hashes come first, labelled by a reader: sha256 of the text -> type.
READ = {
    "what": """0000aca8ac08 000d07bdd4a6 00149b6bb860 00207c8272c5 00457a8ab36d 005b7f14ed9d 005f4dbef70f 001f98f15133
        0029eebb2d4d 002d8d7d3f81 003c77ca545e 003ea858c76a 0055279aa479 000bef1e2aa6 0015ae071189 001b59aa00bd
        0021be76c581 0028f5157ed0 001361dafdc6 00a63af24fa8 00a756531e50 00b6c5913c9e 00b8f9793d36""",
    "why": "0007d5615a35 000ab9e52ef4",
    "when": "004803626f08",
    "how": "0050a7280a15 001596cfe8f5 001e5b201f02 000a02a21a3b 000fdeea4bac 0011a9579ea9",
    "where": "001296dae8b6 0023b50ca54d",
    "who": "001899591d1c 0004d7a6e30a 001088dc3c51 009838530ce8",
    "which": "003994307f3e",
    "other": "00801d33b11e",
}


def test_types_and_words_by_hand():
    for kind, questions in BY_HAND.items():
        assert by_type(questions) == {kind: [*range(len(questions))]}
    assert question_word("Quiz time! Whose is it?") == "who"
    assert question_word("Is it?") == "is" and question_word("native town Ada") == "other"


def test_question_type_agrees_with_a_reader(shared):
    read, types = {key: kind for kind, keys in READ.items() for key in keys.split()}, {}
    for name in FILES:
        questions = (record.example.question for record in read_questions(shared / "data/qa" / name)[0])
        hashed = {hashlib.sha256(question.encode()).hexdigest()[:12]: question for question in questions}
        keys = sorted(hashed)[:10]
        types |= {keys[n]: kind for kind, numbers in by_type(hashed[key] for key in keys).items() for n in numbers}
    assert set(types) == set(read), "not the questions that were read"
    differ = {key: (read[key], kind) for key, kind in types.items() if read[key] != kind}
    assert len(read) - len(differ) >= 38, f"question: (reader, rule): {differ}"
