"""Small files of tasks for tests, as GLUE, CODAH and SWAG have them."""

PARSES = "sentence1_binary_parse\tsentence2_binary_parse\tsentence1_parse\tsentence2_parse"
MNLI = f"index\tpromptID\tpairID\tgenre\t{PARSES}\tsentence1\tsentence2"
MNLI_ROW = "{n}\t1\t1c\tslate\t( a )\t( b )\t(a)\t(b)\t{first}\t{second}"
STSB = "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2"
STSB_ROW = "{n}\tnews\tfile\t2012\t1\tnone\tnone\t{first}\t{second}"
PAIR_TEST = ("index\tsentence1\tsentence2", "{n}\t{first}\t{second}")
PAIR = (f"{PAIR_TEST[0]}\tlabel", f"{PAIR_TEST[1]}\t{{label}}")
MRPC, MRPC_ROW = "#1 ID\t#2 ID\t#1 String\t#2 String", "1\t2\t{first}\t{second}"
INFERENCE, ENTAILMENT = ("entailment", "neutral", "contradiction"), "entailment not_entailment"
# The header and a row of train and dev, then those of test, and the labels as the files write them, in their order.
QQP = "question1\tquestion2"
TEXTS = "{first}\t{second}"
LAYOUTS = {
    "CoLA": ("", "gj04\t{label}\t*\t{first}", "index\tsentence", "{n}\t{first}", "0 1"),
    "SST-2": ("sentence\tlabel", "{first}\t{label}", "index\tsentence", "{n}\t{first}", "0 1"),
    "MRPC": (f"\ufeffQuality\t{MRPC}", f"{{label}}\t{MRPC_ROW}", f"index\t{MRPC}", f"{{n}}\t{MRPC_ROW}", "0 1"),
    "STS-B": (f"{STSB}\tscore", f"{STSB_ROW}\t{{label}}", STSB, STSB_ROW, "0.000 2.250 5.000"),
    "QQP": (
        f"id\tx\ty\t{QQP}\tis_duplicate",
        f"{{n}}\t1\t2\t{TEXTS}\t{{label}}",
        f"id\t{QQP}",
        f"{{n}}\t{TEXTS}",
        "0 1",
    ),
    "MNLI": (f"{MNLI}\tlabel1\tgold_label", f"{MNLI_ROW}\tneutral\t{{label}}", MNLI, MNLI_ROW, " ".join(INFERENCE)),
    "QNLI": ("index\tquestion\tsentence\tlabel", PAIR[1], "index\tquestion\tsentence", PAIR_TEST[1], ENTAILMENT),
    "RTE": (*PAIR, *PAIR_TEST, ENTAILMENT),
    "WNLI": (*PAIR, *PAIR_TEST, "0 1"),
}
CODAH = 'o\tThe "driver {n} stopped. He\twalked.\tran.\tsat.\tslept.\t{right}\n'
SWAG = "video-id,fold-ind,startphrase,sent1,sent2,gold-source,ending0,ending1,ending2,ending3,label\n"
SWAG_ROW = 'v,1,"The driver, {n}, stopped. He",a,b,gold,walked.,ran.,sat.,slept.,{right}\n'


def write(path, header, row, size, labels=("",), begin="text"):
    """A table of ``size`` rows; every text begins with a quote that nothing closes."""
    lines = [header] if header else []
    for n in range(size):
        texts = {"first": f'"{begin} {n} says so', "second": f"other {n}"}
        lines.append(row.format(n=n, label=labels[n % len(labels)], **texts))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_task(folder, name, train=60, dev=30, test=5):
    """The official files of a task of GLUE, those of MNLI's other genres too."""
    header, row, test_header, test_row, labels = LAYOUTS[name]
    variants = ("_matched", "_mismatched") if name == "MNLI" else ("",)
    write(folder / "train.tsv", header, row, train, labels.split())
    for variant in variants:
        write(folder / f"dev{variant}.tsv", header, row, dev, labels.split(), f"dev{variant}")
        write(folder / f"test{variant}.tsv", test_header, test_row, test, begin=f"test{variant}")


def write_choices(folder, header, row, **sizes):
    folder.mkdir(parents=True, exist_ok=True)
    for name, size in sizes.items():
        rows = (row.format(n=f"{name} {n}", right=n % 4) for n in range(size))
        (folder / name.replace("_", ".")).write_text(header + "".join(rows))
