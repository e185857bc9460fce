"""A diagnosis as one HTML page that needs nothing but itself, and as JSON."""

from __future__ import annotations

import json

import jinja2

from sibling_replay.microscope.view import ESS_NOTE, SAMPLE_NOTE, Diagnosis


def page_of(view: Diagnosis) -> str:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("sibling_replay.microscope"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    template = environment.get_template("microscope.html")
    return template.render(view=view, notes=(SAMPLE_NOTE, ESS_NOTE))


def json_of(view: Diagnosis) -> str:
    return json.dumps(view.data, indent=2, allow_nan=False) + "\n"
