# Writes cases.json beside it: what Starlette's CORSMiddleware answers. Run with: pip install starlette==1.10.0 httpx
import json
import pathlib

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient

ORIGINS = (["*"], ["https://a.example", "http://b.example:8080"])
RULES = ((["*"], ["*"]), (["GET", "POST"], ["X-Key", "content-type"]), (["*"], []))

requests = []
for origin in (None, "https://a.example", "https://evil.example", "null"):
    requests.append(("GET", {"origin": origin}))
    requests.append(("GET", {"origin": origin, "cookie": "a=b"}))
    if origin is None:
        continue
    requests.append(("OPTIONS", {"origin": origin}))
    for method in ("POST", "DELETE"):
        for headers in (None, "X-Key, Content-Type", "x-other"):
            asked = {"origin": origin, "access-control-request-method": method}
            requests.append(("OPTIONS", {**asked, "access-control-request-headers": headers}))
private = {"access-control-request-private-network": "true"}
requests.append(("OPTIONS", {**asked, **private}))

lines = []
for credentials in (False, True):
    for origins in ORIGINS:
        for methods, headers in RULES:
            options = {"credentials": credentials, "origins": origins, "methods": methods, "headers": headers}
            cors = Middleware(
                CORSMiddleware,
                allow_origins=origins,
                allow_methods=methods,
                allow_headers=headers,
                allow_credentials=credentials,
            )
            route = Route("/", lambda _: PlainTextResponse("page"), methods=["GET", "OPTIONS"])
            client = TestClient(Starlette(routes=[route], middleware=[cors]))
            answers = []
            for method, asked in requests:
                asked = {name: value for name, value in asked.items() if value is not None}
                got = client.request(method, "/", headers=asked)
                kept = {
                    name.lower(): value
                    for name, value in got.headers.items()
                    if name.lower().startswith("access-control-") or name.lower() == "vary"
                }
                answers.append([method, asked, got.status_code, got.text, kept])
            rows = ",\n".join(json.dumps(answer, separators=(",", ":")) for answer in answers)
            lines.append(f'{{"options":{json.dumps(options)},"answers":[\n{rows}]}}')
pathlib.Path(__file__).with_name("cases.json").write_text("[" + ",\n".join(lines) + "]\n")
