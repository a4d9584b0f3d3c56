#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""words.py [--self-test | TREE...]: whether names, comments and texts use the field's words.

docs/glossary.md has the words. The check finds retired words in identifiers, comments,
strings and pages, of C, Python, shell and CMake; in comments of C also sentences that open
with a headless clause ("What came ..."), and long ones without a verb; sources that do not
begin with what they are; and texts of failed allocations without their bytes.
"""
import collections
import io
import os
import re
import sys
import tokenize

TREES = ["include", "src", "python", "adapters", "tools", "examples", "tests", "bench", "docs", "scripts", ".ci",
         "cmake", "CMakeLists.txt", "Makefile", "README.md", "CONTRIBUTING.md", "SECURITY.md"]

# Pages and sources that name the retired words themselves.
EXEMPT = {"docs/glossary.md", "tests/words.py"}
SOURCES = (".c", ".h", ".cu", ".cuh")
PAGES = (".md",)
SCRIPTS = (".sh", ".cmake", "CMakeLists.txt", "Makefile")  # and files without a suffix: "#!"

# Bytes of peers, and texts of programs that are not ours.
NOT_OURS = "tests/fuzz/corpus"

# Words that a tree uses in the field's own sense, or because another tree declares the name.
ALLOWED = {
    "bench/results/soft-roce.md": {"guest"},  # of a hypervisor
    "tests/rxe": {"guest", "tell"},  # of a hypervisor, and of files of Python
    ".ci/run": {"guest"},
    "src/base/config_table.c": {"near"},  # ORIEL_PROXY_NEAR
    "src/base/config.h": {"near"},
    "src/rdma/rdma_proxy_thread.c": {"near"},
    "tests/fuzz/config_fuzz.c": {"near"},
    # The folder adapters/ joins Oriel to other libraries.
    "CMakeLists.txt": {"adapters"},
    "cmake/oriel_install.cmake": {"adapters"},
    "docs/pytorch.md": {"adapters"},
    "scripts/check-torch": {"adapters"},
    "scripts/gpu-check": {"adapters"},
    "adapters/torch": {"adapters"},
    "docs/architecture.md": {"adapters"},
    "docs/launch.md": {"adapters"},
    "tests/layers.py": {"adapters"},
    "tests/CMakeLists.txt": {"adapters"},
    "tests/versions.cmake": {"adapters"},
    "tests/snippets.py": {"adapters"},
}

# A retired part of an identifier, and the word that replaces it.
RETIRED_NAMES = {
    "hub": "context", "hubs": "contexts", "door": "control socket", "doors": "control sockets",
    "knock": "probe", "stranger": "unproven connection", "strangers": "unproven connections",
    "guest": "pending connection", "guests": "pending connections", "mail": "message",
    "tell": "write_flag, write_imm or report", "tells": "reports", "teller": "ringing",
    "told": "notified", "aside": "eager buffer", "kept": "unexpected message",
    "desk": "local control", "board": "remote control", "near": "local, intranode or inline",
    "far": "remote or internode", "tally": "loopback counter", "tallies": "loopback counters",
    "pulse": "heartbeat", "crew": "copy group", "crews": "copy groups",
    "doubling": "bruck", "portion": "length and displacement",
    "portions": "lengths and displacements", "adapter": "nic or hca", "adapters": "nics or hcas",
    "gone": "exited, closed, ended or expired", "nobody": "the actor, or a passive",
}

# The same in sentences, where some of these words are also plain English.
RETIRED_PROSE = [
    (r"hubs?", "context"), (r"doors?", "control socket"), (r"knocks?", "probe"),
    (r"strangers?", "unproven connection"), (r"guests?", "pending connection"),
    (r"crews?", "copy group"), (r"tall(?:y|ies)", "loopback counter"),
    (r"pulses?", "heartbeat"), (r"in vain", "without success, or what failed"),
    (r"gone", "exited, was closed or was destroyed"), (r"at hand", "fast path"),
    (r"tells", "reports, notifies or writes"), (r"adapters?", "NIC, HCA or software HCA"),
    (r"nobody", "the actor, or a passive"),
    (r"who (?:posts|comes|asks|waits|sends|calls)", "the initiator, sender or caller"),
    (r"somebody", "a thread, process or rank"), (r"he|him|his", "it, or the actor's name"),
]
PROSE = [(re.compile(rf"\b(?:{pattern})\b", re.IGNORECASE), use) for pattern, use in RETIRED_PROSE]

HEADLESS = re.compile(
    r"^(What|Who|Whoever|Whatever|Whose|Whom|Which|Of(?! course))\b(?![^.:;]*\?)")

# Words that make a sentence out of a long line: those a reader of this tree meets, and endings.
VERBS = set("""
is are was were be been being has have had do does did may might must can could shall should will
would need let get put make take give go come keep hold say see know find read write send post
poll wait run use set add pass fail end begin start stop open close map copy move call return
become mean lie stand stay leave lose win know show break build cost cover fit hit cut split bring
follow join meet match try want work own serve answer accept allow apply ask assume belong check
clear compare complete connect contain count create decide depend destroy drain drop enter exist
expect export fall flush free grow happen ignore import insert join last learn limit link load
lock look matter name notice order overlap own parse point print prove raise reach receive record
refuse register reject release remain remove repeat replace report reserve reset resolve restore
retry reuse share signal skip sleep spin start store suffice survive sync test travel unmap
update verify wake wrap
""".split())
VERBAL = re.compile(r"(?:s|ed|ing|n't|en)$")
LONG = 9  # words; shorter comments may be noun phrases, and so may those beside a field

COMMENT = re.compile(r"/\*(.*?)\*/|//([^\n]*)", re.DOTALL)
STRING = re.compile(r'"((?:\\.|[^"\\\n])*)"')
NAME = re.compile(r"\b[A-Za-z_]\w*")
UNCOUNTED = re.compile(r'ori_fail\(\s*ORIEL_ERR_NOMEM,\s*"(?:%s: )?(?:no|out of) memory for')
SENTENCE = re.compile(r"(?<=[.:;?!])\s+(?=[A-Z@])")

Complaint = collections.namedtuple("Complaint", "path line word text")  # @word is retired, or ""


def retired_names(name):
    """Retired parts of the identifier @name."""
    return [part for part in name.lower().split("_") if part in RETIRED_NAMES]


def prose_complaints(path, line, text):
    """Retired words in @text, a comment, a string or a paragraph."""
    for pattern, use in PROSE:
        match = pattern.search(text)
        if match:
            yield Complaint(path, line, match[0].lower(), f"'{match[0]}' is retired: {use}")


def has_verb(sentence):
    words = re.findall(r"[A-Za-z']+", sentence)
    return any(word.lower() in VERBS or VERBAL.search(word.lower()) for word in words)


def sentence_complaints(path, line, text):
    """Headless openings and long sentences without a verb in the comment @text."""
    for sentence in SENTENCE.split(text):
        shown = sentence[:60]
        if HEADLESS.match(sentence):
            yield Complaint(path, line, "", f"headless: '{shown}'")
        elif (len(sentence.split()) >= LONG and sentence[0].isupper()
              and not has_verb(sentence)):
            yield Complaint(path, line, "", f"no verb: '{shown}'")


def comment_text(match):
    """The words of a comment, without its frame."""
    text = match[1] if match[1] is not None else match[2]
    return re.sub(r"\s*\n\s*\*?\s*", " ", text).strip()


def source_complaints(path, text, public=frozenset()):
    """Complaints about the source @text of @path, which does not declare the names @public."""
    def line_of(at):
        return text.count("\n", 0, at) + 1

    bare = list(text)
    for match in COMMENT.finditer(text):
        words = comment_text(match)
        yield from prose_complaints(path, line_of(match.start()), words)
        yield from sentence_complaints(path, line_of(match.start()), words)
        bare[match.start():match.end()] = " " * (match.end() - match.start())
    code = "".join(bare)
    for match in STRING.finditer(code):
        yield from prose_complaints(path, line_of(match.start()), match[1])
    for match in UNCOUNTED.finditer(code):
        yield Complaint(path, line_of(match.start()), "no memory",
                        "a failed allocation says how many bytes: ori_fail_nomem()")
    for match in NAME.finditer(STRING.sub(lambda m: " " * len(m[0]), code)):
        for part in retired_names(match[0]) if match[0] not in public else ():
            yield Complaint(path, line_of(match.start()), part,
                            f"{match[0]}: '{part}' is retired: {RETIRED_NAMES[part]}")


def head_complaints(path, text):
    """A source begins with a comment: what it is and, where that is not plain, who calls it."""
    head = COMMENT.match(re.sub(r"^(?:/\*|//) SPDX[^\n]*\n\s*", "", text))
    words = comment_text(head) if head else ""
    if len(words.split()) < 3 or re.fullmatch(r"Implements \S+", words):
        yield Complaint(path, 1, "", "no head: two or three lines say what it is and who calls it")


def python_complaints(path, text):
    """Retired words in names, comments and strings of the Python source @text."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        line = token.start[0]
        if token.type in (tokenize.COMMENT, tokenize.STRING):
            yield from prose_complaints(path, line, token.string)
        elif token.type == tokenize.NAME:
            for part in retired_names(token.string):
                yield Complaint(path, line, part, f"{token.string}: '{part}' is retired: "
                                                  + RETIRED_NAMES[part])


