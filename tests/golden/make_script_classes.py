#!/usr/bin/env python3
"""Prints the ranges of engine/text/pipeline/script_classes.cpp: first, last, number of a script. Two code points have one
script where the library's UnicodeScripts does not cut between them; one that it drops alone has none.
make_script_classes.py    needs tokenizers"""
from tokenizers import pre_tokenizers

SPLITTER = pre_tokenizers.UnicodeScripts()


def words(code_points):
    return SPLITTER.pre_tokenize_str("".join(map(chr, code_points)))


def main():
    with_script = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000 and words([c])]
    starts = [span[0] for _, span in words(with_script)] + [len(with_script)]
    first_of_script, ranges = [], []
    for begin, end in zip(starts, starts[1:]):
        run = with_script[begin:end]
        known = (i for i, first in enumerate(first_of_script) if len(words([first, run[0]])) == 1)
        script = next(known, len(first_of_script))
        if script == len(first_of_script):
            first_of_script.append(run[0])
        for c in run:
            if ranges and ranges[-1][1:] == [c - 1, script]:
                ranges[-1][1] = c
            else:
                ranges.append([c, c, script])
    for first, last, script in ranges:
        print(f"{{0x{first:X}, 0x{last:X}, {script}}},")


if __name__ == "__main__":
    main()
