"""Reads lines of {"format", "text"} and writes those that a validator refuses, with its words.

python's jsonschema with its checkers, and pydantic's types where it has one:
    pip install "jsonschema[format]" "pydantic[email]"
"""

import ipaddress
import json
import re
import sys
from datetime import date, datetime, time, timedelta
from uuid import UUID

import pydantic
from jsonschema import Draft202012Validator, FormatChecker

TYPES = {
    "date": date,
    "time": time,
    "date-time": datetime,
    "duration": timedelta,
    "email": pydantic.EmailStr,
    "idn-email": pydantic.EmailStr,
    "ipv4": ipaddress.IPv4Address,
    "ipv6": ipaddress.IPv6Address,
    "uri": pydantic.AnyUrl,
    "iri": pydantic.AnyUrl,
    "uuid": UUID,
}

checker = Draft202012Validator.FORMAT_CHECKER
adapters = {name: pydantic.TypeAdapter(kind) for name, kind in TYPES.items()}
unchecked = set()

for line in sys.stdin:
    name, text = (case := json.loads(line))["format"], case["text"]
    faults = []
    if name in checker.checkers:
        if not checker.conforms(text, name):
            faults.append("jsonschema")
    else:
        unchecked.add(name)
    if name in adapters:
        try:
            adapters[name].validate_python(text)
        except pydantic.ValidationError as error:
            faults.append(error.errors()[0]["msg"])
    if name == "regex":
        try:
            re.compile(text)
        except re.error as error:
            faults.append(str(error))
    if faults:
        print(json.dumps({**case, "faults": faults}, ensure_ascii=False))

print(json.dumps({"unchecked": sorted(unchecked)}))