def script_complaints(path, text):
    """Retired words in the shell, CMake or make source @text, where prose and names look alike."""
    for number, line in enumerate(text.split("\n"), 1):
        yield from prose_complaints(path, number, line)
        for match in NAME.finditer(line.partition("#")[0]):
            for part in retired_names(match[0]):
                yield Complaint(path, number, part,
                                f"{match[0]}: '{part}' is retired: {RETIRED_NAMES[part]}")


def page_complaints(path, text):
    """Complaints about the page @text of @path; fenced code and `code` are left out."""
    text = re.sub(r"^```.*?^```", lambda m: "\n" * m[0].count("\n"), text,
                  flags=re.DOTALL | re.MULTILINE)
    for number, line in enumerate(re.sub(r"`[^`\n]*`", "`", text).split("\n"), 1):
        yield from prose_complaints(path, number, line)


def files(root, trees):
    for tree in trees:
        top = os.path.join(root, tree)
        if os.path.isfile(top):
            yield tree
        for folder, _, names in sorted(os.walk(top)):
            for name in sorted(names):
                path = os.path.relpath(os.path.join(folder, name), root)
                if not path.startswith(NOT_OURS) and (
                        name.endswith(SOURCES + PAGES + SCRIPTS + (".py",)) or "." not in name):
                    yield path


