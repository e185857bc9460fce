"""What MkDocs calls while it builds the site."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from mkdocs.structure.files import File

sys.path.insert(0, str(Path(__file__).parent))

import site_blocks

SOURCES = site_blocks.ROOT / "src" / "sibling_replay"
COPY = site_blocks.ROOT / ".cache" / "reference" / "sibling_replay"  # `paths` in mkdocs.yml
ELSEWHERE, HERE = "https://unpkg.com/iframe-worker/shim", "assets/worker_in_frame.js"


def on_startup(command, dirty):
    """Copy the sources for the reference. It is read by Griffe, which passes over folders without
    an `__init__.py`, such as `replay/`: in the copy every folder has one."""
    shutil.rmtree(COPY, ignore_errors=True)
    for source in SOURCES.rglob("*.py"):
        place = COPY / source.relative_to(SOURCES)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, place)
        (place.parent / "__init__.py").touch()


def on_files(files, config):
    """Draw the figures that pages ask for, unless there are no runs of them."""
    for page in files.documentation_pages():
        for name in site_blocks.figures_in(page.content_string):
            uri = f"{site_blocks.FIGURES}/{name}.png"
            content = site_blocks.figure_png(name) if uri not in files.src_uris else None
            if content is not None:
                files.append(File.generated(config, uri, content=content))
    return files


def on_page_markdown(markdown, page, config, files):
    """Fill the blocks."""
    return site_blocks.filled(markdown, "../" * page.file.src_uri.count("/"))


def on_post_template(output_content, template_name, config):
    """The same for 404.html, whose links are of a server's root."""
    return output_content.replace(ELSEWHERE, f"/{HERE}")


def on_post_page(output, page, config):
    """No script from another host: Material's offline search would fetch one."""
    return output.replace(ELSEWHERE, "../" * page.file.src_uri.count("/") + HERE)
