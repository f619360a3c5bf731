# Reads texts as a JSON list, answers with what PyYAML makes of each. Status 77: PyYAML is not installed.
import json
import sys

try:
    import yaml
except ImportError:
    sys.exit(77)

json.dump([yaml.safe_load(text.encode()) for text in json.load(sys.stdin)], sys.stdout)