def read(root, path):
    with open(os.path.join(root, path), encoding="utf-8") as file:
        return file.read()


def public_names(root):
    """Names that a public header declares: if one is retired, the header alone gets a complaint."""
    return {name for path in files(root, ["include"]) for name in NAME.findall(read(root, path))
            if name.startswith("oriel_")}


def is_allowed(complaint):
    return any(complaint.word in words for tree, words in ALLOWED.items()
               if complaint.path == tree or complaint.path.startswith(tree + "/"))


def check(root, trees):
    """All complaints about @trees below @root."""
    public = public_names(root)
    for path in files(root, trees):
        if path in EXEMPT:
            continue
        text = read(root, path)
        if path.endswith(PAGES):
            complaints = page_complaints(path, text)
        elif path.endswith(".py"):
            complaints = python_complaints(path, text)
        elif not path.endswith(SOURCES):
            complaints = script_complaints(path, text)
        else:
            complaints = source_complaints(
                path, text, () if path.startswith("include/") else public)
            yield from head_complaints(path, text)
        yield from (c for c in complaints if not is_allowed(c))


# What --self-test reads: (a source, how many complaints it earns).
PLANTED = [
    ("/* The sender rings the doorbell. */", 0),
    ("/* What came is read. */", 1),
    ("/* Of those the first one wins. */", 1),
    ("/* Whoever posts waits. It is read. Who waits is woken. */", 3),
    ("/* The hub of a process. */", 1),
    ("int ori_hub_open(void);", 1),
    ("int doorbell, nearest, mailbox; /* so far */", 0),
    ('log("rank 2 has gone");', 1),
    ('log("tell me");', 0),
    ('return ori_fail(ORIEL_ERR_NOMEM, "no memory for a job");', 1),
    ('return ori_fail_nomem(sizeof(*job), "a job");', 0),
    ('return ori_fail(ORIEL_ERR_NOMEM, "more than %u rows", most);', 0),
    ("int is_told;", 1),
    ("/* Bytes of one line. */", 0),
    ("/* The old and heavy table of a rank beside the new window. */", 1),
    ("int a; /* the old and heavy table of a rank beside the new window */", 0),
    ("/* What does it cost? One store. */", 0),
]


PLANTED_OTHERS = {
    python_complaints: [
        ("adapter = nic  # of a hub\n", 2), ("nic = 'the rank that nobody awaits'\n", 1),
        ("nic = 'NIC'  # of a host\n", 0),
    ],
    script_complaints: [
        ("tell() {", 1), ("run x # the adapter is a thread", 1), ("add_test(NAME words)", 0),
    ],
    head_complaints: [
        ("/* SPDX-License-Identifier: Apache-2.0 */\n#include <a.h>\n", 1),
        ("/* SPDX-License-Identifier: Apache-2.0 */\n/* Implements a/b.h. */\n", 1),
        ("/* SPDX-License-Identifier: Apache-2.0 */\n/* Queues of a NIC. a.c calls it. */\n", 0),
        ("// SPDX-License-Identifier: Apache-2.0\n// Queues of a NIC. a.c calls it.\n", 0),
    ],
}


def self_test():
    """Complaints about this program: what it misses, what it makes up."""
    wrong = []
    for text, expected in PLANTED:
        found = list(source_complaints("planted.c", text))
        if len(found) != expected:
            wrong.append(f"{text}: {len(found)} complaints, not {expected}: {found}")
    name = "struct oriel_hub *ori_hub;"
    for public, expected in ((), 2), ({"oriel_hub"}, 1):
        found = list(source_complaints("planted.c", name, public))
        if len(found) != expected:
            wrong.append(f"{name} where {public} are public: {found}")
    for check_one, planted in PLANTED_OTHERS.items():
        for text, expected in planted:
            found = list(check_one("planted", text))
            if len(found) != expected:
                wrong.append(f"{text}: {len(found)} complaints, not {expected}: {found}")
    for path, allowed in ("tests/rxe/guest.c", True), ("tests/rxe.c", False), ("src/a.c", False):
        if is_allowed(Complaint(path, 1, "guest", "")) != allowed:
            wrong.append(f"ALLOWED: guest in {path}")
    missing = [tree for tree in [*TREES, *ALLOWED] if not os.path.exists(
        os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), tree))]
    return wrong + [f"a list has {tree}, which does not exist" for tree in missing]


def main():
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    if sys.argv[1:] == ["--self-test"]:
        complaints = self_test()
    else:
        complaints = [f"{c.path}:{c.line}: {c.text}"
                      for c in check(root, sys.argv[1:] or TREES)]
    for complaint in complaints:
        print(complaint)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
