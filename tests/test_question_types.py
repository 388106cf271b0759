"""Question types, by hand."""

from helpers.data.question_types import by_type, question_word

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


def test_types_and_words_by_hand():
    for kind, questions in BY_HAND.items():
        assert by_type(questions) == {kind: [*range(len(questions))]}
    assert question_word("Quiz time! Whose is it?") == "who"
    assert question_word("Is it?") == "is" and question_word("native town Ada") == "other"
