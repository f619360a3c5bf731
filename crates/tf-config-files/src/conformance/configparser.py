# Reads texts as a JSON list, answers with what configparser makes of each: sections with their options, or null where it raises.
import configparser
import io
import json
import sys


def sections(text):
    parser = configparser.ConfigParser()
    try:
        # What open() does with a file: UTF-8, universal newlines.
        parser.read_file(io.TextIOWrapper(io.BytesIO(text.encode()), encoding="utf-8"))
        return {name: dict(parser.items(name)) for name in parser.sections()}
    except configparser.Error:
        return None


json.dump([sections(text) for text in json.load(sys.stdin)], sys.stdout)
