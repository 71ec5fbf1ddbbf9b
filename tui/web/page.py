"""The page that holds the terminal. All of it comes from the server itself: boxes without Internet show it too."""

from __future__ import annotations

from html import escape

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>{title}</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="{base}/static/css/xterm.css">
<style nonce="{nonce}">
@font-face {{ font-family: "Roboto Mono"; src: url("{base}/static/fonts/RobotoMono-VariableFont_wght.ttf");
  font-weight: 100 700; }}
@font-face {{ font-family: "Roboto Mono"; src: url("{base}/static/fonts/RobotoMono-Italic-VariableFont_wght.ttf");
  font-style: italic; font-weight: 100 700; }}
html, body {{ margin: 0; height: 100%; background: #121212; overflow: hidden; }}
#terminal {{ width: 100vw; height: 100vh; }}
#over {{ display: none; position: fixed; inset: 0; background: #121212; color: #e0e0e0; z-index: 20;
  font: 16px "Roboto Mono", monospace; align-items: center; justify-content: center;
  flex-direction: column; gap: 1.5em; }}
body.-closed #over {{ display: flex; }}
#said {{ max-width: 90vw; max-height: 60vh; margin: 0; overflow: auto; white-space: pre-wrap; color: #ffb4a8;
  font: inherit; }}
#said:empty {{ display: none; }}
#over button {{ font: inherit; padding: .5em 1.5em; }}
</style>
<script nonce="{nonce}">
document.fonts.load('16px "Roboto Mono"');
window.WebSocket = class extends WebSocket {{
  constructor(...where) {{
    super(...where);
    this.addEventListener("message", (event) => {{
      const [kind, text] = typeof event.data === "string" ? JSON.parse(event.data) : [];
      if (kind === "said") document.getElementById("said").textContent = text;
    }});
  }}
}};
addEventListener("DOMContentLoaded", () => document.getElementById("again").onclick = () => location.reload());
</script>
<script src="{base}/static/js/textual.js"></script>
</head>
<body>
<div id="terminal" class="textual-terminal" data-session-websocket-url="{websocket}" data-font-size="{font_size}"></div>
<div id="over"><div>This tab has left the deck, which stops nothing.</div><pre id="said"></pre>
<button id="again">Open again</button></div>
</body>
</html>
"""

_POLICY = (
    "default-src 'none'; script-src 'self' 'nonce-{nonce}'; style-src 'self' 'unsafe-inline'; font-src 'self'; "
    "img-src 'self' data:; connect-src 'self' {websocket}; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)


def page(title: str, base: str, websocket: str, nonce: str, font_size: int) -> str:
    """*base*: what addresses begin with. *websocket*: its whole address. *nonce*: as in `headers`."""
    return _PAGE.format(
        title=escape(title), base=base, websocket=escape(websocket, quote=True), nonce=nonce, font_size=font_size
    )


def headers(websocket: str, nonce: str) -> dict[str, str]:
    """What a browser may do with the page."""
    return {"Content-Security-Policy": _POLICY.format(nonce=nonce, websocket=websocket)}
